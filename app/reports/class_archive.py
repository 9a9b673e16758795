"""Spark's classes in a file that its JVM maps instead of loading and verifying them: class data sharing (JEP 350).

Loading and verifying Spark's classes is a good third of what a small report costs. So the second report of a folder
is followed by one more run of its job, at the lowest priority and for nobody to see, whose JVM writes that file when it
ends (some 180 MB); later reports start with it. A file of another build of Java or Spark has another name, and a JVM
that cannot use the file it is given goes on without.
"""

import hashlib
import importlib.util
from pathlib import Path

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def class_archive(folder: Path, java_home: Path) -> Path | None:
    """Name the file for this Java and the installed Spark in `folder`; it may not exist. None without Spark."""
    spark = importlib.util.find_spec("pyspark")
    java = (java_home / "bin" / "java").resolve()
    if spark is None or spark.origin is None:
        return None
    jars = Path(spark.origin).parent / "jars"
    builds = [f"{path} {path.stat().st_mtime_ns}" for path in (java, jars) if path.exists()]
    return folder / f"spark-classes-{hashlib.sha256(' '.join(builds).encode()).hexdigest()[:12]}.jsa"


def using(archive: Path | None) -> str:
    """Options of a JVM that uses the file, if it is there."""
    return f'-XX:SharedArchiveFile="{archive}" {_QUIET}' if archive is not None and archive.exists() else ""


def recording(archive: Path) -> str:
    """Options of a JVM that writes the file, under another name first, when it ends."""
    return f'-XX:ArchiveClassesAtExit="{unfinished(archive)}" {_QUIET}'


def unfinished(archive: Path) -> Path:
    """Where the JVM writes before the file has its name."""
    return archive.with_suffix(".new")


def keep(archive: Path) -> bool:
    """Give the file that a JVM has written its name, and drop those of other builds. False if it wrote none."""
    if not unfinished(archive).exists():
        return False
    for other in archive.parent.glob("spark-classes-*.jsa"):
        other.unlink()
    unfinished(archive).replace(archive)
    return True
