"""The client API: the calls of a listener, when and how often. Names in docstrings are Kafka's tests."""

import pytest

from kraft_core.protocol.errors import NotController
from kraft_core.raft import batch_reader
from kraft_core.raft.batch_reader import MemoryBatchReader
from kraft_core.raft.events import Shutdown, Timer
from kraft_core.raft.leader_and_epoch import LeaderAndEpoch
from kraft_core.raft.raft_log import OffsetAndEpoch
from tests.raft.listeners import Recorder
from tests.raft.memory_raft_log import MemoryRaftLog
from tests.raft.one_node import OneNode, batch, dynamic_voters, fetch_request, fetch_response, snapshot_bytes

SNAPSHOT_ID = OffsetAndEpoch(50, 2)


def leading() -> tuple[OneNode, Recorder]:
    """A leader whose epoch's first batch is committed, and its listener."""
    node, listener = OneNode(), Recorder()
    node.client.register(listener)
    node.become_leader()
    node.commit_epoch()
    return node, listener


def log_of(*batches: bytes) -> MemoryRaftLog:
    log = MemoryRaftLog()
    for each in batches:
        log.append(each)
    log.flush()
    return log


def log_with_snapshot() -> MemoryRaftLog:
    """A log that starts at a snapshot and has one batch after it."""
    log = MemoryRaftLog()
    log.snapshots[SNAPSHOT_ID] = snapshot_bytes(SNAPSHOT_ID, 1, dynamic_voters(0, 1, 2), [b"state"])
    log.truncate_fully_to_snapshot(SNAPSHOT_ID)
    log.append(batch(50, 2, b"after"))
    log.flush()
    return log


# --- commits ----------------------------------------------------------------------------------------------------------


def test_a_listener_sees_a_write_of_the_leader_once_and_only_when_it_is_committed() -> None:
    """testListenerCommitCallbackAfterLeaderWrite."""
    node, listener = leading()
    node.append([b"one", b"two"])
    assert listener.values == []
    node.commit_epoch()
    node.commit_epoch(by=2)
    node.pass_time(100)
    assert listener.values == [b"one", b"two"]
    assert listener.offsets == list(range(node.client.high_watermark))


def test_batches_of_a_follower_come_in_order_each_once() -> None:
    """testListenerCommitCallbackAfterFollowerWrite."""
    node, listener = OneNode(), Recorder()
    node.client.register(listener)
    node.follow(1, 3)
    node.answer(node.fetch_out(), fetch_response(1, 3, batch(0, 3, b"a") + batch(1, 3, b"b", b"c"), high_watermark=1))
    assert listener.values == [b"a"]
    node.answer(node.fetch_out(), fetch_response(1, 3, batch(3, 3, b"d"), high_watermark=4))
    assert listener.values == [b"a", b"b", b"c", b"d"]


def test_part_of_a_batch_is_not_returned() -> None:
    node, listener = OneNode(), Recorder()
    node.client.register(listener)
    node.follow(1, 3)
    node.answer(node.fetch_out(), fetch_response(1, 3, batch(0, 3, b"a", b"b"), high_watermark=1))
    assert listener.values == []
    assert node.client.next_deadline_ms() > node.now, "it does not spin while it waits for the rest"
    node.answer(node.fetch_out(), fetch_response(1, 3, b"", high_watermark=2))
    assert listener.values == [b"a", b"b"]


def test_the_next_reader_comes_after_the_last_was_closed() -> None:
    node, _ = leading()
    slow = Recorder(keeps_open=True)
    node.client.register(slow)
    node.step(Timer())
    node.append([b"one"])
    node.commit_epoch()
    node.append([b"two"])
    node.commit_epoch()
    assert len(slow.readers) == 1
    assert slow.values == []
    slow.readers[0].close()
    slow.readers[0].close()
    node.step(Timer())
    assert slow.values == [b"one", b"two"]
    assert len(slow.readers) == 2


