"""Fetch, both sides, and what is committed. Names in docstrings are Kafka's own tests."""

import logging
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    FetchRequest,
)
from kraft_core.protocol.record_batch import encode_batch
from kraft_core.raft.effects import Flush, Respond, Stopped
from kraft_core.raft.events import Shutdown
from kraft_core.raft.internals import leader_state
from kraft_core.raft.internals.leader_state import Leader
from kraft_core.raft.internals.raft_core import FOREIGN_IDS_MAX
from kraft_core.raft.leader_and_epoch import LeaderAndEpoch
from kraft_core.raft.raft_log import OffsetAndEpoch
from tests.raft.memory_raft_log import MemoryRaftLog
from tests.raft.one_node import (
    OneNode,
    batch,
    dynamic_voters,
    fetch_request,
    fetch_response,
    key,
    only,
    snapshot_bytes,
    vote_request,
)


def leading(**settings: object) -> OneNode:
    node = OneNode(**settings)  # type: ignore[arg-type]  # passed on as they are
    node.become_leader()
    return node


# --- the leader's side ------------------------------------------------------------------------------------------------


def test_a_fetch_acknowledges_all_below_its_offset() -> None:
    """testFetchShouldBeTreatedAsLeaderAcknowledgement."""
    node = leading()
    end = node.log.end_offset
    assert node.client.high_watermark == -1
    answer = only(node.request(fetch_request(1, 1, end, 1, known_high_watermark=-1)))
    assert node.client.high_watermark == end == answer.high_watermark


def test_observers_do_not_move_the_high_watermark() -> None:
    node = leading()
    node.request(fetch_request(9, 1, node.log.end_offset, 1))
    assert node.client.high_watermark == -1


def test_another_directory_under_a_voters_id_does_not_count() -> None:
    node = leading()
    request = fetch_request(1, 1, node.log.end_offset, 1)
    partition = request.topics[0].partitions[0]
    wiped = FetchRequest(
        replica_state=request.replica_state,
        topics=(
            type(request.topics[0])(
                topic_id=request.topics[0].topic_id,
                partitions=(
                    type(partition)(
                        current_leader_epoch=1,
                        fetch_offset=partition.fetch_offset,
                        last_fetched_epoch=1,
                        replica_directory_id=key(77).directory_id,
                    ),
                ),
            ),
        ),
    )
    node.request(wiped)
    assert node.client.high_watermark == -1


def test_the_leaders_own_log_counts_only_when_flushed() -> None:
    node = leading()
    node.commit_epoch()
    node.holds_flushes = True
    committed = node.client.high_watermark
    node.append([b"value"])
    node.request(fetch_request(1, 1, node.log.end_offset, 1))
    assert node.client.high_watermark == committed  # one disk of three
    node.finish_flush()
    assert node.client.high_watermark == node.log.end_offset


def test_parked_followers_get_an_append_before_its_flush() -> None:
    node = leading()
    node.commit_epoch()
    assert node.request(fetch_request(2, 1, node.log.end_offset, 1)) is None
    waiting = node.last_request_id()
    node.effects.clear()
    offset = node.log.end_offset
    effects = node.append([b"value"])
    assert [type(each) for each in effects] == [Respond, Flush]
    assert only(node.answers[waiting]).records == node.log.read(offset, 10_000)


def test_requests_that_come_during_a_flush_share_the_next_one() -> None:
    node = leading()
    node.holds_flushes = True
    node.append(*[[b"value"]] * 5)
    for _ in range(5):
        node.append([b"value"])
    assert sum(isinstance(each, Flush) for each in node.effects) == 2  # of the epoch's start, and of the first five
    node.finish_flush()
    node.finish_flush()
    assert node.log.flushed_offset == node.log.end_offset


def test_a_parked_fetch_is_answered_when_the_high_watermark_rises() -> None:
    """KIP-1166."""
    node = leading()
    end = node.log.end_offset
    assert node.request(fetch_request(9, 1, end, 1, known_high_watermark=-1)) is None
    waiting = node.last_request_id()
    node.request(fetch_request(1, 1, end, 1))
    assert only(node.answers[waiting]).high_watermark == end


def test_a_follower_that_knows_less_than_the_high_watermark_is_answered_at_once() -> None:
    """KIP-1166."""
    node = leading()
    node.commit_epoch()
    end = node.log.end_offset
    assert only(node.request(fetch_request(2, 1, end, 1, known_high_watermark=end - 1))).high_watermark == end
    assert node.request(fetch_request(2, 1, end, 1, known_high_watermark=end)) is None


