"""An archive of Spark's classes that a JVM maps instead of loading and verifying them: class data sharing (JEP 350).

Loading and verifying Spark's classes is half of what a small report costs. So `app.reports.class_recording` runs a
report of an empty cluster, and its JVM writes the archive (about 160 MB) when it ends. `make setup` runs it for the
installation. A web process that finds no archive runs it after its first report, for the folder of its reports. The
name contains the build of Java and Spark, and a JVM that cannot use an archive ignores it.
"""

import hashlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Final

INSTALLED: Final = Path(sys.prefix, "share", "conclave")
"""The folder of the installation's archive."""

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def class_archive(folder: Path, java_home: Path) -> Path | None:
    """Return the path of the archive for this Java and Spark. None without Spark.

    It is the archive of the installation if that exists, else the one in `folder`, which may not exist yet.
    """
    spark = importlib.util.find_spec("pyspark")
    java = (java_home / "bin" / "java").resolve()
    if spark is None or spark.origin is None:
        return None
    jars = Path(spark.origin).parent / "jars"
    builds = [f"{path} {path.stat().st_mtime_ns}" for path in (java, jars) if path.exists()]
    name = f"spark-classes-{hashlib.sha256(' '.join(builds).encode()).hexdigest()[:12]}.jsa"
    installed = INSTALLED / name
    return installed if installed.exists() else folder / name


def using(archive: Path | None) -> str:
    """Return the options of a JVM that uses the archive, if it exists."""
    return f'-XX:SharedArchiveFile="{archive}" {_QUIET}' if archive is not None and archive.exists() else ""


def recording(archive: Path) -> str:
    """Return the options of a JVM that writes the archive when it ends, first under another name."""
    return f'-XX:ArchiveClassesAtExit="{unfinished(archive)}" {_QUIET}'


def unfinished(archive: Path) -> Path:
    """Return the path to which this process's JVM writes before the archive has its name."""
    return archive.with_suffix(f".{os.getpid()}")


def keep(archive: Path) -> bool:
    """Rename a finished archive to its name, and delete those of other builds. Returns False if the JVM wrote none."""
    if not unfinished(archive).exists():
        return False
    for other in archive.parent.glob("spark-classes-*.jsa"):
        other.unlink()
    unfinished(archive).replace(archive)
    return True
