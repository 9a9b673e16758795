"""`python -m benchmarks.client_worker CLIENT JOB ADDRESS TOPIC PARTITIONS COUNT SIZE`: one job of one client, alone.

Prints a JSON object: `records`, `seconds` and `cpu_seconds` of the measured part, or `latencies_ms`, or `megabytes` of
resident memory that the clients added. Every client has the same settings; see docs/benchmarks.md.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

WARM_UP: Final = 3_000
PACE_S: Final = 0.005
"""Pause between two records whose latency is measured."""


@dataclass
class Job:
    """One measurement. The adapter calls `start` after its warm-up and `stop` when the work is done."""

    address: str
    topic: str
    partitions: int
    count: int
    size: int
    result: dict[str, object] = field(default_factory=dict)
    _began: tuple[float, float] = (0.0, 0.0)

    @property
    def value(self) -> bytes:
        """The value of every record."""
        return b"v" * self.size

    def start(self) -> None:
        """Begin to measure."""
        self._began = (time.perf_counter(), time.process_time())

    def stop(self, records: int) -> None:
        """End the measured part."""
        wall, cpu = self._began
        seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
        self.result = {"records": records, "seconds": seconds, "cpu_seconds": cpu_seconds}


class Adapter(Protocol):
    """One client, as the jobs use it. Each method runs a whole job."""

    def produce(self, job: Job) -> None:
        """Send WARM_UP records, then measure `count` records until all are acknowledged."""

    def consume(self, job: Job) -> None:
        """Read WARM_UP records from the beginning, then measure `count` records."""

    def latency(self, job: Job) -> None:
        """Send `count` records, PACE_S apart, and read them; linger is 0."""

    def partitions(self, job: Job) -> None:
        """Send a record to each of `count` partitions and read from all of them."""


def resident_mb() -> float:
    """Return the resident memory of this process in MB."""
    status = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def stamp() -> bytes:
    """Return the time as the value of a record."""
    return b"%d" % time.perf_counter_ns()


def age_ms(value: bytes | None) -> float:
    """Return the age of a stamped value in ms."""
    assert value is not None
    return (time.perf_counter_ns() - int(value)) / 1e6


def adapter_of(client: str) -> Adapter:
    """Return the adapter of a client. Imports the client."""
    if client == "ours":
        from benchmarks.client_adapters.ours import Ours

        return Ours()
    if client == "aiokafka":
        from benchmarks.client_adapters.with_aiokafka import WithAiokafka

        return WithAiokafka()
    if client == "kafka-python":
        from benchmarks.client_adapters.with_kafka_python import WithKafkaPython

        return WithKafkaPython()
    if client == "librdkafka":
        from benchmarks.client_adapters.with_librdkafka import WithLibrdkafka

        return WithLibrdkafka()
    raise ValueError(f"unknown client {client}")


def main(arguments: list[str]) -> None:
    """Run the job and print its result."""
    client, name, address, topic, partitions, count, size = arguments
    adapter = adapter_of(client)
    jobs: dict[str, Callable[[Job], None]] = {
        "produce": adapter.produce,
        "consume": adapter.consume,
        "latency": adapter.latency,
        "partitions": adapter.partitions,
    }
    job = Job(address, topic, int(partitions), int(count), int(size))
    jobs[name](job)
    print(json.dumps(job.result))


if __name__ == "__main__":
    main(sys.argv[1:])
