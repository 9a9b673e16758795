"""The node as a whole: raft, controller and image, driven by events under a virtual clock."""

from collections.abc import Iterable
from itertools import pairwise
from uuid import UUID

import pytest

from kraft_core.controller.controller_operations import WRITES
from kraft_core.controller.controller_request_context import ControllerRequestContext
from kraft_core.node import CleanLog, ControllerRequest, NodeEffect, SnapshotFailed
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import CreateTopicsRequest
from kraft_core.protocol.metadata_records import BeginTransactionRecord, NoOpRecord, TopicRecord
from kraft_core.raft.events import Shutdown, Timer
from kraft_core.raft.snapshot.reader import SnapshotReader
from tests.node_cluster import Cluster, Member, create_topic


def test_a_new_leader_writes_the_bootstrap_records_and_everyone_replays_them() -> None:
    cluster = Cluster(3)
    active = cluster.active()
    cluster.run(1000)
    for member in cluster.members.values():
        assert member.node.image.features.metadata_version == 30
        assert member.node.image == active.node.image
        assert member.node.is_active is (member is active)


def test_a_write_is_in_the_tip_at_once_and_answered_and_visible_only_when_committed() -> None:
    cluster = Cluster(1)
    active = cluster.with_broker()
    active.flush_held = True
    request_id = active.request(create_topic("orders"), 7)
    cluster.run(100)
    assert active.topics(active.node.tip) == {"orders"}
    assert active.topics() == set()
    assert request_id not in active.answers
    active.flush_held = False
    cluster.settle()
    assert active.answers[request_id].topics[0].error_code == ErrorCode.NONE
    assert active.topics() == {"orders"}
    assert active.node.image is active.node.tip


def test_a_second_write_sees_the_first_before_it_is_committed() -> None:
    cluster = Cluster(1)
    active = cluster.with_broker()
    active.flush_held = True
    first, second = (active.request(create_topic("orders"), 7) for _ in range(2))
    active.flush_held = False
    cluster.settle()
    assert active.answers[first].topics[0].error_code == ErrorCode.NONE
    assert active.answers[second].topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_requests_that_arrive_together_share_one_flush() -> None:
    cluster = Cluster(1)
    active = cluster.with_broker()
    flushes = 0
    flush = active.log.flush

    def counted() -> int:
        nonlocal flushes
        flushes += 1
        return flush()

    active.log.flush = counted
    ids = [cluster.new_id() for _ in range(50)]
    active.step(*(ControllerRequest(each, create_topic(f"t-{each}"), 7, ControllerRequestContext()) for each in ids))
    cluster.settle()
    assert len(active.topics()) == 50
    assert all(active.answers[each].topics[0].error_code == ErrorCode.NONE for each in ids)
    assert flushes == 1


def test_committed_records_are_reported_once_and_in_order() -> None:
    cluster = Cluster(3)
    active = cluster.with_broker()
    for number in range(5):
        active.request(create_topic(f"t-{number}"), 7)
    cluster.run(1500)
    for member in cluster.members.values():
        offsets = [change.new.offset for change in member.changes]
        assert offsets == sorted(offsets)
        assert all(before.new is after.old for before, after in zip(member.changes, member.changes[1:], strict=False))
        names = [type(record).__name__ for change in member.changes for record in change.records]
        assert names.count("TopicRecord") == 5
        assert names.count("RegisterBrokerRecord") == 1


def test_losing_the_leadership_drops_the_tip_and_answers_not_controller() -> None:
    cluster = Cluster(3)
    old = cluster.with_broker()
    cluster.run(1000)
    cluster.cut_off.add(old.node_id)
    request_id = old.request(create_topic("lost"), 7)
    assert old.topics(old.node.tip) == {"lost"}
    cluster.until(lambda: request_id in old.answers)
    assert old.answers[request_id].topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert not old.node.is_active
    assert old.topics(old.node.tip) == set()
    new = cluster.active()
    kept = new.request(create_topic("kept"), 7)
    cluster.until(lambda: kept in new.answers)
    cluster.cut_off.clear()
    cluster.until(lambda: old.topics() == {"kept"})
    assert old.node.image == new.node.image