def test_a_parked_fetch_is_answered_empty_after_its_wait() -> None:
    node = leading()
    node.commit_epoch()
    end = node.log.end_offset
    assert node.request(fetch_request(2, 1, end, 1, max_wait_ms=300)) is None
    waiting = node.last_request_id()
    node.pass_time(299)
    assert waiting not in node.answers
    node.pass_time(1)
    answer = only(node.answers[waiting])
    assert (answer.error_code, answer.records) == (0, b"")


def test_a_replica_has_one_parked_fetch() -> None:
    node = leading()
    node.commit_epoch()
    for _ in range(50):
        node.request(fetch_request(2, 1, node.log.end_offset, 1))
    state = node.client.state
    assert isinstance(state, Leader)
    assert len(state.fetches) == 1


def test_parked_fetches_fail_when_leadership_is_lost() -> None:
    """testPurgatoryFetchCompletedByFollowerTransition."""
    node = leading()
    node.commit_epoch()
    assert node.request(fetch_request(2, 1, node.log.end_offset, 1)) is None
    waiting = node.last_request_id()
    node.request(vote_request(1, 5, 1, node.log.end_offset), 2)
    answer = only(node.answers[waiting])
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_epoch == 5


@pytest.mark.parametrize(
    ("epoch", "offset", "last_epoch", "error"),
    [
        (0, 0, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (2, 0, 0, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (1, -1, 0, ErrorCode.INVALID_REQUEST),
        (1, 0, -1, ErrorCode.INVALID_REQUEST),
        (1, 0, 2, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_wrong_fetch_gets_kafkas_error(epoch: int, offset: int, last_epoch: int, error: int) -> None:
    answer = only(leading().request(fetch_request(1, epoch, offset, last_epoch)))
    assert answer.error_code == error
    assert (answer.records, answer.high_watermark) == (b"", -1)
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (0, 1)


def test_a_leader_that_shuts_down_answers_broker_not_available_or_not_leader() -> None:
    node = leading()
    node.step(Shutdown(1000))
    answer = only(node.request(fetch_request(1, 1, 0, 0)))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_diverging_log_gets_the_point_of_divergence() -> None:
    node = leading(log=_log(batch(0, 1), batch(1, 1), batch(2, 3)))
    assert node.client.epoch == 4
    answer = only(node.request(fetch_request(1, 4, 5, 2)))
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (1, 2)
    answer = only(node.request(fetch_request(1, 4, 3, 1)))
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (1, 2)


def _log(*batches: bytes) -> MemoryRaftLog:
    log = MemoryRaftLog()
    for each in batches:
        log.append(each)
    log.flush()
    return log


def test_a_leader_commits_older_records_only_with_one_of_its_own_epoch() -> None:
    """Raft, figure 8; LeaderStateTest.testUpdateHighWatermarkQuorumSizeThree."""
    node = leading(log=_log(batch(0, 1), batch(1, 1)))
    node.request(fetch_request(1, node.client.epoch, 2, 1))
    assert node.client.high_watermark == -1
    node.commit_epoch()
    assert node.client.high_watermark == node.log.end_offset


def test_append_is_for_the_leader_alone() -> None:
    """testAppendFailedWithNotLeaderException."""
    node = OneNode()
    with pytest.raises(KafkaError) as raised:
        node.client.prepare_append(0, [b"value"])
    assert raised.value.code == ErrorCode.NOT_CONTROLLER
    assert node.log.end_offset == 0


def test_a_batch_over_the_limit_is_refused_as_a_whole() -> None:
    """testAppendFailedWithRecordBatchTooLargeException."""
    node = leading(max_batch_bytes=500)
    end = node.log.end_offset
    with pytest.raises(KafkaError) as raised:
        node.client.prepare_append(node.client.epoch, [b"x" * 200] * 3)
    assert raised.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert node.log.end_offset == end


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20)), max_size=40))
def test_the_high_watermark_never_decreases(fetches: list[tuple[int, int]]) -> None:
    """Whatever offsets five replicas claim, also lower ones (testDescribeQuorumNonMonotonicFollowerFetch)."""
    leader = Leader(
        epoch=3,
        me=key(0),
        voters=dynamic_voters(0, 1, 2),
        granting=(0, 1),
        epoch_start_offset=5,
        flushed_offset=5,
        check_quorum_timeout_ms=3000,
        now_ms=0,
    )
    seen = [-1]
    for replica, offset in fetches:
        if replica == 0:
            leader.own_flushed(max(offset, leader.progress(key(0)).end_offset))
        else:
            leader.fetched(key(replica), offset, 20, 1)
        seen.append(leader.high_watermark)
    assert all(before <= after for before, after in pairwise(seen))
    assert all(each == -1 or each > 5 for each in seen)


def test_the_high_watermark_does_not_fall_when_a_lagging_voter_joins() -> None:
    """testHighWatermarkDoesNotDecreaseFromNewVoter."""
    leader = Leader(
        epoch=1,
        me=key(0),
        voters=dynamic_voters(0),
        granting=(0,),
        epoch_start_offset=0,
        flushed_offset=10,
        check_quorum_timeout_ms=3000,
        now_ms=0,
    )
    assert leader.own_flushed(10)
    leader.set_voters(dynamic_voters(0, 1))
    leader.fetched(key(1), 3, 10, 1)
    assert leader.high_watermark == 10


# --- the follower's side ----------------------------------------------------------------------------------------------


def following(**settings: object) -> OneNode:
    node = OneNode(**settings)  # type: ignore[arg-type]  # passed on as they are
    node.follow(1, 3)
    return node


def test_a_follower_fetches_again_only_when_what_it_got_is_durable() -> None:
    """testFollowerReplication."""
    node = following()
    node.holds_flushes = True
    node.answer(node.fetch_out(), fetch_response(1, 3, batch(0, 3), high_watermark=1))
    assert node.log.end_offset == 1
    assert not node.sent(FetchRequest, 1)
    node.finish_flush()
    asked = node.fetch_out().message
    assert isinstance(asked, FetchRequest)
    assert asked.topics[0].partitions[0].fetch_offset == 1
    assert asked.topics[0].partitions[0].high_watermark == 1


def test_a_followers_high_watermark_ends_with_its_log() -> None:
    node = following()
    node.answer(node.fetch_out(), fetch_response(1, 3, batch(0, 3), high_watermark=9))
    assert node.client.high_watermark == 1


def damaged(raw: bytes) -> bytes:
    return raw[:-1] + bytes([raw[-1] ^ 1])


@pytest.mark.parametrize(
    ("records", "kept"),
    [
        (batch(0, 3) + damaged(batch(1, 3)), 1),
        (batch(0, 3) + batch(1, 3)[:-5], 1),
        (batch(0, 3) + batch(2, 3), 1),
        (batch(0, 3) + batch(1, 2), 1),
        (batch(0, 3) + batch(1, 4), 1),
        (damaged(batch(0, 3)), 0),
        (batch(1, 3), 0),
        (b"\xff" * 200, 0),
        (batch(0, 3) + encode_batch(1, 3, 0, [b"??"], control_keys=[b"\0\0\0\6"]), 1),
    ],
    ids=["crc", "cut", "gap", "older epoch", "newer epoch", "crc first", "gap first", "noise", "bad control record"],
)
def test_good_batches_are_kept_and_the_rest_is_fetched_again(records: bytes, kept: int) -> None:
    """KafkaRaftClientFetchTest.testInvalidMemoryRecords, testReplicationOfHigherPartitionLeaderEpoch."""
    node = following()
    node.answer(node.fetch_out(), fetch_response(1, 3, records))
    assert node.log.end_offset == kept
    node.pass_time(1000)
    node.pass_time(0)
    asked = node.sent(FetchRequest)[-1].message
    assert isinstance(asked, FetchRequest)
    assert asked.topics[0].partitions[0].fetch_offset == kept


def test_a_follower_truncates_where_the_leader_says() -> None:
    """testFollowerLogReconciliation."""
    node = following(log=_log(batch(0, 1), batch(1, 1), batch(2, 2), batch(3, 2)))
    node.answer(node.fetch_out(), fetch_response(1, 3, diverging=(1, 1)))
    assert node.log.end_offset == 1
    assert node.log.last_epoch == 1


def test_a_follower_refuses_to_truncate_below_its_high_watermark() -> None:
    node = following(log=_log(batch(0, 1), batch(1, 2)))
    node.answer(node.fetch_out(), fetch_response(1, 3, high_watermark=2))
    assert node.client.high_watermark == 2
    node.answer(node.fetch_out(), fetch_response(1, 3, diverging=(1, 1)))
    assert node.log.end_offset == 2


def test_an_answer_of_a_former_leader_is_ignored() -> None:
    """testFetchResponseIgnoredAfterBecomingFollowerOfDifferentLeader."""
    node = following()
    old = node.fetch_out()
    node.follow(2, 4)
    node.answer(old, fetch_response(1, 3, batch(0, 3), high_watermark=1))
    assert node.log.end_offset == 0
    assert node.client.leader_and_epoch == LeaderAndEpoch(2, 4)


def test_a_fetch_answer_of_a_higher_epoch_moves_the_follower() -> None:
    node = following()
    node.answer(node.fetch_out(), fetch_response(2, 5, error=ErrorCode.FENCED_LEADER_EPOCH))
    assert node.client.leader_and_epoch == LeaderAndEpoch(2, 5)


def test_an_observer_finds_the_leader_through_the_bootstrap_servers() -> None:
    node = OneNode((1, 2, 3))
    asked = node.sent(FetchRequest)[0]
    assert asked.destination.node_id < 0
    node.answer(asked, fetch_response(2, 6, error=ErrorCode.FENCED_LEADER_EPOCH))
    assert node.client.leader_and_epoch == LeaderAndEpoch(2, 6)
    assert node.fetch_out().destination.host == "host2"


def test_failed_fetches_back_off_more_and_more() -> None:
    node = OneNode((1, 2, 3))
    for _ in range(200):
        for request in node.sent(FetchRequest):
            node.fail(request)
        node.pass_time(10)
    assert node.client._core.next_correlation < 40


# --- limits and ends --------------------------------------------------------------------------------------------------


def test_a_fetch_of_another_cluster_or_by_the_leaders_own_id_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    node = leading()
    asked = fetch_request(1, 1, 0, 0, max_wait_ms=0)
    other = node.request(structs.replace(asked, cluster_id="other"))
    assert (other.error_code, other.responses) == (ErrorCode.INCONSISTENT_CLUSTER_ID, ())
    with caplog.at_level(logging.ERROR):
        for stranger in ("third", "third", "other", "third", *(f"id {number}" for number in range(100))):
            node.request(structs.replace(asked, cluster_id=stranger))
    lines = [record for record in caplog.records if record.getMessage() == "foreign_cluster"]
    assert [vars(line)["foreign_cluster_id"] for line in lines[:2]] == ["other", "third"]
    assert vars(lines[0])["cluster_id"] not in {"other", "third"}
    assert len(lines) <= FOREIGN_IDS_MAX, "one line for each cluster, and an end to that"
    itself = structs.replace(asked, replica_state=structs.replace(asked.replica_state, replica_id=0))
    assert only(node.request(itself)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_parked_fetch_whose_offset_was_cleaned_gets_the_snapshot() -> None:
    node = leading()
    node.append([b"a"])
    node.commit_epoch()
    end = node.log.end_offset
    assert node.request(fetch_request(2, 1, end, 1)) is None
    waiting = node.last_request_id()
    node.log.append(batch(end, 1, b"b"))
    snapshot_id = OffsetAndEpoch(end + 1, 1)
    node.log.snapshots[snapshot_id] = snapshot_bytes(snapshot_id, 1, dynamic_voters(0, 1, 2), [])
    node.log.drop_before(snapshot_id)
    node.pass_time(500)
    told = only(node.answers[waiting])
    assert (told.snapshot_id.end_offset, told.snapshot_id.epoch) == (end + 1, 1)
    assert told.records == b""


def test_of_too_many_observers_the_one_with_the_oldest_fetch_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_state, "MAX_OBSERVERS", 3)
    node = leading()
    for observer in (7, 8, 9, 7, 10):
        node.request(fetch_request(observer, 1, 0, 0, max_wait_ms=0))
        node.pass_time(10)
    state = node.client.state
    assert isinstance(state, Leader)
    assert sorted(each.id for each in state.observers) == [7, 9, 10]


def test_an_anonymous_reader_is_served_and_not_counted() -> None:
    """An observer with replica id -1, such as a dashboard."""
    node = leading()
    node.commit_epoch()
    assert only(node.request(fetch_request(-1, 1, 0, 0, max_wait_ms=0))).records
    state = node.client.state
    assert isinstance(state, Leader)
    assert not state.observers


def test_a_follower_that_stops_waits_for_its_flush() -> None:
    """What it has acknowledged is on disk; what it has only received may be, too, before the process ends."""
    node = OneNode()
    node.follow()
    node.holds_flushes = True
    node.answer(node.fetch_out(), fetch_response(1, 1, batch(0, 1)))
    node.step(Shutdown(5_000))
    assert not any(isinstance(each, Stopped) for each in node.effects)
    node.finish_flush()
    assert any(isinstance(each, Stopped) for each in node.effects)


def test_a_node_that_stops_waits_for_its_disk_until_the_timeout() -> None:
    node = OneNode()
    node.follow()
    node.holds_flushes = True
    node.answer(node.fetch_out(), fetch_response(1, 1, batch(0, 1)))
    node.step(Shutdown(300))
    node.pass_time(299)
    assert not any(isinstance(each, Stopped) for each in node.effects)
    node.pass_time(1)
    assert any(isinstance(each, Stopped) for each in node.effects)
