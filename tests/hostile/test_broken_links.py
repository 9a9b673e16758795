"""Three controllers whose links fail while clients write: leaders, epochs and the effect of old messages.

Each test shows one of the invariants 11, 12, 13 and 33 of docs/invariants.md; the chaos program combines them.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest

from kraft_core.clients.quorum_fetch import describe_quorum_request
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import DescribeConfigsRequest, DescribeConfigsRequestDescribeConfigsResource
from tests.hostile.chaos_disk import differing_batches, two_leaders
from tests.hostile.faulty_links import FaultyLinks
from tests.hostile.tormentor import ProxiedQuorum, stop_together
from tests.interop.conclave import RawBroker, call, controller_client, create_topics, describe_quorum
from tests.interop.kafka import PATIENCE_S
from tests.interop.log_files import raw_batches
from tests.interop.metadata_load import CLIENT_METRICS, set_interval

FETCH_TIMEOUT_S = 2.0
NAMES = (f"topic-{number}" for number in itertools.count())
PATIENT_S = 60
QUIET = {"broker.session.timeout.ms": 600_000, "metadata.max.idle.interval.ms": 600_000}
"""The broker sends no heartbeats and is never fenced; only the test writes records."""


class LeaderChangedError(AssertionError):
    """The leader or the epoch has changed."""


class Story:
    """A running quorum behind faulty links, on one event loop."""

    def __init__(self, quorum: ProxiedQuorum, links: FaultyLinks, runner: asyncio.Runner) -> None:
        self.quorum, self.links, self._runner = quorum, links, runner
        self.leader, self.epoch = -1, -1

    async def begin(self) -> None:
        """Start all nodes and register a broker for the topics."""
        await self.links.start()
        for node_id in self.quorum.node_ids:
            self.quorum.format(node_id)
            self.quorum.start(node_id)
        await self.until_settled()
        client = controller_client(self.quorum.bootstrap)
        await RawBroker(101, self.quorum.cluster_id, client).register()
        client.close()

    def tell(self, happening: Callable[[], Coroutine[None, None, None]], *, tries: int = 1) -> None:
        """Run a scenario on a healthy quorum.

        Where the leader must stay, the scenario may be repeated: a process that the machine delays looks dead.
        """

        async def from_a_good_start() -> None:
            self.links.heal()
            await self.until_settled()
            await happening()

        for left in reversed(range(tries)):
            try:
                self._runner.run(from_a_good_start())
            except LeaderChangedError as error:
                if not left:
                    raise
                print(f"again, {left} tries left: {error}")
            else:
                return

    async def until_settled(self) -> None:
        """Wait until all nodes follow one leader and have its log. Store it as `leader`."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                await asyncio.sleep(0.05)
                found = await self.quorum.leader()
                if found is None:
                    continue
                partition = await describe_quorum(self.quorum.port_of(found[0]))
                if partition is None or partition.high_watermark <= 0:
                    continue
                voters = partition.current_voters
                ends = [voter.log_end_offset for voter in voters]
                newest = max(voter.last_fetch_timestamp for voter in voters)
                late_ms = max(newest - voter.last_fetch_timestamp for voter in voters)
                if min(ends) == max(ends) and late_ms < 500 * FETCH_TIMEOUT_S:
                    self.leader, self.epoch = found
                    return

    @property
    def followers(self) -> list[int]:
        """Return the nodes that do not lead."""
        return [node_id for node_id in self.quorum.node_ids if node_id != self.leader]

    async def write(self, count: int = 5) -> None:
        """Create topics. Each must be acknowledged."""
        client = controller_client(self.quorum.bootstrap)
        for name in itertools.islice(NAMES, count):
            answer = await client.request(create_topics([name]))
            # after a lost leader a retry may find the topic of the first request
            assert answer.topics[0].error_code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}
        client.close()

    async def assert_led_as_before(self) -> None:
        """Assert that all nodes follow the same leader in the same epoch."""
        before = (self.leader, self.epoch)
        await self.until_settled()
        if (self.leader, self.epoch) != before:
            raise LeaderChangedError(f"(leader, epoch) was {before}, is {(self.leader, self.epoch)}")

    async def next_leader(self) -> tuple[float, int]:
        """Wait for a leader in a later epoch. Return the seconds and its id."""
        started = time.monotonic()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for node_id in self.followers:
                    found = await describe_quorum(self.quorum.port_of(node_id))
                    if found is not None and found.leader_epoch > self.epoch:
                        return time.monotonic() - started, found.leader_id
                await asyncio.sleep(0.01)


