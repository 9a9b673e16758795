"""Three of our controllers as processes: the leader is killed repeatedly, and no acknowledged write is lost."""

import asyncio
import re
import time
from pathlib import Path

import pytest

from kraft_core.clients.kafka_client import ControllerClient, KafkaConnection, find_leader
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import CreateTopicsRequest
from tests.interop.conclave import (
    Quorum,
    RawBroker,
    controller_client,
    create_topics,
    describe_quorum,
    percentile,
    running_quorum,
)
from tests.interop.kafka import PATIENCE_S, wait_until
from tests.interop.log_files import committed_prefix, raw_batches

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]  # several waits, which are usually short

KILLS = 10
PROMISED_FAILOVER_S = 0.25
"""p50 of docs/benchmarks.md, on an idle machine."""
FAILURES = (ConnectionError, KafkaError, OSError)


class Writers:
    """Create topics one after the other, different ones per writer, and record what was acknowledged when."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self.acknowledged: list[tuple[str, float]] = []
        self._running = True

    def stop(self) -> None:
        self._running = False

    async def write(self, writer: int) -> None:
        client = controller_client(self._quorum.bootstrap)
        number = 0
        while self._running:
            name = f"topic-{writer}-{number}"
            number += 1
            try:
                answer = await client.request(create_topics([name]), timeout_ms=10_000)
            except FAILURES:
                await asyncio.sleep(0.01)
                continue
            if answer.topics[0].error_code == ErrorCode.NONE:
                self.acknowledged.append((name, time.monotonic()))
            await asyncio.sleep(0.005)
        client.close()

    async def first_after(self, moment: float) -> float:
        """Return the time of the first acknowledgement of a request sent after `moment`."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self.acknowledged and self.acknowledged[-1][1] > moment:
                return next(when for _, when in self.acknowledged if when > moment)
            await asyncio.sleep(0.002)
        raise AssertionError(f"nothing was acknowledged for {PATIENCE_S} s\n{self._quorum.outputs()}")


async def leader_of(quorum: Quorum) -> tuple[int, int]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = await quorum.leader()
        if found is not None:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"no leader\n{quorum.outputs()}")


