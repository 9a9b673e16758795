"""Makes the archive of Spark's classes (see `app.reports.class_archive`) with a report of an empty cluster.

    python -m app.reports.class_recording [--archive FILE] [--java-home FOLDER] [--parent PID]

Without --archive it makes the archive of the installation, as `make setup` does; then the first report has it too. It
takes half a minute at the lowest priority. Exit codes: 0 there is an archive, 1 this Java or Spark cannot write one,
2 wrong use.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from app.child_environment import python_environment
from app.reports.class_archive import INSTALLED, class_archive, keep, recording, unfinished
from app.reports.export import export_image
from app.reports.java import JavaMissingError, find_java
from app.reports.job import end_with
from kraft_core.image.metadata_image import MetadataImage

NICE: Final = 19


def record_classes(archive: Path, folder: Path, java_home: str) -> bool:
    """Run a report in `folder` and archive its classes. Returns False if this Java cannot write an archive.

    The JVM writes the archive when it ends, after its driver. Both print into one pipe, so its end is the end of both.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    export_image(MetadataImage.EMPTY, "none", folder / "snapshot")
    command = [sys.executable, "-m", "app.reports.job", "--snapshot", str(folder / "snapshot")]
    command += ["--out", str(folder / "out"), "--events", str(folder / "events"), "--parent", str(os.getpid())]
    done = subprocess.run(
        [*command, "--java-options", recording(archive)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env={**python_environment(), "JAVA_HOME": java_home, "PYSPARK_PYTHON": sys.executable},
        start_new_session=True,
    )
    if done.returncode == 0 and keep(archive):
        return True
    sys.stderr.buffer.write(done.stdout)
    unfinished(archive).unlink(missing_ok=True)
    return False


def main() -> int:
    """Make the archive unless it is there."""
    parser = argparse.ArgumentParser(prog="python -m app.reports.class_recording")
    parser.add_argument("--archive", type=Path, metavar="FILE", help="default: that of the installation")
    parser.add_argument("--java-home", default="", metavar="FOLDER", help="default: as reports find it")
    parser.add_argument("--parent", type=int, metavar="PID", help="end with this process")
    options = parser.parse_args()
    os.nice(NICE)
    if options.parent is not None:
        end_with(options.parent)
    with tempfile.TemporaryDirectory(prefix="conclave-classes-") as folder:
        try:
            home = find_java(Path(folder), options.java_home).home
        except JavaMissingError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        archive = options.archive or class_archive(INSTALLED, home)
        if archive is None:
            sys.stderr.write("PySpark is not installed, so there is nothing to archive\n")
            return 1
        return 0 if archive.exists() or record_classes(archive, Path(folder), str(home)) else 1


if __name__ == "__main__":
    sys.exit(main())
