"""Start-up times of three nodes, of one process and of one with a long log; memory of an idle controller."""

import asyncio
import re
import subprocess
import time

from benchmarks.figures import Figure
from benchmarks.frames import CREATE_TOPICS_VERSION, check_topics_created, create_topics_frame
from benchmarks.load import one_at_a_time
from benchmarks.plan import Plan
from benchmarks.sides import PLAIN, Cluster, Side, cluster, running
from conclave.testing.blocking_request import ask
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import decode_response
from kraft_core.protocol.messages import ApiVersionsRequest
from tests.interop import kafka
from tests.interop.conclave import resident_mb

IDLE_S = 10.0
POLL_S = 0.01
WAIT_S = 60.0
PARTITIONS_A_TOPIC = 1_000
RESTART_HEAP = "4g"
"""Heap that Apache's needs for a million partitions."""


async def _leader(found: Cluster) -> int:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        leader = await found.quorum.leader()
        if leader is not None:
            return leader[0]
        await asyncio.sleep(POLL_S)
    raise TimeoutError(f"no leader within {WAIT_S} s\n{found.quorum.outputs()}")


def _first_answer(port: int) -> None:
    deadline = time.monotonic() + WAIT_S
    request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    while time.monotonic() < deadline:
        try:
            ask(port, request, 3)
        except OSError:
            time.sleep(POLL_S)
        else:
            return
    raise TimeoutError(f"no answer within {WAIT_S} s")


def start_up(plan: Plan) -> list[Figure]:
    """Measure the cold start of three nodes to a leader, and of one process to its first answer."""
    three = Figure("cold start of three nodes to a leader", "s", 1.5)
    one = Figure("process start to first ApiVersions answer", "s")
    for _, side in plan.turns(PLAIN):
        with cluster(side, 3) as found:
            began = time.perf_counter()
            for node_id in found.quorum.node_ids:
                found.start_node(node_id)
            asyncio.run(_leader(found))
            three.add(side, time.perf_counter() - began)
        with cluster(side, 1) as found:
            began = time.perf_counter()
            found.start_node(1)
            _first_answer(found.quorum.port_of(1))
            one.add(side, time.perf_counter() - began)
    return [three, one]


def memory(plan: Plan) -> list[Figure]:
    """Measure the resident memory of a controller with three registered brokers after 10 s without load."""
    figure = Figure("resident memory of an idle controller", "MB", 90)
    for _, side in plan.once().turns(PLAIN):
        with running(side, 1) as found:
            time.sleep(IDLE_S / plan.scale)
            figure.add(side, resident_mb(found.leader_process))
    return [figure]


def _create(found: Cluster, topics: int) -> None:
    requests = [create_topics_frame([f"restart-{number}"], PARTITIONS_A_TOPIC) for number in range(topics)]
    check_topics_created(one_at_a_time(found.leader_port, requests).answers)


def restart(plan: Plan) -> list[Figure]:
    """Measure the restart of one controller with 1,000,000 partitions until it creates a topic."""
    topics = plan.count(1_000)
    name = f"restart with {topics * PARTITIONS_A_TOPIC:,} partitions"
    took = Figure(f"{name}: until a topic is created", "s", 10)
    resident = Figure(f"{name}: resident memory then", "MB", 1_024)
    each = Figure(f"{name}: memory for each of them", "bytes")
    for _, side in plan.once().turns(PLAIN):
        with running(side, 1, RESTART_HEAP) as found:
            empty_mb = live_mb(found.leader_process, side)
            _create(found, topics)
            found.leader_process.stop(60)
            began = time.perf_counter()
            found.start_node(1)
            found.wait_for_leader(WAIT_S)
            _create_once(found)
            took.add(side, time.perf_counter() - began)
            resident.add(side, resident_mb(found.leader_process))
            grown_mb = live_mb(found.leader_process, side) - empty_mb
            each.add(side, grown_mb * 1024 * 1024 / (topics * PARTITIONS_A_TOPIC))
    return [took, resident, each]


def live_mb(process: kafka.Process, side: Side) -> float:
    """Return the memory in use: resident for ours, the heap after a full collection for a JVM."""
    if not side.is_apache:
        return resident_mb(process)
    pid = str(process.popen.pid)
    subprocess.run(["jcmd", pid, "GC.run"], check=True, capture_output=True)
    heap_info = subprocess.run(["jcmd", pid, "GC.heap_info"], check=True, capture_output=True, text=True).stdout
    used_kb = re.search(r"heap\s+total \d+K, used (\d+)K", heap_info)
    assert used_kb is not None, heap_info
    return int(used_kb[1]) / 1024


def _create_once(found: Cluster) -> None:
    """Create a topic; retry while the controller is not active or its brokers are fenced."""
    deadline = time.monotonic() + WAIT_S
    frames = [create_topics_frame(["after"], 1, replicas=1)]
    while time.monotonic() < deadline:
        answer = decode_response(19, CREATE_TOPICS_VERSION, one_at_a_time(found.leader_port, frames).answers[0])[1]
        if answer.topics[0].error_code == ErrorCode.NONE:  # type: ignore[attr-defined]  # a CreateTopicsResponse
            return
        time.sleep(POLL_S)
    raise TimeoutError(f"no topic could be created\n{found.quorum.outputs()}")
