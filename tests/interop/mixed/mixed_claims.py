"""What must hold in every mixed quorum, whichever side has the majority of the voters."""

import json
import re
from itertools import groupby, pairwise
from pathlib import Path

from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.control_records import SnapshotHeaderRecord, VotersRecord
from kraft_core.protocol.record_batch import read_batches
from kraft_core.protocol.uuids import uuid_to_text
from tests.interop.log_files import (
    committed_prefix,
    image_records_of,
    leaders,
    replayed,
    snapshot_image,
    snapshot_records,
    snapshots,
    voter_sets,
)
from tests.interop.mixed.mixed_quorum import JOINER, VOTERS
from tests.interop.mixed.mixed_story import BROKER, OTHER, PUSHED_WRITES, Story, states_of


class MixedQuorumClaims:
    """Subclasses provide the fixture `story`."""

    def test_leaders_of_both_sides_were_killed_and_stopped_and_replaced_by_the_other_side(self, story: Story) -> None:
        assert set(story.deposed) >= {(side, how) for side in ("apache", "ours") for how in ("SIGKILL", "SIGTERM")}
        in_turn = [story.quorum.side(leader) for _, leader in sorted(leaders(story.whole_log).items())]
        handed_over = sum(then != now for then, now in pairwise(in_turn))
        assert handed_over >= 4, in_turn

    def test_no_node_logged_a_fault(self, story: Story) -> None:
        for node_id in story.quorum.nodes.node_ids:
            for output in story.folder(node_id).glob("*.out"):
                text = output.read_text()
                assert not re.search(r"(?i)encountered.*fault|fault.?handler|Traceback| CRITICAL ", text), output

    def test_nothing_acknowledged_is_lost_on_any_node(self, story: Story) -> None:
        assert len(story.load.topics) > 100
        assert min(story.load.numbers.values()) > 150
        for node_id, log in story.logs.items():
            image = image_on_disk(log, story.folder(node_id))
            assert story.load.lost_in(image) == [], node_id
            assert image.offset >= story.high_watermark - 1, node_id

    def test_logs_are_byte_identical(self, story: Story) -> None:
        assert committed_prefix([story.logs[node_id] for node_id in VOTERS]) > 500
        assert committed_prefix(list(story.logs.values())) > 10

    def test_snapshots_of_both_sides_equal_the_log_record_by_record(self, story: Story) -> None:
        images = {image.offset + 1: image for image in replayed(story.whole_log)}
        batches = {each.last_offset + 1: each for raw in story.whole_log.values() for each in read_batches(raw)}
        sets = voter_sets(story.whole_log)
        sides: list[str] = []
        for node_id in story.quorum.nodes.node_ids:
            for offset, path in snapshots(story.folder(node_id)).items():
                control, data = snapshot_records(path)
                assert data == image_records_of(images[offset]), f"{path} and the log differ"
                header, voters = control[0], control[2]
                assert isinstance(header, SnapshotHeaderRecord)
                assert header.last_contained_log_timestamp == batches[offset].max_timestamp, path
                assert isinstance(voters, VotersRecord)
                known = sets[max(each for each in sets if each < offset)]
                assert {each.voter_id: uuid_to_text(each.voter_directory_id) for each in voters.voters} == known, path
                sides.append(story.quorum.side(node_id))
        assert min(sides.count(side) for side in ("apache", "ours")) > 0, sides

    def test_a_node_behind_the_log_start_restarted_with_the_leaders_snapshot(self, story: Story) -> None:
        assert story.joiner_first_segment > story.joiner_end + 1
        assert story.joiner_first_segment in {image.offset + 1 for image in replayed(story.whole_log)}

    def test_voters_were_added_and_removed_one_at_a_time_while_records_flowed(self, story: Story) -> None:
        sets = [set(each) for _, each in sorted(voter_sets(story.whole_log).items())]
        three, four = set(VOTERS), {*VOTERS, JOINER}
        assert sets == [three, four, three, four, three, four]
        assert set(story.voters_after_join[0]) == four

    def test_a_node_with_an_empty_disk_replaced_its_old_voter(self, story: Story) -> None:
        sets = [each for _, each in sorted(voter_sets(story.whole_log).items())]
        old = story.voters_after_join[0][JOINER]
        assert [each.get(JOINER) for each in sets[-3:]] == [old, None, story.wiped_id]
        assert story.voters_after_join[1][JOINER] == story.wiped_id != old

    def test_no_node_becomes_a_candidate_without_pre_votes_of_the_other_side(self, story: Story) -> None:
        before, after = story.epochs_around_pause
        assert before == after, "a follower that was frozen for two fetch timeouts came back with a higher epoch"
        assert "Candidate" not in states_of(story.paused_output, story.quorum.side(OTHER))
        for node_id in VOTERS:
            for output in story.folder(node_id).glob("*.out"):
                states = states_of(output.read_text(), story.quorum.side(node_id))
                assert "Leader" in states or node_id == story.elder, states
                assert {before for before, then in pairwise(states) if then == "Candidate"} <= {"Prospective"}, states

    def test_the_high_watermark_is_pushed_to_followers_of_the_other_side(self, story: Story) -> None:
        assert story.pushed >= PUSHED_WRITES, story.seen_ms

    def test_kafka_metadata_quorum_prints_the_same_for_both_leaders_through_either_node(self, story: Story) -> None:
        sides = ("apache", "ours")
        assert set(story.described) == {(leader, asked) for leader in sides for asked in sides}
        for reduced in (status, replication):
            for index in (0,) if reduced is status else (1, 2):
                shapes = {key: reduced(printed[index]) for key, printed in story.described.items()}
                assert len(set(map(str, shapes.values()))) == 1, shapes

    def test_both_leaders_reject_kafka_metadata_quorum_alike(self, story: Story) -> None:
        assert set(story.refused) == set(story.described)
        for key, (removal, addition, dry_run) in story.refused.items():
            assert removal == (1, "org.apache.kafka.common.errors.VoterNotFound"), key
            assert addition == (1, "org.apache.kafka.common.errors.DuplicateVoter"), key
            assert dry_run[0] == 0, key
            assert dry_run[1].startswith(f"DRY RUN of adding controller {story.elder} "), key

    def test_apaches_broker_followed_every_leader_and_was_never_fenced(self, story: Story) -> None:
        fenced = [
            broker.fenced
            for image in replayed(story.whole_log)
            if (broker := image.cluster.brokers.get(BROKER)) is not None
        ]
        assert [state for state, _ in groupby(fenced)] == [True, False]

    def test_our_observer_followed_every_leader_and_has_the_metadata_of_the_log(self, story: Story) -> None:
        last_epoch = max(story.load.leaders)  # it may have been killed before later ones
        in_the_log = {epoch: leader for epoch, leader in leaders(story.whole_log).items() if epoch <= last_epoch}
        assert story.load.leaders == in_the_log
        assert last_epoch >= story.load.image.epoch
        at_its_offset = next(each for each in replayed(story.whole_log) if each.offset == story.load.image.offset)
        assert at_its_offset.same_metadata(story.load.image)


