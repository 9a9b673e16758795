"""Starting: three nodes to a leader, one process to its first answer, and what an idle controller holds in memory."""

import asyncio
import time

from benchmarks.figures import Figure
from benchmarks.plan import Plan
from benchmarks.sides import PLAIN, Cluster, ask, cluster, running
from kraft_core.protocol.messages import ApiVersionsRequest
from tests.interop.conclave import resident_mb

IDLE_S = 10.0
POLL_S = 0.01
WAIT_S = 60.0


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
    """Cold start of three nodes to a leader; one node's process start to its first answer."""
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
    """Resident memory of a controller that has three registered brokers and nothing to do, after 10 s."""
    figure = Figure("resident memory of an idle controller", "MB", 90)
    for _, side in plan.once().turns(PLAIN):
        with running(side, 1) as found:
            time.sleep(IDLE_S / plan.scale)
            figure.add(side, resident_mb(found.leader_process))
    return [figure]
