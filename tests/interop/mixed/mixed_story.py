"""The story of a mixed quorum, from its first leader to the files it leaves. It runs once; many tests check it."""

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
"""Two voters of one side and one of the other. The first leader and the other lead, die and return in turn."""
BROKER = 5
"""One of Apache's brokers, which follows all leaders as an observer."""
FETCH_TIMEOUT_MS = 4_000
"""Twice the default, so that a busy machine seldom changes the leader. The story handles it when that happens."""
SETTINGS = {
    "controller_quorum_fetch_timeout_ms": FETCH_TIMEOUT_MS,
    "broker_session_timeout_ms": 60_000,
    "metadata_log_max_record_bytes_between_snapshots": 10_000,
    "metadata_max_retention_bytes": 30_000,
    "metadata_max_idle_interval_ms": 60_000,
}
UNPUSHED_MS = 500
"""How long a fetch of either implementation waits for new records."""
PUSHED_WRITES = 9


@dataclass
class Story:
    """What was observed; the files of all nodes are still there."""

    quorum: MixedQuorum
    load: Load
    changing: int  # the first leader
    elder: int  # the voter of its side, which never stops
    deposed: list[tuple[str, str]] = field(default_factory=list)  # the side of the leader, killed or stopped
    described: dict[tuple[str, str], tuple[str, str, str]] = field(
        default_factory=dict
    )  # by (leader's side, side of the asked node)
    refused: dict[tuple[str, str], list[tuple[int, str]]] = field(
        default_factory=dict
    )  # likewise: exit code, exception
    joiner_end: int = -1  # last offset of the joiner when it was killed
    joiner_first_segment: int = -1  # where its log begins after its return
    voters_after_join: list[dict[int, str]] = field(default_factory=list)
    wiped_id: str = ""
    epochs_around_pause: tuple[int, int] = (-1, -1)
    paused_output: str = ""
    seen_ms: list[float] = field(default_factory=list)
    high_watermark: int = -1
    logs: dict[int, dict[int, bytes]] = field(default_factory=dict)

    def folder(self, node_id: int) -> Path:
        """Return the folder of a node."""
        return self.quorum.nodes.folder_of(node_id)

    @property
    def pushed(self) -> int:
        """Return how many writes the follower showed before a fetch without new records would have ended."""
        return sum(each < UNPUSHED_MS / 2 for each in self.seen_ms)

    @property
    def whole_log(self) -> dict[int, bytes]:
        """Return every batch from offset 0: the elder's only segment still has those before its log start."""
        return self.logs[self.elder]


@contextmanager
def run_story(folder: Path, apache: frozenset[int], jvm: tools.Tools) -> Iterator[Story]:
    """Run the story. `apache` are the nodes, of 1 to 4, that are Apache's.

    Nodes 1 and 2 are of one side, 3 and 4 of the other.
    """
    with quorum(folder, JOINER, **SETTINGS) as nodes:
        mixed = MixedQuorum(nodes, apache, jvm)
        for node_id in VOTERS:
            mixed.format(node_id)
        mixed.format(JOINER, as_voter=False)
        for node_id in FIRST_TWO:  # a majority, so the first leader is of their side
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
    """Run kafka-metadata-quorum against each side's node.

    Return False if the outputs are not of one leader that knows its voters.
    """
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
    """Start it once the leader's log begins after its end, and make it a voter again.

    Both sides check once a minute for snapshots to delete, and then keep only the newest. A cleaned log begins at 0
    again after a restart, so only a later clean-up counts.
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
    """Give it an empty disk and auto-join (KIP-1186): it removes its old voter and adds itself."""
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
    """Freeze a follower of the other side for longer than its fetch timeout, in a quiet quorum, then resume it.

    Its log is as long as all others, so they reject its pre-votes only because they hear from their leader. Repeated if
    the epoch rose without that follower: then the machine is busy, and another node lost the leader.
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
        return last[found.leader_id] - last[OTHER]  # the leader's high watermark now

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
    """Measure how long after an acknowledgement a follower of the other side shows the write, in a quiet quorum.

    Repeated until it was in time often enough: without the push it never is, with it a busy machine may delay it.
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
    """Wait until all have the same log, kill all at once, and keep their disks."""
    mixed = story.quorum
    mixed.wait_until_caught_up(*VOTERS, JOINER, BROKER, slack=0)
    story.high_watermark = mixed.describe().high_watermark
    mixed.nodes.stop_all()
    for node_id in (*VOTERS, JOINER, BROKER):
        story.logs[node_id] = raw_batches(story.folder(node_id))


def states_of(output: str, side: str) -> list[str]:
    """Return the raft states that a node has entered, by its output."""
    if side == "ours":
        return re.findall(r"raft_state_changed node_id=\d+ state=(\w+)", output)
    return re.findall(r"Completed transition to (\w+?)(?:State)?\(", output)
