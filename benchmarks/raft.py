"""Raft without a controller: commit latency and appends per second, compared with Apache's TestRaftServer.

Both servers generate the same load (benchmarks.raft_load) and print the same line about the latency from append to
commit. The committed amount is read from outside, for both in the same way: the high watermark in the answer to an
observer's Fetch. Apache's side is kafka.tools.TestRaftServer in kafka_2.13-4.3.1.jar.
"""

import re
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast
from uuid import UUID

from benchmarks.figures import Figure, shown
from benchmarks.load import read_answer
from benchmarks.plan import Plan
from benchmarks.sides import WITH_LINGER, Side, apache_command
from conclave.testing.free_ports import free_ports
from kraft_core.clients.quorum_fetch import fetch_partition
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
    FetchResponse,
    FetchResponsePartitionData,
)
from kraft_core.protocol.uuids import METADATA_TOPIC_ID, uuid_to_text
from tests.interop import kafka

RECORD_BYTES: Final = 256
ONE_BY_ONE: Final = 100
"""Appends per second that do not overlap."""
DEFAULT_RATE: Final = 5_000
"""Default of TestRaftServer."""
FIRST_RATE: Final = 25_000
LAST_RATE: Final = 800_000
SUSTAINED: Final = 0.95
LATENCY_S: Final = 66
"""The last line then covers the second window of 30 s and later; the first one warms up the JIT."""
ALONE_S: Final = 26
WARM_UP_S: Final = 8
MEASURED_S: Final = 8
WAIT_S: Final = 60.0
FETCH_VERSION: Final = 17
APACHE_TOPIC_ID: Final = UUID(int=2)
_LINE: Final = re.compile(r"^Throughput .*Latency \(ms\): ([\d.]+) p75 ([\d.]+) p99 ([\d.]+) p999", re.MULTILINE)
_STOPPED: Final = "Error due to"
"""Output of TestRaftServer when its load ends with an exception, as it does when it cannot keep up."""


class OvertakenError(Exception):
    """A node or its load has ended, or the node does not respond, because it could not keep up."""