def image_on_disk(log: dict[int, bytes], folder: Path) -> MetadataImage:
    """Return the image on a node's disk: from the log's start, or from the snapshot before it and the log."""
    if min(log) == 0:
        return list(replayed(log))[-1]
    offset, path = next(iter(snapshots(folder).items()))
    assert offset >= min(log)
    return list(replayed(log, snapshot_image(path)))[-1]


def status(printed: str) -> list[str]:
    """Return the keys of describe --status, with the values that do not depend on time."""
    lines = [line.partition(":") for line in printed.splitlines()]
    found = {key: value.strip() for key, _, value in lines}
    assert all(int(found[key]) >= 0 for key in ("LeaderId", "LeaderEpoch", "HighWatermark", "MaxFollowerLag"))
    assert int(found["MaxFollowerLagTimeMs"]) >= -1
    assert isinstance(json.loads(found["CurrentObservers"]), list)
    layout = [f"{key}:{len(value) - len(value.lstrip())}" for key, _, value in lines]
    voters = sorted(json.loads(found["CurrentVoters"]), key=lambda each: int(each["id"]))
    return [*layout, found["ClusterId"], json.dumps(voters)]


def replication(printed: str) -> list[str]:
    """Return the columns of describe --replication and the voters.

    The leader must be first and have no lag, and times must be recent.
    """
    header, *rows = [line.split("\t") for line in printed.splitlines() if line.strip()]
    assert [row[-2].strip() for row in rows[:3]] == ["Leader", "Follower", "Follower"], printed
    assert {row[-2].strip() for row in rows[3:]} <= {"Observer"}
    assert rows[0][3].strip() == "0"
    shape = r"\d+ ms ago" if " ms ago" in printed else r"\d{13}"
    assert all(re.fullmatch(shape, cell.strip()) for row in rows[:3] for cell in row[4:6]), printed
    return [*(cell.strip() for cell in header), *sorted(f"{row[0].strip()} {row[1].strip()}" for row in rows[:3])]