def test_a_transaction_whose_abort_was_never_committed_is_still_open_to_the_next_leader() -> None:
    """KIP-868: a new leader aborts an open transaction, and may lose the leadership before the abort is committed."""
    cluster = Cluster(5)
    dead = cluster.with_broker()
    cluster.run(1000)
    others = [each for each in cluster.members.values() if each is not dead]
    dead.node.append([BeginTransactionRecord(name="x"), TopicRecord(name="half", topic_id=UUID(int=7 << 64))])
    dead.step(Timer())
    cluster.until(lambda: all(each.node._loader.in_transaction for each in others))
    for each in others:
        _hold_flushes_once_leading(each)
    cluster.cut_off |= {dead.node_id, others[-1].node_id}  # three of five are left: a commit needs all three
    cluster.until(lambda: any(each.node.is_active for each in others))
    short_lived = next(each for each in others if each.node.is_active)
    assert short_lived.node.next_offset > short_lived.node.applied_offset, "the abort is not committed"
    cluster.cut_off = {dead.node_id, short_lived.node_id}
    cluster.until(lambda: not short_lived.node.is_active)
    assert short_lived.node._loader.in_transaction
    for each in others:
        del each.node.controller.on_leader  # as it is in the class
    short_lived.flush_held = False
    rest = [each for each in others if each is not short_lived]
    cluster.until(lambda: any(each.node.is_active for each in rest))
    cluster.cut_off.remove(short_lived.node_id)
    active = next(each for each in rest if each.node.is_active)
    active.request(create_topic("whole"), 7)
    cluster.until(lambda: all(each.topics() == {"whole"} for each in others))
    assert not any(each.node._loader.in_transaction for each in others)


def _hold_flushes_once_leading(member: Member) -> None:
    on_leader = member.node.controller.on_leader

    def held(epoch: int, now_ms: int, *, in_transaction: bool) -> None:
        member.flush_held = True
        on_leader(epoch, now_ms, in_transaction=in_transaction)

    member.node.controller.on_leader = held  # type: ignore[method-assign]  # its disk becomes slow


def test_a_follower_shows_committed_state_only() -> None:
    cluster = Cluster(3)
    active = cluster.with_broker()
    cluster.run(1000)
    behind, other = (each for each in cluster.members.values() if each is not active)
    cluster.cut_off.add(behind.node_id)
    active.request(create_topic("committed"), 7)
    cluster.until(lambda: active.topics() == {"committed"})
    cluster.cut_off.add(other.node_id)
    active.request(create_topic("open"), 7)
    behind.flush_held = True
    cluster.cut_off.remove(behind.node_id)
    cluster.until(lambda: behind.log.end_offset == active.log.end_offset)
    assert behind.topics() == {"committed"}
    behind.flush_held = False
    cluster.until(lambda: behind.topics() == {"committed", "open"})


def test_a_node_that_does_not_lead_refuses_writes_and_names_the_leader() -> None:
    cluster = Cluster(3)
    active = cluster.with_broker()
    cluster.run(1000)
    follower = next(each for each in cluster.members.values() if each is not active)
    request_id = follower.request(create_topic("orders"), 7)
    answer = follower.answers[request_id].topics[0]
    assert answer.error_code == ErrorCode.NOT_CONTROLLER
    assert str(active.node_id) in answer.error_message
    with pytest.raises(KafkaError, match="not the active controller"):
        follower.node.append([NoOpRecord()])


def test_acknowledged_records_survive_the_loss_of_unflushed_ones() -> None:
    cluster = Cluster(1)
    active = cluster.with_broker()
    kept = active.request(create_topic("kept"), 7)
    cluster.settle()
    assert active.answers[kept].topics[0].error_code == ErrorCode.NONE
    active.flush_held = True
    lost = active.request(create_topic("lost"), 7)
    assert lost not in active.answers
    active.flush_held = False
    active.restart()
    cluster.active()
    assert active.topics() == {"kept"}


