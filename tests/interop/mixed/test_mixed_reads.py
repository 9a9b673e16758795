"""Our controller leads two of Apache's: they confirm its leadership for each read without side effects."""

import asyncio
from pathlib import Path

import pytest

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import DescribeConfigsRequest, DescribeConfigsRequestDescribeConfigsResource
from tests.interop import kafka
from tests.interop.conclave import Quorum, call, quorum
from tests.interop.metadata_load import CLIENT_METRICS, set_interval

OURS, APACHES = 1, (2, 3)
READS = 200
QUIET = {"metadata_max_idle_interval_ms": 600_000, "controller_quorum_fetch_timeout_ms": 10_000}
"""No records but those of the test, so that no commit confirms a read."""


def until_ours_leads(nodes: Quorum) -> None:
    """Freeze the leader while it is one of Apache's."""
    while (leader := nodes.wait_for_leader()) != OURS:
        nodes.freeze(leader)
        nodes.wait_for_leader(other_than=leader)
        nodes.thaw(leader)


async def write_and_read(port: int) -> bool:
    """Write rising numbers and read each one back. Return False when this node is no longer the leader."""
    resource = DescribeConfigsRequestDescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name="read")
    for number in range(100, 100 + READS):
        written = await call(port, set_interval("read", number), 1, timeout_s=kafka.PATIENCE_S)
        if written.responses[0].error_code != ErrorCode.NONE:
            return False
        read = await call(port, DescribeConfigsRequest(resources=(resource,)), 4, timeout_s=kafka.PATIENCE_S)
        if read.results[0].error_code != ErrorCode.NONE:
            return False
        shown = {each.name: each.value for each in read.results[0].configs}
        assert shown["interval.ms"] == str(number)
    return True


@pytest.mark.interop
def test_reads_of_our_leader_are_confirmed_by_apaches_followers(tmp_path: Path) -> None:
    kafka.require()
    with quorum(tmp_path, 3, **QUIET) as nodes:
        for node_id in (OURS, *APACHES):
            nodes.format(node_id)
        nodes.start(OURS)
        for node_id in APACHES:
            nodes.start_apache(node_id)
        kafka.wait_until(
            lambda: until_ours_leads(nodes) is None and asyncio.run(write_and_read(nodes.port_of(OURS))),
            3 * kafka.PATIENCE_S,
            "our leader serves",
        )
        for node_id in APACHES:
            output = nodes.processes[node_id].output
            assert output.count("Completed transition to Follower") < READS / 10, "an announcement is no news"