async def all_caught_up(quorum: Quorum, slack: int = 20) -> None:
    """Wait until every voter has the leader's log, so that the next kill leaves a majority."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        leader_id, _ = await leader_of(quorum)
        partition = await describe_quorum(quorum.port_of(leader_id))
        if partition is not None:
            ends = [voter.log_end_offset for voter in partition.current_voters]
            if len(ends) == quorum.size and min(ends) >= max(ends) - slack and partition.high_watermark > 0:
                return
        await asyncio.sleep(0.02)
    raise AssertionError(f"a follower never caught up\n{quorum.outputs()}")


async def missing(client: ControllerClient, names: list[str]) -> list[str]:
    """Return the topics that do not exist, found by validate-only creation."""
    absent: list[str] = []
    for first in range(0, len(names), 500):
        request = create_topics(names[first : first + 500])
        request = CreateTopicsRequest(timeout_ms=10_000, topics=request.topics, validate_only=True)
        answer = await client.request(request, timeout_ms=PATIENCE_S * 1000, idempotent=True)
        absent += [each.name for each in answer.topics if each.error_code != ErrorCode.TOPIC_ALREADY_EXISTS]
    return absent


async def kill_ten_times(quorum: Quorum) -> tuple[list[str], list[float]]:
    client = controller_client(quorum.bootstrap)
    broker = RawBroker(101, quorum.cluster_id, client)
    await broker.register()
    writers = Writers(quorum)
    failovers: list[float] = []
    async with asyncio.TaskGroup() as group:
        heartbeats = group.create_task(broker.keep_alive())
        tasks = [group.create_task(writers.write(number)) for number in range(4)]
        epochs = []
        for _ in range(KILLS):
            await writers.first_after(time.monotonic())
            await all_caught_up(quorum)
            leader_id, epoch = await leader_of(quorum)
            epochs.append(epoch)
            killed = time.monotonic()
            quorum.processes[leader_id].kill()
            # allow 20 ms for a response that is still in a socket
            failovers.append(await writers.first_after(killed + 0.02) - killed)
            quorum.start(leader_id)
        writers.stop()
        await asyncio.gather(*tasks)
        heartbeats.cancel()
    assert epochs == sorted(set(epochs)), "every kill ends an epoch"
    names = [name for name, _ in writers.acknowledged]
    assert await missing(client, names) == []
    client.close()
    return names, failovers


def test_nothing_acknowledged_is_lost_when_the_leader_is_killed_ten_times(tmp_path: Path) -> None:
    with running_quorum(tmp_path, 3) as quorum:
        names, failovers = asyncio.run(kill_ten_times(quorum))
        assert len(names) > 100
        shown = " ".join(f"{each * 1000:.0f}" for each in failovers)
        print(f"failover ms: {shown}; p50 {percentile(failovers, 0.5) * 1000:.0f}, {len(names)} topics acknowledged")
        for process in quorum.processes.values():
            process.kill()
        for node_id in quorum.node_ids:
            quorum.start(node_id)
        quorum.wait_for_leader()

        async def after_power_failure() -> list[str]:
            client = controller_client(quorum.bootstrap)
            try:
                return await missing(client, names)
            finally:
                client.close()

        assert asyncio.run(after_power_failure()) == []
        for process in quorum.processes.values():
            assert process.stop() == 0
        logs = [raw_batches(quorum.folder_of(node_id)) for node_id in quorum.node_ids]
        assert committed_prefix(logs) > 2 * len(names), "a topic is two records"
        assert percentile(failovers, 0.5) < 10 * PROMISED_FAILOVER_S


def test_a_stopped_leader_is_replaced_without_a_timeout(tmp_path: Path) -> None:
    """KIP-595: EndQuorumEpoch makes the preferred successor stand while the leader, with open connections, waits for
    it.

    Without it the followers would wait for minutes, or until the connections are closed.
    """
    with running_quorum(tmp_path, 3, controller_quorum_fetch_timeout_ms=4 * PATIENCE_S * 1000) as quorum:
        asyncio.run(all_caught_up(quorum, slack=0))
        leader_id, epoch = asyncio.run(leader_of(quorum))
        assert quorum.processes[leader_id].stop() == 0
        quorum.wait_for_leader(other_than=leader_id)
        _, resigned, after = quorum.processes[leader_id].output.partition(f"state=Resigned epoch={epoch} ")
        assert resigned
        heard = [int(each) for each in re.findall(r"raft_state_changed .* epoch=(\d+)", after)]
        assert max(heard, default=0) > epoch, "it ended before it heard of a successor"


async def leader_known_to(quorum: Quorum, node_id: int) -> int | None:
    """Return the leader as one node reports it."""
    connection = await KafkaConnection.open("127.0.0.1", quorum.port_of(node_id), "test")
    try:
        found = await find_leader(connection)
    finally:
        connection.close()
    return None if found is None else found.node_id


def test_a_frozen_leader_is_replaced_and_resigns_when_it_resumes(tmp_path: Path) -> None:
    with running_quorum(tmp_path, 3) as quorum:
        leader_id, epoch = asyncio.run(leader_of(quorum))
        started = time.monotonic()
        quorum.freeze(leader_id)
        try:
            quorum.wait_for_leader(other_than=leader_id)
            print(f"replaced a frozen leader after {(time.monotonic() - started) * 1000:.0f} ms")
        finally:
            quorum.thaw(leader_id)

        def is_led_by_another() -> bool:
            return asyncio.run(leader_known_to(quorum, leader_id)) in set(quorum.node_ids) - {leader_id}

        wait_until(is_led_by_another, PATIENCE_S, "the old leader follows", not_yet=(OSError, KafkaError))
        assert asyncio.run(leader_of(quorum))[1] > epoch