def story_of(folder: Path, fetch_timeout_s: float) -> Iterator[Story]:
    settings = {"controller.quorum.fetch.timeout.ms": int(fetch_timeout_s * 1000), **QUIET}
    quorum = ProxiedQuorum(folder, 3, settings)
    links = FaultyLinks(quorum.proxy_ports, quorum.ports)
    with asyncio.Runner() as runner:
        story = Story(quorum, links, runner)
        try:
            runner.run(story.begin())
            yield story
            assert stop_together(quorum) == []
            for process in quorum.processes.values():
                assert "Traceback" not in process.output, process.output
            logs = [raw_batches(quorum.folder_of(node_id)) for node_id in quorum.node_ids]
            assert [*differing_batches(logs), *two_leaders(logs)] == []
        finally:
            quorum.stop_all()
            runner.run(links.stop())


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    yield from story_of(tmp_path_factory.mktemp("quick"), FETCH_TIMEOUT_S)


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Yield a quorum whose fetch timeout alone does not start an election within a minute."""
    yield from story_of(tmp_path_factory.mktemp("patient"), PATIENT_S)


@pytest.mark.parametrize("how", ["cut off", "heard by none", "hearing none"])
def test_a_returning_follower_does_not_raise_the_epoch(story: Story, how: str) -> None:
    """KIP-996: its log is as long as theirs, but its pre-votes are refused because the others have a leader."""

    async def scenario() -> None:
        follower = story.followers[0]
        if how == "cut off":
            story.links.isolate(follower)
        elif how == "heard by none":
            for link in story.links.of(follower):
                link.stalled = True
        else:
            for link in story.links.of(follower):
                link.answers_stalled = True
        await asyncio.sleep(2.5 * FETCH_TIMEOUT_S)
        story.links.heal()
        await story.assert_led_as_before()
        await story.write()

    story.tell(scenario, tries=3)


def test_a_disconnected_leader_is_replaced_and_resigns(story: Story) -> None:
    """Check-quorum: after 1.5 fetch timeouts without a majority it resigns, and clients continue elsewhere."""

    async def scenario() -> None:
        old = story.leader
        story.links.isolate(old)
        took_s, new = await story.next_leader()
        assert new != old
        async with asyncio.timeout(PATIENCE_S):
            while await describe_quorum(story.quorum.port_of(old)) is not None:
                await asyncio.sleep(0.02)
        answer = await call(story.quorum.port_of(old), describe_quorum_request(), 2)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        (refused,) = (await call(story.quorum.port_of(old), create_topics(["by-the-old-one"]), 7)).topics
        assert refused.error_code == ErrorCode.NOT_CONTROLLER
        await story.write()
        story.links.heal()
        await story.until_settled()
        print(f"replaced after {took_s * 1000:.0f} ms")

    story.tell(scenario)


SETTING = "read-beside-a-successor"


async def write_setting(port: int, number: int) -> bool:
    """Write a number through this node. Return False when it is not an active leader."""
    answer = await call(port, set_interval(SETTING, number), 1, timeout_s=PATIENCE_S)
    return bool(answer.responses[0].error_code == ErrorCode.NONE)


async def read_setting(port: int) -> tuple[int, str | None]:
    """Return this node's error code and number, however late it answers."""
    resource = DescribeConfigsRequestDescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name=SETTING)
    answer = await call(port, DescribeConfigsRequest(resources=(resource,)), 4, timeout_s=PATIENCE_S)
    (result,) = answer.results
    return result.error_code, next((each.value for each in result.configs if each.name == "interval.ms"), None)


