"""Voters named in the configuration (controller.quorum.voters, kraft.version 0): one of Apache's and two of ours.

Without directory ids a voter may return with an empty disk. Later the quorum becomes dynamic (KIP-853).
"""

import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.interop import kafka
from tests.interop.admin import tools
from tests.interop.conclave import make_static, quorum
from tests.interop.log_files import (
    committed_prefix,
    first_segment,
    leaders,
    partition_folder,
    raw_batches,
    replayed,
    snapshot_image,
    snapshots,
    voter_sets,
)
from tests.interop.metadata_load import Load
from tests.interop.mixed.mixed_quorum import VOTERS, MixedQuorum

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]  # several waits, which are usually short

APACHE, OURS, OTHER_OF_OURS = VOTERS
SETTINGS = {"metadata_log_max_record_bytes_between_snapshots": 5_000, "metadata_max_idle_interval_ms": 5_000}


@dataclass
class StaticStory:
    """What was observed; the files of all nodes are still there."""

    quorum: MixedQuorum
    load: Load
    states_before: list[str] = field(default_factory=list)  # every quorum-state file at kraft.version 0
    refetched: dict[int, int] = field(default_factory=dict)  # where the log of a voter with an empty disk begins
    logs: dict[int, dict[int, bytes]] = field(default_factory=dict)
    led_before: set[str] = field(default_factory=set)


def run_story(folder: Path, jvm: tools.Tools, upgrader: int) -> StaticStory:
    """Let each side lead and each side lose a disk, then upgrade to kraft.version 1 under `upgrader`."""
    with quorum(folder, len(VOTERS), **SETTINGS) as nodes:
        mixed = MixedQuorum(nodes, frozenset({APACHE}), jvm)
        make_static(nodes)
        for node_id in VOTERS:
            mixed.start(node_id)
        kafka.wait_until(lambda: len(mixed.describe().current_voters) == len(VOTERS), kafka.PATIENCE_S, "a leader")
        mixed.wait_until_caught_up(*VOTERS)
        with Load(nodes) as load:
            story = StaticStory(mixed, load)
            for node_id in (APACHE, OURS):
                _let_lead(story, node_id, signal.SIGTERM if node_id == upgrader else signal.SIGKILL)
                story.led_before.add(mixed.side(node_id))
                _lose_a_disk(story, APACHE if node_id == OURS else OTHER_OF_OURS)
            story.states_before = [
                (partition_folder(nodes.folder_of(node_id)) / "quorum-state").read_text() for node_id in VOTERS
            ]
            _let_lead(story, upgrader, signal.SIGTERM)
            _upgrade(story)
            _let_lead(story, APACHE if upgrader == OURS else OURS, signal.SIGKILL)
        mixed.wait_until_caught_up(*VOTERS, slack=0)
        nodes.stop_all()
        story.logs = {node_id: raw_batches(nodes.folder_of(node_id)) for node_id in VOTERS}
        return story


def _let_lead(story: StaticStory, node_id: int, how: signal.Signals) -> None:
    """Kill or stop other leaders until this node leads."""
    while (leader_id := story.quorum.leader_id) != node_id:
        story.quorum.hand_over(leader_id, node_id, how, story.load)


def _lose_a_disk(story: StaticStory, node_id: int) -> None:
    """Kill a voter, empty its folder, and restart it once the leader has a snapshot."""
    mixed, nodes = story.quorum, story.quorum.nodes
    kafka.wait_until(
        lambda: snapshots(nodes.folder_of(mixed.leader_id)), kafka.PATIENCE_S, "the leader makes a snapshot"
    )
    nodes.processes[node_id].kill()
    shutil.rmtree(nodes.folder_of(node_id) / "data")
    if node_id == APACHE:
        mixed.tools.run(tools.STORAGE, "format", "-t", nodes.cluster_id, "-c", nodes.config_of(node_id))
    else:
        nodes.format_static(node_id)
    written = mixed.describe().high_watermark
    mixed.start(node_id)
    kafka.wait_until(
        lambda: max(raw_batches(nodes.folder_of(node_id)), default=-1) >= written,
        kafka.PATIENCE_S,
        f"node {node_id} has the log",
    )
    mixed.wait_until_caught_up(*VOTERS)
    story.refetched[node_id] = first_segment(nodes.folder_of(node_id))