def test_a_long_catch_up_is_read_in_bounded_pieces_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_reader, "READ_BYTES", 1_000)
    node, _ = leading()
    for number in range(50):
        node.append([b"%03d" % number * 20])
    node.commit_epoch()
    late = Recorder()
    node.client.register(late)
    steps = 0
    while len(late.values) < 50:
        assert node.client.next_deadline_ms() <= node.now, "the next step is due at once"
        node.step(Timer())
        steps += 1
        assert len(late.readers) == steps, "one reader a step"
        assert sum(each.size_bytes for each in late.readers[-1:]) <= 1_000
    assert steps > 5
    assert node.client.next_deadline_ms() > node.now


def test_a_reader_knows_its_offsets_and_size_before_it_is_read() -> None:
    node, _ = leading()
    listener = Recorder(keeps_open=True)
    node.client.register(listener)
    start = node.log.end_offset
    node.step(Timer())
    listener.readers[0].close()
    node.append([b"one"], [b"two", b"three"])
    node.commit_epoch()
    reader = listener.readers[-1]
    assert (reader.base_offset, reader.last_offset) == (start, start + 2)
    assert reader.last_timestamp == node.now
    assert reader.size_bytes == len(node.log.read(start, 10_000))


def test_the_leaders_own_batches_are_not_read_back_from_the_log() -> None:
    node, listener = leading()
    node.append([b"one"])
    node.append([b"two"])
    node.commit_epoch()
    assert isinstance(listener.readers[-1], MemoryBatchReader)
    assert [batch.values() for batch in listener.readers[-1]] == [[b"one"], [b"two"]]


# --- registration -----------------------------------------------------------------------------------------------------


def test_a_listener_registered_late_is_served_from_the_logs_start() -> None:
    """testLateRegisteredListenerCatchesUp, and testReregistrationChangesListenerContext."""
    node, early = leading()
    node.append([b"one"])
    node.commit_epoch()
    late = Recorder()
    node.client.register(late)
    node.client.register(late)
    node.step(Timer())
    assert late.values == early.values == [b"one"]
    assert late.offsets == early.offsets
    assert late.leaders == [LeaderAndEpoch(-1, 1), LeaderAndEpoch(0, 1)]
    again = Recorder()
    node.client.unregister(late)
    node.client.register(again)
    node.append([b"two"])
    node.commit_epoch()
    while again.values != [b"one", b"two"]:
        node.step(Timer())
    assert late.values == [b"one"], "an unregistered listener is not called"


def test_a_listener_registered_late_is_served_from_the_newest_snapshot() -> None:
    """testListenerNotified on a log that starts above 0."""
    node = OneNode(log=log_with_snapshot())
    late = Recorder()
    node.client.register(late)
    node.step(Timer())
    assert late.snapshots == [[b"state"]]
    assert late.values == [], "the records after the snapshot may not be committed"
    node.follow(1, 3)
    node.answer(node.fetch_out(), fetch_response(1, 3, b"", high_watermark=51))
    assert late.values == [b"after"]


def test_the_bootstrap_checkpoint_is_no_state_to_load() -> None:
    node, listener = leading()
    assert node.log.latest_snapshot_id() == OffsetAndEpoch(0, 0)
    assert "snapshot" not in listener.calls
    assert listener.offsets[0] == 0


def test_unregistering_an_unknown_listener_does_nothing() -> None:
    node, listener = leading()
    node.client.unregister(Recorder())
    node.append([b"one"])
    node.commit_epoch()
    assert listener.values == [b"one"]


# --- snapshots --------------------------------------------------------------------------------------------------------


def test_a_leaders_listener_that_is_below_the_logs_start_gets_the_snapshot_then_the_log() -> None:
    """testLeaderListenerNotified."""
    node, _ = leading()
    slow = Recorder(keeps_open=True)
    node.client.register(slow)
    node.step(Timer())
    node.append([b"in the snapshot"])
    node.commit_epoch()
    snapshot_id = OffsetAndEpoch(node.log.end_offset, 1)
    writer = node.client.create_snapshot(snapshot_id, node.now)
    assert writer is not None
    writer.append([b"state"])
    writer.freeze()
    node.log.drop_before(snapshot_id)
    node.append([b"after"])
    node.commit_epoch()
    slow.keeps_open = False
    slow.readers[0].close()
    node.step(Timer())
    while slow.values != [b"after"]:
        assert node.client.next_deadline_ms() <= node.now
        node.step(Timer())
    assert slow.snapshots == [[b"state"]]