def test_a_request_after_its_deadline_has_no_effect() -> None:
    cluster = Cluster(1)
    active = cluster.with_broker()
    request_id = active.request(create_topic("late"), 7, deadline_ms=cluster.now_ms - 1)
    cluster.settle()
    assert active.answers[request_id].topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert active.topics(active.node.tip) == set()


def test_a_snapshot_is_requested_by_size_and_equals_the_image_at_its_offset() -> None:
    cluster = Cluster(1, max_bytes_between_snapshots=20_000)
    active = cluster.with_broker()
    for number in range(200):
        active.request(create_topic(f"topic-{number}", partitions=2), 7)
    cluster.settle()
    assert len(active.snapshots) == 1, "one at a time"
    wanted = active.write_snapshot()
    assert wanted.id.offset <= active.node.raft.high_watermark
    assert wanted.image.offset == wanted.id.offset - 1
    batches = list(SnapshotReader(active.log, wanted.id))
    assert batches[0].is_control
    assert batches[-1].is_control
    assert [batch.base_offset for batch in batches][1:] == [batch.last_offset + 1 for batch in batches][:-1]

    active.restart()
    cluster.active()
    loaded = [change for change in active.changes if change.new.offset == wanted.id.offset - 1][-1]
    assert loaded.new == wanted.image
    assert len(active.topics()) == 200


def test_a_snapshot_is_requested_by_time_only_after_writes() -> None:
    cluster = Cluster(1, max_snapshot_interval_ms=10_000)
    active = cluster.with_broker()
    cluster.until(lambda: active.snapshots, ms=11_000)
    active.write_snapshot()
    active.changes.clear()
    cluster.run(25_000, step_ms=50)
    written = [change for change in active.changes if change.records]
    assert bool(active.snapshots) is bool(written)


def test_no_snapshot_is_written_before_the_first_metadata_record() -> None:
    """A log with only a LeaderChange record has no metadata. MetadataLoader.stillNeedToCatchUp."""
    cluster = Cluster(1, max_bytes_between_snapshots=1)
    active = cluster.active()
    cluster.run(100)
    assert active.write_snapshot().image.features.metadata_version == 30


def test_a_failed_snapshot_is_retried_later() -> None:
    cluster = Cluster(1, max_bytes_between_snapshots=2_000)
    active = cluster.with_broker()
    for number in range(20):
        active.request(create_topic(f"a-{number}"), 7)
    cluster.settle()
    assert len(active.snapshots) == 1
    active.snapshots.clear()
    active.step(SnapshotFailed())
    for number in range(20):
        active.request(create_topic(f"b-{number}"), 7)
    cluster.settle()
    assert len(active.snapshots) == 1


def test_a_lagging_follower_loads_the_leaders_snapshot() -> None:
    cluster = Cluster(3, max_bytes_between_snapshots=5_000)
    active = cluster.with_broker()
    cluster.run(1000)
    behind = next(each for each in cluster.members.values() if each is not active)
    cluster.cut_off.add(behind.node_id)
    for number in range(100):
        active.request(create_topic(f"t-{number}"), 7)
    cluster.run(200)
    assert len(active.topics()) == 100
    wanted = active.write_snapshot()
    active.log.drop_before(wanted.id)
    behind.changes.clear()
    cluster.cut_off.clear()
    cluster.until(lambda: len(behind.topics()) == 100, ms=60_000)
    assert behind.log.start_offset == wanted.id.offset
    assert [each.node.load_snapshot_count for each in (behind, active)] == [1, 0]
    cluster.until(lambda: behind.node.image == cluster.active().node.image)