def _upgrade(story: StaticStory) -> None:
    """Raise kraft.version with kafka-features; the leader must know what all voters support."""
    mixed = story.quorum
    upgrade = ("--bootstrap-controller", mixed.nodes.bootstrap, "upgrade", "--feature", "kraft.version=1")
    kafka.wait_until(
        lambda: mixed.tools.attempt(tools.FEATURES, *upgrade).code == 0,
        kafka.PATIENCE_S,
        "kraft.version is raised",
        0.5,
    )
    story.load.wait_for(5)
    mixed.wait_until_caught_up(*VOTERS)
    assert mixed.voters() == {node_id: mixed.directory_id(node_id) for node_id in VOTERS}


@pytest.fixture(scope="module")
def upgraded_by_us(tmp_path_factory: pytest.TempPathFactory, tools: tools.Tools) -> StaticStory:
    """Our leader writes the voters, including Apache's node."""
    return run_story(tmp_path_factory.mktemp("ours"), tools, OURS)


@pytest.fixture(scope="module")
def upgraded_by_apache(tmp_path_factory: pytest.TempPathFactory, tools: tools.Tools) -> StaticStory:
    """Apache's leader writes the voters, including ours."""
    return run_story(tmp_path_factory.mktemp("apache"), tools, APACHE)


@pytest.fixture(params=["upgraded_by_us", "upgraded_by_apache"])
def story(request: pytest.FixtureRequest) -> StaticStory:
    """Each of the two; each story runs once, in whatever order the tests run."""
    found: StaticStory = request.getfixturevalue(request.param)
    return found


def whole_log(story: StaticStory) -> dict[int, bytes]:
    """Return the log of the voter that lost no disk."""
    return story.logs[OURS]


def test_nothing_acknowledged_is_lost_and_logs_are_byte_identical(story: StaticStory) -> None:
    for node_id, log in story.logs.items():
        oldest = next(iter(snapshots(story.quorum.nodes.folder_of(node_id)).values()))
        base = snapshot_image(oldest) if min(log) else None
        assert story.load.lost_in(list(replayed(log, base))[-1]) == [], node_id
    assert committed_prefix(list(story.logs.values())) > 50


def test_each_side_led_a_static_quorum_and_the_dynamic_one_it_became(story: StaticStory) -> None:
    (upgrade,) = voter_sets(whole_log(story))
    sides = [(offset, story.quorum.side(leader)) for offset, leader in starts(whole_log(story))]
    before = [side for offset, side in sides if offset < upgrade]
    after = [side for offset, side in sides if offset > upgrade]
    assert story.led_before == {"apache", "ours"}  # a snapshot may have replaced the first epochs in the log
    upgraded_by = before[-1]
    assert {upgraded_by, *after} == {"apache", "ours"}


def starts(log: dict[int, bytes]) -> list[tuple[int, int]]:
    """Return (offset, leader) of each epoch's first batch, in order."""
    return [(offset, leader) for offset in sorted(log) for _, leader in leaders({offset: log[offset]}).items()]


def test_a_static_voter_with_an_empty_disk_starts_with_the_other_sides_snapshot(story: StaticStory) -> None:
    assert set(story.refetched) == {APACHE, OTHER_OF_OURS}
    assert min(story.refetched.values()) > 0


def test_the_upgrade_writes_every_voters_directory_id(story: StaticStory) -> None:
    assert all('"data_version":0' in state for state in story.states_before), story.states_before
    (voters,) = voter_sets(whole_log(story)).values()
    assert voters == {node_id: story.quorum.directory_id(node_id) for node_id in VOTERS}
    for node_id in VOTERS:
        state = (partition_folder(story.quorum.nodes.folder_of(node_id)) / "quorum-state").read_text()
        assert '"data_version":1' in state, (node_id, state)