def install(node: OneNode, snapshot_id: OffsetAndEpoch, data: bytes) -> None:
    """Do what a download's end does to the log."""
    node.log.snapshots[snapshot_id] = data
    node.log.truncate_fully_to_snapshot(snapshot_id)
    node.client._core.high_watermark = snapshot_id.offset


def test_a_followers_listener_gets_the_snapshot_that_replaced_its_log() -> None:
    """testFollowerListenerNotified."""
    node, listener = OneNode(), Recorder()
    node.client.register(listener)
    node.follow(1, 3)
    node.answer(node.fetch_out(), fetch_response(1, 3, batch(0, 1, b"old"), high_watermark=1))
    install(node, SNAPSHOT_ID, snapshot_bytes(SNAPSHOT_ID, 1, dynamic_voters(0, 1, 2), [b"new"]))
    node.step(Timer())
    assert listener.snapshots == [[b"new"]]
    assert listener.calls.count("snapshot") == 1


def test_a_snapshot_deleted_while_it_is_loaded_is_replaced_by_the_next() -> None:
    """testListenerRenotified."""
    node, slow = OneNode(log=log_with_snapshot()), Recorder(keeps_open=True)
    node.client.register(slow)
    node.step(Timer())
    newer = OffsetAndEpoch(80, 3)
    install(node, newer, snapshot_bytes(newer, 1, dynamic_voters(0, 1, 2), [b"newer"]))
    node.step(Timer())
    assert slow.snapshots == [[b"state"], [b"newer"]]
    slow.readers[0].close()
    node.step(Timer())
    assert len(slow.readers) == 2, "the end of the first has no effect any more"
    slow.readers[1].close()
    assert node.client._listeners._contexts[0].next_offset == 80


# --- leadership -------------------------------------------------------------------------------------------------------


def test_leadership_is_reported_when_the_listener_has_reached_the_epochs_start() -> None:
    """testHandleLeaderChangeFiresAfterListenerReachesEpochStartOffset."""
    node = OneNode(log=log_of(batch(0, 1, b"a"), batch(1, 1, b"b")))
    slow = Recorder(keeps_open=True)
    node.client.register(slow)
    node.become_leader()
    assert slow.leaders[-1] == LeaderAndEpoch(-1, 2), "an epoch without a leader so far"
    node.commit_epoch()
    assert slow.values == [b"a", b"b"]
    assert slow.leaders[-1] == LeaderAndEpoch(-1, 2), "passed on, but not handled"
    slow.keeps_open = False
    slow.readers[0].close()
    node.step(Timer())
    assert slow.leaders[-1] == LeaderAndEpoch(0, 2)
    assert slow.calls.index("leader", slow.calls.index("commit")) > slow.calls.index("commit")


def test_another_leader_is_reported_at_once() -> None:
    """testHandleLeaderChangeFiresAfterUnattachedRegistration and for a follower."""
    node, listener = OneNode(), Recorder()
    node.client.register(listener)
    node.follow(1, 3)
    assert listener.leaders == [LeaderAndEpoch(1, 3)]
    node.request(fetch_request(2, 3, 0, 0))
    assert listener.leaders == [LeaderAndEpoch(1, 3)], "reported once"
    node.follow(2, 5)
    assert listener.leaders[-1] == LeaderAndEpoch(2, 5)


def test_the_end_of_this_nodes_leadership_is_reported_at_once() -> None:
    node, listener = leading()
    assert listener.leaders[-1] == LeaderAndEpoch(0, 1)
    node.client.resign(1)
    node.step(Timer())
    assert listener.leaders[-1] == LeaderAndEpoch(-1, 1)


