"""`python -m tests.needs`: say in one line each what is missing for a part of the tests; in CI that is a failure.

The parts that lack something are skipped, everything else runs.
"""

import os
import shutil
import sys
from pathlib import Path

POSTGRESQL_FOLDERS = ("/usr/lib/postgresql", "/usr/local/pgsql", "/opt/homebrew/opt")


def has_postgresql() -> bool:
    """Whether PostgreSQL's server programs are installed; they are seldom on PATH."""
    return shutil.which("initdb") is not None or any(
        next(Path(folder).glob("**/bin/initdb"), None) is not None
        for folder in POSTGRESQL_FOLDERS
        if Path(folder).is_dir()
    )


def missing() -> list[str]:
    """One line for each thing that is not here."""
    jars = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "apache-kafka"
    lines = []
    if shutil.which("javac") is None:
        lines.append("A JDK 17 or newer is missing (apt install default-jdk-headless): no tests with Apache Kafka")
    if shutil.which("mvn") is None and not jars.is_dir():
        lines.append("Maven is missing (apt install maven): no tests with Apache Kafka")
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        lines.append("Chromium is missing (apt install chromium): no tests in a browser")
    if shutil.which("kcat") is None:
        lines.append("kcat is missing (apt install kcat): no tests with kcat")
    if not has_postgresql():
        lines.append("PostgreSQL is missing (apt install postgresql): no tests on PostgreSQL")
    return lines


def main() -> int:
    """Print what is missing; exit 1 in CI if anything is."""
    lines = missing()
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines and os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
