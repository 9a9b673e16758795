"""What happens to a mixed quorum, from its first leader to the files it leaves: told once, judged by many tests."""

import asyncio
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kraft_core.clients.kafka_client import KafkaConnection
from kraft_core.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    DescribeConfigsResponse,
)
from tests.interop import kafka
from tests.interop.admin import tools
from tests.interop.conclave import controller_client, quorum
from tests.interop.log_files import first_segment, raw_batches, snapshots
from tests.interop.metadata_load import CLIENT_METRICS, Load, set_interval
from tests.interop.mixed.mixed_quorum import JOINER, VOTERS, MixedQuorum

FIRST_TWO, OTHER = (1, 2), 3
"""Two voters of one kind and one of the other: the first leader and the other lead, die and come back in turn."""
BROKER = 5
"""A broker of Apache's, which follows them all as an observer."""
FETCH_TIMEOUT_MS = 4_000
"""Twice the default, so that a busy machine seldom moves the lead by itself; where it does the story copes."""
SETTINGS = {
    "controller_quorum_fetch_timeout_ms": FETCH_TIMEOUT_MS,
    "broker_session_timeout_ms": 60_000,
    "metadata_log_max_record_bytes_between_snapshots": 10_000,
    "metadata_max_retention_bytes": 30_000,
    "metadata_max_idle_interval_ms": 60_000,
}
UNPUSHED_MS = 500
"""How long a fetch of either implementation waits for news."""
PUSHED_WRITES = 9


@dataclass
class Story:
    """What was seen on the way; the files of all nodes are there still."""

    quorum: MixedQuorum
    load: Load
    changing: int  # the first leader
    elder: int  # the voter of its kind, which never stops
    deposed: list[tuple[str, str]] = field(default_factory=list)  # whose leader, killed or stopped
    described: dict[tuple[str, str], tuple[str, str, str]] = field(
        default_factory=dict
    )  # by (leader's side, asked side)
    refused: dict[tuple[str, str], list[tuple[int, str]]] = field(
        default_factory=dict
    )  # the same: exit code, exception
    joiner_end: int = -1  # last offset of the joiner when it was killed
    joiner_first_segment: int = -1  # where its log begins since it came back
    voters_after_join: list[dict[int, str]] = field(default_factory=list)
    wiped_id: str = ""
    epochs_around_pause: tuple[int, int] = (-1, -1)
    paused_output: str = ""
    seen_ms: list[float] = field(default_factory=list)
    high_watermark: int = -1
    logs: dict[int, dict[int, bytes]] = field(default_factory=dict)

    def folder(self, node_id: int) -> Path:
        """Where a node's files are."""
        return self.quorum.nodes.folder_of(node_id)

    @property
    def pushed(self) -> int:
        """How many writes the follower showed before a fetch that waits in vain would have ended."""
        return sum(each < UNPUSHED_MS / 2 for each in self.seen_ms)

    @property
    def whole_log(self) -> dict[int, bytes]:
        """Every batch from offset 0 on: the elder's only segment still holds what its log start has passed."""
        return self.logs[self.elder]


@contextmanager
def told(folder: Path, apache: frozenset[int], jvm: tools.Tools) -> Iterator[Story]:
    """Let it all happen. `apache`: which of the nodes 1 to 4 are Apache's; 1 and 2 are of one kind, 3 and 4 of the other."""
    with quorum(folder, JOINER, **SETTINGS) as nodes:
        mixed = MixedQuorum(nodes, apache, jvm)
        for node_id in VOTERS:
            mixed.format(node_id)
        mixed.format(JOINER, as_voter=False)
        for node_id in FIRST_TWO:  # a majority, so the first leader is of their kind
            mixed.start(node_id)
        first = mixed.leader_id
        (elder,) = {*FIRST_TWO} - {first}
        mixed.start(OTHER)
        mixed.start(JOINER)
        with (
            kafka.broker(folder / f"node-{BROKER}", BROKER, nodes.bootstrap, nodes.cluster_id) as (broker, _),
            Load(nodes) as load,
        ):
            story = Story(mixed, load, first, elder)
            _add_and_remove_the_joiner(story)
            _let_all_sides_lead(story)
            _bring_the_joiner_back(story)
            _replace_the_joiners_disk(story)
            load.stop()
            _measure_the_push(story)
            _pause_a_follower(story)
            assert broker.alive, broker.output[-3000:]
            _end(story)
        yield story


def _first_side(story: Story) -> str:
    return story.quorum.side(story.elder)


def _other_side(story: Story) -> str:
    return story.quorum.side(OTHER)


