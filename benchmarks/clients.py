"""Clients beside each other on one broker: ours, aiokafka, kafka-python and librdkafka.

Each job is a process of its own (benchmarks.client_worker); the clients take turns. The broker is Apache's, registered
with a controller of ours, or a node of ours when Apache Kafka is left out.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Figure
from benchmarks.load import percentile
from benchmarks.plan import Plan
from benchmarks.sides import OURS, Side, apache_command
from conclave.testing import Cluster
from conclave.testing.blocking_request import ask
from conclave.testing.free_ports import free_ports
from kraft_core.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestCreatePartitionsTopic,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.interop import conclave, kafka

CLIENTS: Final = (
    OURS,
    Side("aiokafka", is_apache=False),
    Side("kafka-python", is_apache=False),
    Side("librdkafka", is_apache=False),
)
PARTITIONS: Final = 6
ONE_REQUEST_MAX: Final = 5_000
SMALL: Final = 100
LARGE: Final = 1_000


@contextmanager
def _broker(plan: Plan) -> Iterator[str]:
    """Yield the address of a broker."""
    if not plan.has_apache:
        with Cluster() as cluster:
            yield cluster.bootstrap_servers
        return
    with (
        tempfile.TemporaryDirectory(prefix="conclave-bench-", ignore_cleanup_errors=True) as folder,
        conclave.running_quorum(Path(folder) / "quorum", 1) as quorum,
    ):
        home = Path(folder) / "broker"
        home.mkdir()
        (port,) = free_ports(1)
        settings = kafka.broker_settings(101, port, home, quorum.bootstrap)
        config = kafka.write_properties(home / "server.properties", settings)
        kafka.format_storage(config, quorum.cluster_id, "-N")
        command = [*apache_command(), "kafka.Kafka", str(config)]
        with kafka.Process("apache-broker", command, home) as process:
            kafka.wait_until(lambda: _answers(port), kafka.PATIENCE_S, "the broker answers")
            assert process.alive, process.output
            yield f"127.0.0.1:{port}"


def _answers(port: int) -> bool:
    try:
        answer = ask(port, MetadataRequest(topics=()), 12)
        assert isinstance(answer, MetadataResponse)
        return bool(answer.brokers)
    except OSError:
        return False


def _create_topic(address: str, name: str, partitions: int) -> None:
    topic = CreateTopicsRequestCreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    answer = ask(int(address.rpartition(":")[2]), CreateTopicsRequest(topics=(topic,)), 7, 120)
    assert isinstance(answer, CreateTopicsResponse)
    assert answer.topics[0].error_code == 0, answer


def _create_wide_topic(address: str, name: str, partitions: int) -> None:
    """Create a topic in two steps: a controller refuses requests that write over 10,000 records."""
    _create_topic(address, name, min(partitions, ONE_REQUEST_MAX))
    if partitions > ONE_REQUEST_MAX:
        topic = CreatePartitionsRequestCreatePartitionsTopic(name=name, count=partitions, assignments=None)
        request = CreatePartitionsRequest(topics=(topic,), timeout_ms=60_000)
        answer = ask(int(address.rpartition(":")[2]), request, 3, 120)
        assert isinstance(answer, CreatePartitionsResponse)
        assert answer.results[0].error_code == 0, answer


def _run(side: Side, job: str, address: str, topic: str, partitions: int, count: int, size: int) -> dict[str, Any]:
    """Run one job in a process of its own and return its result."""
    arguments = [side.name, job, address, topic, str(partitions), str(count), str(size)]
    command = [sys.executable, "-m", "benchmarks.client_worker", *arguments]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if outcome.returncode != 0:
        raise AssertionError(f"{' '.join(arguments)} failed:\n{outcome.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(outcome.stdout)
    return result


class _Throughput:
    """Figures of one job with records of one size."""

    def __init__(self, job: str, size: int) -> None:
        self.job = job
        self.size = size
        what = f"{job} {size} B"
        self.rate = Figure(what, "records/s", more_is_better=True, sides=CLIENTS)
        self.bytes = Figure(what, "MB/s", more_is_better=True, sides=CLIENTS)
        self.cpu = Figure(f"{what}, CPU", "s/million", sides=CLIENTS)
        self.figures = [self.rate, self.bytes, self.cpu]

    def measure(self, side: Side, address: str, topic: str, count: int) -> None:
        """Run the job once."""
        result = _run(side, self.job, address, topic, PARTITIONS, count, self.size)
        per_second = result["records"] / result["seconds"]
        self.rate.add(side, per_second)
        self.bytes.add(side, per_second * self.size / 1e6)
        self.cpu.add(side, result["cpu_seconds"] / result["records"] * 1e6)


def _warm_up(address: str, plan: Plan) -> None:
    """Let the broker's JIT compile what producing and consuming need, before the first client is measured."""
    for size in (SMALL, LARGE):
        topic = f"warm-up-{size}"
        _create_topic(address, topic, PARTITIONS)
        for job in ("produce", "consume"):
            _run(OURS, job, address, topic, PARTITIONS, plan.count(200_000, 1_000), size)


def _in_order(round_number: int) -> tuple[Side, ...]:
    """Return the clients, the last one first in every second round: the broker and the machine change with time."""
    return CLIENTS[::-1] if round_number % 2 else CLIENTS


def clients(plan: Plan) -> list[Figure]:
    """Measure producing and consuming records of 100 and 1,000 bytes, latency, and memory with 10,000 partitions."""
    jobs = [(_Throughput("produce", size), _Throughput("consume", size)) for size in (SMALL, LARGE)]
    middle, tail = (
        Figure("produce to consume, p50", "ms", sides=CLIENTS),
        Figure("produce to consume, p99", "ms", sides=CLIENTS),
    )
    partitions = plan.count(10_000, 10)
    memory = Figure(f"memory with {partitions:,} partitions", "MB", sides=CLIENTS)
    with _broker(plan) as address:
        _warm_up(address, plan)
        turns = [(number, side) for number in range(plan.rounds) for _, side in plan.once().turns(_in_order(number))]
        for number, side in turns:
            name = f"{side.name}-{number}"
            for produce, consume in jobs:
                topic = f"{name}-{produce.size}"
                _create_topic(address, topic, PARTITIONS)
                count = plan.count(400_000 if produce.size == SMALL else 200_000, 1_000)
                produce.measure(side, address, topic, count)
                consume.measure(side, address, topic, count)
            _create_topic(address, f"{name}-latency", 1)
            latencies = _run(side, "latency", address, f"{name}-latency", 1, plan.count(1_000, 20), 0)["latencies_ms"]
            middle.add(side, percentile(latencies, 0.5))
            tail.add(side, percentile(latencies, 0.99))
        _create_wide_topic(address, "wide", partitions)
        for _, side in plan.once().turns(CLIENTS):
            memory.add(side, _run(side, "partitions", address, "wide", partitions, partitions, SMALL)["megabytes"])
    return [figure for pair in jobs for job in pair for figure in job.figures] + [middle, tail, memory]