def test_equal_images_give_equal_snapshots_on_every_node() -> None:
    cluster = Cluster(3, max_snapshot_interval_ms=3_000)
    active = cluster.with_broker()
    for number in range(10):
        active.request(create_topic(f"t-{number}", partitions=3), 7)
    cluster.until(lambda: all(member.snapshots for member in cluster.members.values()))
    by_id: dict[object, set[bytes]] = {}
    for member in cluster.members.values():
        snapshot_id = member.write_snapshot().id
        data, size = member.log.read_snapshot(snapshot_id, 0, 10**9)
        assert len(data) == size
        by_id.setdefault(snapshot_id, set()).add(data)
    assert all(len(contents) == 1 for contents in by_id.values())
    assert len(by_id) < 3, "at least two nodes made the same one"


def test_a_long_catch_up_is_split_into_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft_core.raft.batch_reader.READ_BYTES", 1_000)
    cluster = Cluster(1)
    active = cluster.with_broker()
    for number in range(100):
        active.request(create_topic(f"t-{number}"), 7)
    cluster.settle()
    active.changes.clear()
    active.restart()
    steps = 0
    while len(active.topics()) < 100:
        active.step(Timer())
        active.flush()
        cluster.now_ms += 1 if active.node.next_deadline_ms() <= cluster.now_ms else 10
        steps += 1
        assert steps < 5_000
    assert len(active.changes) > 10


def test_a_large_snapshot_is_loaded_in_steps_and_the_node_answers_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft_core.node.SNAPSHOT_RECORDS_PER_STEP", 10)
    cluster = Cluster(3, max_bytes_between_snapshots=5_000)
    active = cluster.with_broker()
    cluster.run(1000)
    behind = next(each for each in cluster.members.values() if each is not active)
    before = behind.node.image
    cluster.cut_off.add(behind.node_id)
    for number in range(100):
        active.request(create_topic(f"t-{number}"), 7)
    cluster.run(200)
    active.log.drop_before(active.write_snapshot().id)
    cluster.cut_off.clear()
    cluster.until(lambda: behind.node._loading is not None, ms=60_000)
    steps = 0
    while behind.node._loading is not None:
        assert behind.node.image is before, "the old image stays until the new one is whole"
        assert behind.node.next_deadline_ms() <= cluster.now_ms, "it requests the next step at once"
        assert behind.asked_to_vote() is not None, "others are answered meanwhile"
        steps += 1
    assert steps > 15
    assert len(behind.topics()) == 100
    assert behind.changes[-1].old is before
    assert behind.changes[-1].new is behind.node.image


def test_no_snapshot_is_started_during_shutdown() -> None:
    cluster = Cluster(1, max_bytes_between_snapshots=2_000)
    active = cluster.with_broker()
    active.step(Shutdown(10_000))
    assert active.node._is_stopping
    active.node._bytes_since_snapshot = 10**6
    active.step(Timer())
    assert active.snapshots == []


def test_a_fault_of_the_controller_moves_the_leadership_to_another_node(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(3)
    active = cluster.with_broker()

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setitem(WRITES, CreateTopicsRequest, broken)
        failed = active.request(create_topic("orders"), 7)
        assert not active.node.is_active
    assert active.answers[failed].topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    cluster.until(lambda: cluster.active() is not active)
    again = cluster.active().request(create_topic("orders"), 7)
    cluster.run(1000)
    assert cluster.active().answers[again].topics[0].error_code == ErrorCode.NONE


def test_log_cleaning_is_requested_once_a_minute() -> None:
    """metadata.max.retention.bytes and .ms."""
    cluster = Cluster(1)
    active = cluster.active()
    requested: list[int] = []
    carry_out = active.carry_out

    def watched(effects: Iterable[NodeEffect]) -> None:
        found = list(effects)
        requested.extend(cluster.now_ms for each in found if isinstance(each, CleanLog))
        carry_out(found)

    active.carry_out = watched  # type: ignore[method-assign]  # watched
    cluster.run(200_000, 500)
    assert len(requested) == 3
    assert all(60_000 <= later - earlier <= 61_000 for earlier, later in pairwise(requested))