def _describe(story: Story) -> bool:
    """Run kafka-metadata-quorum against each side's node; False where it was not of one leader that knows its voters."""
    mixed = story.quorum
    mixed.wait_until_caught_up(*VOTERS)
    found = mixed.describe()
    if any(each.last_caught_up_timestamp < 0 for each in found.current_voters):
        return False
    leader_id = found.leader_id
    described, refused = {}, {}
    for asked in (leader_id, OTHER if leader_id != OTHER else story.elder):
        bootstrap = ("--bootstrap-controller", f"127.0.0.1:{mixed.nodes.port_of(asked)}")
        printed = [
            mixed.tool(*bootstrap, "describe", *words)
            for words in (("--status",), ("--replication",), ("--replication", "--human-readable"))
        ]
        if any(each.code for each in printed):
            return False
        sides = mixed.side(leader_id), mixed.side(asked)
        described[sides] = (printed[0].text, printed[1].text, printed[2].text)
        unknown = ("--controller-id", "9", "--controller-directory-id", "AAAAAAAAAAAAAAAAAAAAZg")
        add = ("--command-config", mixed.nodes.config_of(story.elder), "add-controller")
        refused[sides] = [
            (each.code, each.text.partition("\n")[0].partition("Exception: ")[0])
            for each in (
                mixed.tool(*bootstrap, *words) for words in (("remove-controller", *unknown), add, (*add, "--dry-run"))
            )
        ]
    if mixed.leader_id != leader_id:
        return False
    story.described |= described
    story.refused |= refused
    return True


def _add_and_remove_the_joiner(story: Story) -> None:
    mixed = story.quorum
    mixed.wait_until_caught_up(*VOTERS, JOINER)
    mixed.add(JOINER, with_tool=_first_side(story))
    story.load.wait_for(10)
    mixed.nodes.processes[JOINER].kill()
    mixed.remove(JOINER, with_tool=_other_side(story))
    story.joiner_end = mixed.end_on_disk(JOINER)


def _let_all_sides_lead(story: Story) -> None:
    """Kill a leader of each side and stop one of each; the elder leads at the end."""
    mixed = story.quorum
    wanted = {(side, how) for side in ("apache", "ours") for how in (signal.SIGKILL, signal.SIGTERM)}
    while wanted or len(story.described) < 4:
        leader_id = mixed.leader_id
        if leader_id == story.elder:
            mixed.pass_over(leader_id)
            continue
        side = mixed.side(leader_id)
        if (side, side) not in story.described:
            _describe(story)
            continue
        how = next((how for each, how in sorted(wanted) if each == side), signal.SIGTERM)
        successor = story.changing if leader_id == OTHER else OTHER
        if mixed.hand_over(leader_id, successor, how, story.load):
            wanted.discard((side, how))
            story.deposed.append((side, how.name))
    _let_the_elder_lead(story)


def _let_the_elder_lead(story: Story) -> None:
    mixed = story.quorum
    while (leader_id := mixed.leader_id) != story.elder:
        mixed.hand_over(leader_id, story.elder, signal.SIGTERM, story.load)


def _bring_the_joiner_back(story: Story) -> None:
    """Start it when the leader's log begins behind its end, and make it a voter again.

    Both sides look once a minute for snapshots to delete, and then keep the newest only. A log that was cleaned begins
    at 0 again after a restart, so a clean-up counts from now on.
    """
    mixed = story.quorum
    elder = story.folder(story.elder)
    newest = max(snapshots(elder), default=0)
    kafka.wait_until(
        lambda: (
            next(iter(snapshots(elder)), -1) > max(story.joiner_end, newest - 1)
            and not (elder / "data" / "__cluster_metadata-0" / f"{0:020d}-{0:010d}.checkpoint").exists()
        ),
        180,
        "the elder cleans its log",
    )
    _let_the_elder_lead(story)
    mixed.start(JOINER)
    mixed.wait_until_caught_up(JOINER)
    story.joiner_first_segment = first_segment(story.folder(JOINER))
    mixed.add(JOINER, with_tool=_other_side(story))
    story.load.wait_for(5)
    story.voters_after_join.append(mixed.voters())


def _replace_the_joiners_disk(story: Story) -> None:
    """Give it an empty disk and auto-join (KIP-1186): it takes its old self out of the voters and itself in."""
    mixed = story.quorum
    assert mixed.nodes.processes[JOINER].stop() in {0, 143}
    mixed.wipe(JOINER, controller_quorum_auto_join_enable="true")
    mixed.start(JOINER)
    story.wiped_id = mixed.directory_id(JOINER)
    kafka.wait_until(
        lambda: mixed.voters().get(JOINER) == story.wiped_id, kafka.PATIENCE_S, "the joiner has joined by itself"
    )
    story.load.wait_for(5)
    mixed.wait_until_caught_up(*VOTERS, JOINER)
    story.voters_after_join.append(mixed.voters())