class RaftQuorum:
    """Raft-only servers of one side, with static voters."""

    def __init__(self, side: Side, folder: Path, size: int, per_second: int) -> None:
        self._topic_id = APACHE_TOPIC_ID if side.is_apache else METADATA_TOPIC_ID
        self._epoch = 0
        self._connections: dict[int, socket.socket] = {}
        self._ports = dict(enumerate(free_ports(size), start=1))
        self._leader_id = -1
        voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in self._ports.items())
        self._processes = {node_id: self._start(side, folder, node_id, voters, per_second) for node_id in self._ports}

    def _start(self, side: Side, folder: Path, node_id: int, voters: str, per_second: int) -> kafka.Process:
        folder = folder / str(node_id)
        settings: Mapping[str, object] = {
            "process.roles": "controller",
            "node.id": node_id,
            "controller.quorum.voters": voters,
            "listeners": f"CONTROLLER://127.0.0.1:{self._ports[node_id]}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "log.dirs": folder / "data",
            **side.settings,
        }
        (folder / "data").mkdir(parents=True)
        config = kafka.write_properties(folder / "server.properties", settings)
        arguments = ["--config", str(config), "--throughput", str(per_second), "--record-size", str(RECORD_BYTES)]
        arguments += ["--replica-directory-id", uuid_to_text(UUID(int=1_000 + node_id))]
        if side.is_apache:
            command = [*apache_command(), "kafka.tools.TestRaftServer"]
            return kafka.Process(f"apache-{node_id}", [*command, *arguments], folder)
        command = [sys.executable, "-m", "benchmarks.raft_server"]
        environment = {"PYTHONPATH": str(Path(__file__).parent.parent)}
        return kafka.Process(f"conclave-{node_id}", [*command, *arguments], folder, environment)

    def stop(self) -> None:
        """Kill every node."""
        for connection in self._connections.values():
            connection.close()
        for process in self._processes.values():
            process.kill()

    def wait_for_leader(self) -> None:
        """Wait until a leader has committed a record. Raises OvertakenError when the load ends first."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            self._check_load()
            for node_id in self._ports:
                answer = self._ask(node_id)
                if answer is not None and answer.error_code == ErrorCode.NONE and answer.high_watermark > 0:
                    self._leader_id = node_id
                    return
            time.sleep(0.05)
        raise TimeoutError(f"no leader within {WAIT_S} s\n{self._outputs()}")

    def committed(self) -> int:
        """Return the leader's high watermark.

        Raises OvertakenError when the leader does not respond, AssertionError when it has lost the leadership.
        """
        answer = self._ask(self._leader_id) or self._ask(self._leader_id)
        if answer is None:
            raise OvertakenError
        self._check_load()
        assert answer.error_code == ErrorCode.NONE, f"the leader has changed: {answer}\n{self._outputs()}"
        return answer.high_watermark

    @property
    def is_load_running(self) -> bool:
        """Report whether every node is alive and no load has ended with an exception."""
        return all(process.alive and _STOPPED not in process.output for process in self._processes.values())

    def _check_load(self) -> None:
        if not self.is_load_running:
            raise OvertakenError

    def latencies_ms(self) -> tuple[float, float]:
        """Return p75 and p99 of the last line that the leader printed."""
        lines = _LINE.findall(self._processes[self._leader_id].output)
        assert lines, f"no line about latency\n{self._outputs()}"
        return float(lines[-1][0]), float(lines[-1][1])

    def _ask(self, node_id: int) -> FetchResponsePartitionData | None:
        """Fetch the first batch for the state in the answer. Return None when the node does not respond."""
        wanted = FetchRequestFetchPartition(
            current_leader_epoch=self._epoch, fetch_offset=0, last_fetched_epoch=0, partition_max_bytes=1
        )
        request = FetchRequest(
            max_wait_ms=0,
            max_bytes=1,
            topics=(FetchRequestFetchTopic(topic_id=self._topic_id, partitions=(wanted,)),),
        )
        try:
            connection = self._connections.get(node_id)
            if connection is None:
                connection = socket.create_connection(("127.0.0.1", self._ports[node_id]), 5)
                self._connections[node_id] = connection
            connection.sendall(encode_request(request, FETCH_VERSION, 1, "bench"))
            answer = cast("FetchResponse", decode_response(1, FETCH_VERSION, read_answer(connection))[1])
        except OSError:
            self._connections.pop(node_id, None)
            return None
        partition = fetch_partition(answer)
        if partition is not None:
            self._epoch = max(self._epoch, partition.current_leader.leader_epoch)
        return partition

    def _outputs(self) -> str:
        return "\n".join(f"--- {each.name}\n{each.output[-2500:]}" for each in self._processes.values())


@contextmanager
def raft_quorum(side: Side, size: int, per_second: int) -> Iterator[RaftQuorum]:
    """Yield a quorum with a leader under load; it is killed and removed at the end."""
    with tempfile.TemporaryDirectory(prefix="conclave-bench-", ignore_cleanup_errors=True) as folder:
        quorum = RaftQuorum(side, Path(folder), size, per_second)
        try:
            quorum.wait_for_leader()
            yield quorum
        finally:
            quorum.stop()


def _latencies_ms(side: Side, size: int, per_second: int, seconds: int) -> tuple[float, float]:
    with raft_quorum(side, size, per_second) as quorum:
        time.sleep(seconds)
        assert quorum.is_load_running, f"{side.name} was overtaken by {per_second} appends a second"
        return quorum.latencies_ms()


def committed_per_second(side: Side, size: int, per_second: int, plan: Plan) -> float | None:
    """Return the records that a quorum commits per second of an offered load; None when it fails under it."""
    try:
        with raft_quorum(side, size, per_second) as quorum:
            time.sleep(plan.count(WARM_UP_S, 1))
            began, first = time.perf_counter(), quorum.committed()
            time.sleep(plan.count(MEASURED_S, 1))
            ended, last = time.perf_counter(), quorum.committed()
            return (last - first) / (ended - began)
    except OvertakenError:
        return None


def appends_per_second(side: Side, size: int, plan: Plan) -> float:
    """Return the highest rate that a quorum commits: the load is doubled until it is not sustained."""
    best, offered, step = 0.0, FIRST_RATE, 2.0
    while offered <= LAST_RATE:
        found = committed_per_second(side, size, offered, plan)
        print(f"raft, {side.name}, {size} nodes: {offered:,} offered, {shown(found)} committed", file=sys.stderr)
        if found is not None:
            best = max(best, found)
            if found < SUSTAINED * offered:
                break
        elif step < 2:
            break
        else:  # continue between the last sustained rate and the first that failed
            offered, step = offered // 2, 1.4
        offered = int(offered * step)
    return best


def raft_latency(plan: Plan) -> list[Figure]:
    """Measure the latency from append to commit at two rates, on one and three nodes."""
    figures = []
    for size, where in ((1, "one node"), (3, "three nodes")):
        alone = Figure(f"raft commit latency, {where}, {ONE_BY_ONE} appends/s, p75", "ms")
        p75 = Figure(f"raft commit latency, {where}, {DEFAULT_RATE:,} appends/s, p75", "ms")
        p99 = Figure(f"raft commit latency, {where}, {DEFAULT_RATE:,} appends/s, p99", "ms")
        for _, side in plan.once().turns(WITH_LINGER):
            alone.add(side, _latencies_ms(side, size, ONE_BY_ONE, plan.count(ALONE_S, 6))[0])
        for _, side in plan.turns(WITH_LINGER):
            found = _latencies_ms(side, size, DEFAULT_RATE, plan.count(LATENCY_S, 6))
            p75.add(side, found[0])
            p99.add(side, found[1])
        figures += [alone, p75, p99]
    return figures


def raft_throughput(plan: Plan) -> list[Figure]:
    """Measure committed appends per second on one and three nodes."""
    figures = []
    for size, where in ((1, "one node"), (3, "three nodes")):
        figure = Figure(f"raft appends, {where}", "per s", more_is_better=True)
        for _, side in plan.once().turns(WITH_LINGER):
            figure.add(side, appends_per_second(side, size, plan))
        figures.append(figure)
    return figures
