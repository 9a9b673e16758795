"""An archive of Spark's classes that a JVM maps instead of loading and verifying them: class data sharing (JEP 350).

Loading and verifying Spark's classes takes a third of the time of a small report. So after the second report of a
folder the job runs once more, at the lowest priority and without a result, and its JVM writes the archive (about 180
MB) when it ends. Later reports use it. The name contains the build of Java and Spark, and a JVM that cannot use an
archive ignores it.
"""

import hashlib
import importlib.util
from pathlib import Path

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def class_archive(folder: Path, java_home: Path) -> Path | None:
    """Return the path of the archive for this Java and Spark in `folder`, which may not exist. None without Spark."""
    spark = importlib.util.find_spec("pyspark")
    java = (java_home / "bin" / "java").resolve()
    if spark is None or spark.origin is None:
        return None
    jars = Path(spark.origin).parent / "jars"
    builds = [f"{path} {path.stat().st_mtime_ns}" for path in (java, jars) if path.exists()]
    return folder / f"spark-classes-{hashlib.sha256(' '.join(builds).encode()).hexdigest()[:12]}.jsa"


def using(archive: Path | None) -> str:
    """Return the options of a JVM that uses the archive, if it exists."""
    return f'-XX:SharedArchiveFile="{archive}" {_QUIET}' if archive is not None and archive.exists() else ""


def recording(archive: Path) -> str:
    """Return the options of a JVM that writes the archive when it ends, first under another name."""
    return f'-XX:ArchiveClassesAtExit="{unfinished(archive)}" {_QUIET}'


def unfinished(archive: Path) -> Path:
    """Return the path to which the JVM writes before the archive has its name."""
    return archive.with_suffix(".new")


def keep(archive: Path) -> bool:
    """Rename a finished archive to its name, and delete those of other builds. Returns False if the JVM wrote none."""
    if not unfinished(archive).exists():
        return False
    for other in archive.parent.glob("spark-classes-*.jsa"):
        other.unlink()
    unfinished(archive).replace(archive)
    return True