def test_a_disconnected_leader_does_not_serve_stale_reads(patient: Story) -> None:
    """Invariant 16. It claims the leadership for 90 s; Apache's leader would answer with the old number."""

    async def scenario() -> None:
        quorum, old = patient.quorum, patient.leader
        if not await write_setting(quorum.port_of(old), 100):
            raise LeaderChangedError(f"{old} leads no more")
        assert await read_setting(quorum.port_of(old)) == (ErrorCode.NONE, "100")
        patient.links.isolate(old)
        async with asyncio.timeout(PATIENCE_S):
            while not await write_setting(quorum.port_of((await patient.next_leader())[1]), 200):
                await asyncio.sleep(0.05)
        reading = asyncio.create_task(read_setting(quorum.port_of(old)))
        await asyncio.wait([reading], timeout=1)
        answer = await call(quorum.port_of(old), describe_quorum_request(), 2, timeout_s=PATIENCE_S)
        said = answer.topics[0].partitions[0]
        if (
            said.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        ):  # it has already lost the leadership and answers as a follower
            raise LeaderChangedError(f"{old} knows that it leads no more")
        assert not reading.done(), reading.result()
        assert (said.leader_id, said.leader_epoch) == (old, patient.epoch)
        patient.links.heal()
        assert await reading == (ErrorCode.NOT_CONTROLLER, None)
        await patient.until_settled()
        assert await read_setting(quorum.port_of(patient.leader)) == (ErrorCode.NONE, "200")

    patient.tell(scenario, tries=3)


def test_repeated_old_requests_change_neither_the_epoch_nor_the_log(story: Story) -> None:
    async def scenario() -> None:
        story.links.isolate(story.leader)
        await story.next_leader()  # creates requests of two epochs, including votes
        story.links.heal()
        await story.until_settled()
        await story.write()
        electoral = {ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH}
        assert (
            sum([await story.links.send_again(node_id, 50, kinds=electoral) for node_id in story.quorum.node_ids]) > 3
        )
        for _ in range(2):
            for node_id in story.quorum.node_ids:
                assert await story.links.send_again(node_id, 100) > 0
            await story.write()
        await story.assert_led_as_before()

    story.tell(scenario, tries=3)


def test_a_follower_appends_nothing_of_a_damaged_batch(story: Story) -> None:
    """Fetch answers of a faulty leader: wrong CRC, magic, epoch or counts, and gaps."""

    async def scenario() -> None:
        follower = story.followers[0]
        for link in story.links.of(follower):
            link.damaged = True
        async with asyncio.timeout(PATIENCE_S):
            while story.links.damaged_answers < 20:
                await story.write()
        assert story.quorum.processes[follower].alive
        assert "fetched_batch_dropped" in story.quorum.processes[follower].output
        story.links.heal()
        await story.assert_led_as_before()

    story.tell(scenario, tries=3)  # the fixture compares the logs


def test_broken_connections_of_a_follower_do_not_cause_an_election(patient: Story) -> None:
    async def scenario() -> None:
        for _ in range(20):
            patient.links.reset(patient.followers[0])
            await patient.write(2)
        await patient.assert_led_as_before()

    patient.tell(scenario, tries=3)


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_a_dead_leader_is_detected_without_waiting_for_the_fetch_timeout(patient: Story, how: str) -> None:
    """A reset connection or a Fetch that exceeds its wait starts a pre-vote at once. KIP-595 would wait 60 s here."""

    async def scenario() -> None:
        old = patient.leader
        if how == "kill":
            patient.quorum.processes[old].kill()
        else:
            patient.quorum.freeze(old)
        try:
            took_s, new = await patient.next_leader()
            assert new != old
            assert took_s < PATIENT_S / 2
            await patient.write()
        finally:
            if how == "kill":
                patient.quorum.start(old)
            else:
                patient.quorum.thaw(old)
        await patient.until_settled()
        print(f"{how}: a new leader after {took_s * 1000:.0f} ms")

    patient.tell(scenario)
