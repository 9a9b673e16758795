"""Log files as kafka-dump-log and `conclave dump-log` print them."""

import subprocess
import sys
from pathlib import Path

from tests.interop.admin import tools
from tests.interop.kafka import PATIENCE_S
from tests.interop.log_files import partition_folder


def conclave(*arguments: object) -> str:
    """Run one of our commands and return its output. The test fails if the command fails."""
    outcome = attempt(*arguments)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


def attempt(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run one of our commands that may fail."""
    command = [sys.executable, "-m", "app.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def files_of(folder: Path) -> list[Path]:
    """Return the files in a node's folder that can be dumped: bootstrap, snapshots, segments."""
    data = partition_folder(folder)
    return sorted([*(folder / "data").glob("*.checkpoint"), *data.glob("*.checkpoint"), *data.glob("*.log")])


def dumped_by_apache(jvm: tools.Tools, paths: list[Path]) -> list[str]:
    """Return the lines of kafka-dump-log without headings."""
    files = ",".join(map(str, paths))
    return _records(jvm.run(tools.DUMP_LOG, "--cluster-metadata-decoder", "--files", files))


def dumped_by_us(paths: list[Path]) -> list[str]:
    """Return the lines of conclave dump-log without headings."""
    return _records(conclave("dump-log", *paths))


def _records(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.startswith(("baseOffset", "| offset"))]


def index_report(jvm: tools.Tools, folder: Path, *options: str) -> list[str]:
    """Return what kafka-dump-log reports on the indexes of all segments, without headings."""
    paths = [path for suffix in ("index", "timeindex") for path in sorted(partition_folder(folder).glob(f"*.{suffix}"))]
    printed = jvm.run(tools.DUMP_LOG, *options, "--files", ",".join(map(str, paths)))
    return [line for line in printed.splitlines() if not line.startswith("Dumping ")]