def _pause_a_follower(story: Story) -> None:
    """Freeze a follower of the other kind for longer than its fetch timeout, in a quiet quorum, then let it go on.

    Its log is as long as all others: they refuse it their pre-votes only because they hear from their leader. Again where
    the epoch rose and that follower did not stand: the machine is busy, and somebody else lost the leader.
    """
    for _ in range(5):
        if _is_told_by_a_pause(story):
            break


def _is_told_by_a_pause(story: Story) -> bool:
    mixed = story.quorum
    while mixed.leader_id == OTHER:
        mixed.pass_over(OTHER)
    mixed.wait_until_caught_up(*VOTERS, slack=0)
    before = mixed.describe().leader_epoch
    output = len(mixed.nodes.processes[OTHER].output)
    mixed.nodes.freeze(OTHER)

    def silence_ms() -> int:
        found = mixed.describe()
        last = {each.replica_id: each.last_fetch_timestamp for each in found.current_voters}
        return last[found.leader_id] - last[OTHER]  # the leader's own is now

    kafka.wait_until(
        lambda: silence_ms() > 2 * FETCH_TIMEOUT_MS,
        kafka.PATIENCE_S,
        "the frozen follower is silent for two fetch timeouts",
    )
    mixed.nodes.thaw(OTHER)
    thawed_ms = time.time() * 1000

    def is_back() -> bool:
        last = {each.replica_id: each.last_fetch_timestamp for each in mixed.describe().current_voters}
        return last[OTHER] > thawed_ms + 2_000

    kafka.wait_until(is_back, kafka.PATIENCE_S, "the thawed follower goes on fetching")
    story.epochs_around_pause = (before, mixed.describe().leader_epoch)
    story.paused_output = mixed.nodes.processes[OTHER].output[output:]
    is_candidate = "Candidate" in states_of(story.paused_output, mixed.side(OTHER))
    return is_candidate or len(set(story.epochs_around_pause)) == 1


def _measure_the_push(story: Story) -> None:
    """Time from an acknowledgement to when a follower of the other kind shows what was written, in a quiet quorum.

    Until it came in time often enough: what is not pushed never does, what is pushed may be late on a busy machine.
    """
    mixed = story.quorum

    async def interval_of(connection: KafkaConnection, name: str) -> str | None:
        resource = DescribeConfigsRequestDescribeConfigsResource(
            resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=None
        )
        answer = await connection.request(DescribeConfigsRequest(resources=(resource,)))
        assert isinstance(answer, DescribeConfigsResponse)
        return next((each.value for each in answer.results[0].configs if each.name == "interval.ms"), None)

    async def measure() -> None:
        client = controller_client(mixed.nodes.bootstrap)
        follower = await KafkaConnection.open("127.0.0.1", mixed.nodes.port_of(OTHER), "test", 30_000)
        for number in range(1_000, 1_000 + 10 * PUSHED_WRITES):
            await client.request(set_interval("pushed", number), idempotent=True)
            started = time.monotonic()
            while await interval_of(follower, "pushed") != str(number):
                assert time.monotonic() - started < kafka.PATIENCE_S, f"{number} is never seen"
                await asyncio.sleep(0.002)
            story.seen_ms.append((time.monotonic() - started) * 1000)
            if story.pushed >= PUSHED_WRITES:
                break
        follower.close()
        client.close()

    asyncio.run(measure())
    print("seen by the follower after ms:", [round(each) for each in story.seen_ms])


def _end(story: Story) -> None:
    """Wait until all have the same log, kill all at once, and keep what is on their disks."""
    mixed = story.quorum
    mixed.wait_until_caught_up(*VOTERS, JOINER, BROKER, slack=0)
    story.high_watermark = mixed.describe().high_watermark
    mixed.nodes.stop_all()
    for node_id in (*VOTERS, JOINER, BROKER):
        story.logs[node_id] = raw_batches(story.folder(node_id))


def states_of(output: str, side: str) -> list[str]:
    """The raft states that a node has entered, by its own output."""
    if side == "ours":
        return re.findall(r"raft_state_changed node_id=\d+ state=(\w+)", output)
    return re.findall(r"Completed transition to (\w+?)(?:State)?\(", output)
