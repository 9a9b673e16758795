"""`python -m benchmarks.checkpoints [PARTITIONS]`: offline reports of one checkpoint, by the plain reader and by Spark.

Prints for each the time, the greatest memory of all its processes together (proportional set size, sampled four times a
second) and the hash of the report.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from benchmarks.report_image import BROKERS, _brokers, _topic
from kraft_core.protocol.control_records import SnapshotFooterRecord, SnapshotHeaderRecord, encode_control_batch
from kraft_core.protocol.metadata_records import RegisterBrokerRecord, encode_record
from kraft_core.protocol.record_batch import encode_batch

TOPIC_PARTITIONS = 50
BATCH_RECORDS = 2_000
PLAIN = 1 << 40
WAYS = {"plain reader": PLAIN, "Spark's data source": 0}
PROGRAM = """
import sys
from pathlib import Path
from app.cli import reports_offline
reports_offline.PLAIN_PARTITIONS_MAX = int(sys.argv[3])
print(reports_offline.make_report(Path(sys.argv[1]), Path(sys.argv[2]))["header"]["content_sha256"])
"""


def write_checkpoint(folder: Path, partitions: int) -> Path:
    """Write a checkpoint of a random cluster."""
    random = Random(1)
    brokers = list(_brokers(random, BROKERS))
    directories = [record.log_dirs[0] for record in brokers if isinstance(record, RegisterBrokerRecord)]
    path = folder / f"{partitions:020d}-{1:010d}.checkpoint"
    with path.open("wb") as file:
        file.write(encode_control_batch(0, 1, 0, [SnapshotHeaderRecord()]))
        offset, values = 1, []
        topics = (
            record
            for number in range(partitions // TOPIC_PARTITIONS)
            for record in _topic(random, f"topic-{number:06d}", TOPIC_PARTITIONS, directories)
        )
        for records in (brokers, topics):
            for record in records:
                values.append(encode_record(record, type(record).VERSIONS[1]))
                if len(values) == BATCH_RECORDS:
                    file.write(encode_batch(offset, 1, 0, values))
                    offset += len(values)
                    values = []
        if values:
            file.write(encode_batch(offset, 1, 0, values))
        file.write(encode_control_batch(offset + len(values), 1, 0, [SnapshotFooterRecord()]))
    return path


def _memory(group: int) -> float:
    """Return the proportional set size, in MB, of a process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    total, found = 0, [group]
    while found:
        process = found.pop()
        found += children.get(process, [])
        with suppress(OSError):
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def main() -> None:
    """Measure both ways."""
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = write_checkpoint(Path(folder), partitions)
        print(f"{partitions} partitions, {path.stat().st_size / 1e6:.0f} MB, load {os.getloadavg()[0]:.1f}")
        for name, limit in WAYS.items():
            started, peak = time.monotonic(), 0.0
            command = [sys.executable, "-c", PROGRAM, str(path), f"{folder}/{limit}", str(limit)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                while process.poll() is None:
                    peak = max(peak, _memory(process.pid))
                    time.sleep(0.25)
                assert process.stdout is not None, "it is a pipe"
                digest = process.stdout.read().strip()
            print(f"{name}: {time.monotonic() - started:.1f} s, {peak:.0f} MB, {digest}, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