def test_reported_epochs_never_decrease_and_a_leader_is_reported_once() -> None:
    node, listener = leading()
    node.follow(1, 4)
    node.pass_time(10_000)
    node.follow(2, node.client.epoch + 1)
    epochs = [each.epoch for each in listener.leaders]
    assert epochs == sorted(epochs)
    assert len(set(listener.leaders)) == len(listener.leaders)


def test_a_listener_may_append_as_soon_as_its_leadership_is_reported() -> None:
    """testAppendPreparedFromHandleLeaderChange: what a listener does in its call is part of the same step."""
    node = OneNode((0,))

    class Writer(Recorder):
        def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
            super().handle_leader_change(leader)
            if leader.is_leader(0):
                node.client.prepare_append(leader.epoch, [b"first"])
                node.client.schedule_prepared_append()

    listener = Writer()
    node.client.register(listener)
    while not listener.values:
        node.pass_time(10)
    assert listener.values == [b"first"]


# --- appends ----------------------------------------------------------------------------------------------------------


def test_prepared_records_are_written_when_scheduled() -> None:
    node, _ = leading()
    end = node.log.end_offset
    assert node.client.prepare_append(1, [b"one"]) == end
    assert node.client.prepare_append(1, [b"two", b"three"]) == end + 2
    assert node.client.next_append_offset == end + 3
    node.step(Timer())
    assert node.client.log_end_offset == end
    node.client.schedule_prepared_append()
    node.step(Timer())
    assert node.client.log_end_offset == end + 3
    assert node.log.batches[-1].base_offset == end, "both lists in one batch"
    assert node.log.batches[-1].values() == [b"one", b"two", b"three"]


def test_an_append_in_an_epoch_that_is_over_is_refused_and_nothing_is_written() -> None:
    """testAppendFailedWithFencedEpoch."""
    node = OneNode(log=log_of(batch(0, 4)))
    node.become_leader()
    with pytest.raises(NotController, match="epoch 4 is over"):
        node.client.prepare_append(4, [b"late"])
    with pytest.raises(ValueError, match="larger than the current epoch"):
        node.client.prepare_append(6, [b"early"])
    assert node.client.next_append_offset == node.log.end_offset


def test_a_node_that_does_not_lead_can_neither_prepare_nor_schedule() -> None:
    """testAppendFailedWithNotLeaderException."""
    node = OneNode()
    node.follow(1, 3)
    with pytest.raises(NotController):
        node.client.prepare_append(3, [b"value"])
    with pytest.raises(NotController):
        node.client.schedule_prepared_append()


def test_prepared_records_are_dropped_with_the_leadership() -> None:
    node, listener = leading()
    end = node.log.end_offset
    node.client.prepare_append(1, [b"lost"])
    node.follow(1, 2)
    node.pass_time(100)
    assert node.log.end_offset == end
    assert listener.leaders[-1] == LeaderAndEpoch(1, 2)


# --- resignation and shutdown -----------------------------------------------------------------------------------------


def test_resign_is_for_the_epoch_that_is_led() -> None:
    """testResignInOlderEpochIgnored, testResignWithInvalidEpochs."""
    node = OneNode(log=log_of(batch(0, 4)))
    node.become_leader()
    node.client.resign(4)
    node.step(Timer())
    assert node.client.is_leader
    for epoch in (-1, 6):
        with pytest.raises(ValueError, match="Cannot resign"):
            node.client.resign(epoch)
    node.client.resign(5)
    node.step(Timer())
    assert node.client.state_name == "resigned"
    node.client.resign(5)


def test_a_follower_cannot_resign() -> None:
    node = OneNode()
    node.follow(1, 3)
    with pytest.raises(ValueError, match="not the leader"):
        node.client.resign(3)


def test_a_shutdown_is_reported_to_the_listeners() -> None:
    node, listener = leading()
    node.step(Shutdown(1_000))
    assert listener.calls.count("shutdown") == 1
    assert listener.leaders[-1] == LeaderAndEpoch(-1, 1)
    with pytest.raises(NotController):
        node.client.prepare_append(1, [b"late"])
