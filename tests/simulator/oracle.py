"""The invariants of the quorum, checked after every step, and what is committed. Numbers as in docs/invariants.md."""

from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from kraft_core.image.metadata_image import MetadataImage
from kraft_core.node import CreateSnapshot
from kraft_core.protocol.control_records import LeaderChangeMessage, VotersRecord, decode_control
from kraft_core.protocol.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
    VoteResponse,
)
from kraft_core.protocol.record_batch import RecordBatch
from kraft_core.protocol.wire import Message
from kraft_core.raft.effects import Respond, SendRequest, StoreElection
from kraft_core.raft.internals.leader_state import Leader
from kraft_core.raft.quorum_state import ElectionState, Resigned
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.raft.voter_set import ReplicaKey, VoterSet
from tests.simulator.controller_oracle import ControllerOracle
from tests.simulator.invariant import check
from tests.simulator.metadata_model import MetadataModel
from tests.simulator.read_oracle import ReadOracle
from tests.simulator.sim_disk import SimDisk

if TYPE_CHECKING:
    from tests.simulator.sim_log import SimLog
    from tests.simulator.sim_node import SimNode

SLACK_MS = 20
"""Tolerated delay of a timer: clocks count whole ms."""


class Oracle:
    """Observes every node's log, disk and messages. It uses no code of raft."""

    def __init__(self) -> None:
        self.nodes: list[SimNode] = []
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, ReplicaKey], ReplicaKey] = {}
        self.batches: dict[tuple[int, int], tuple[bytes, int | None]] = {}
        self.committed_ends: list[int] = [0]
        self.committed_epochs: list[int] = [0]
        self.images: dict[int, MetadataImage] = {}
        self.snapshots: dict[OffsetAndEpoch, bytes] = {}
        self.metadata = MetadataModel()
        self.controller = ControllerOracle()
        self.reads = ReadOracle(lambda: self.committed_end)
        self.lost_disks: list[tuple[ReplicaKey, SimLog]] = []  # at the time of the loss

    @property
    def committed_end(self) -> int:
        return self.committed_ends[-1]

    def committed_epoch(self, offset: int) -> int:
        """Return the epoch of the committed batch that ends at `offset`, -1 without one."""
        index = bisect_left(self.committed_ends, offset)
        return self.committed_epochs[index] if self.committed_ends[index : index + 1] == [offset] else -1

    def on_image(self, node: "SimNode", image: MetadataImage) -> None:
        """Check 4 and 17: the same offset gives the same image on all nodes, by replay, tip or snapshot."""
        first = self.images.setdefault(image.offset, image)
        if first is image:
            self.metadata.compare(image)
        check(first == image, "two images of one offset", node, image.offset)

    # --- disk -------------------------------------------------------------------------------------------------------

    def on_start(self, node: "SimNode", election: ElectionState) -> None:
        """Check 8 and 9: a restart finds the last stored election, or the one that a crash interrupted."""
        check(
            _same_vote(election, node.election) or _same_vote(election, node.storing),
            "another election on disk than was stored",
            node,
            election,
            node.election,
        )
        node.election = node.storing = election
        self._note_vote(node, election)

    def on_stored(self, node: "SimNode", election: ElectionState) -> None:
        """Check 9: a stored vote does not change within its epoch."""
        node.election = election
        self._note_vote(node, election)

    def _note_vote(self, node: "SimNode", election: ElectionState) -> None:
        if election.voted is not None:
            first = self.votes.setdefault((election.leader_epoch, node.key), election.voted)
            same = first == election.voted or (first.id == election.voted_id and not node.is_dynamic)
            check(same, "two votes in one epoch", node, first, election.voted)

    def on_opened(self, node: "SimNode") -> None:
        """Check that the state a start treats as durable is synced, whatever the page cache holds."""
        for path in node.durable_files():
            check(node.disk.is_synced(path), "a restart trusts what is only in the cache", node, path.name)

    def on_flush(self, node: "SimNode") -> None:
        """Check that flushed files are on disk under their names."""
        for path in node.log_files():
            check(node.disk.is_synced(path), "flushed without a sync", node, path.name)

    def on_snapshot(self, node: "SimNode", effect: CreateSnapshot) -> None:
        """Check 17: the offset of a snapshot is committed and the end of a batch."""
        check(effect.id.offset <= node.raft.high_watermark, "a snapshot of what is not committed", node, effect.id)
        found = self.committed_epoch(effect.id.offset)
        check(found == effect.id.epoch, "a snapshot that is no end of a committed batch", node, effect.id, found)
        check(effect.image.offset < effect.id.offset, "a snapshot of a later image", node, effect.id)

    def on_snapshot_file(self, snapshot_id: OffsetAndEpoch, disk: SimDisk, path: Path) -> None:
        """Check 17: snapshots with the same id have the same bytes on all nodes."""
        check(disk.is_synced(path), "a snapshot without a sync", path)
        data = bytes(disk.files[path].data)
        check(self.snapshots.setdefault(snapshot_id, data) == data, "two snapshots of one id", snapshot_id)

    def on_clean(self, node: "SimNode") -> None:
        """Check 18: the newest snapshot is kept and covers the deleted part of the log."""
        log = node.log
        assert log is not None
        latest = log.latest_snapshot_id()
        check(latest is not None and latest.offset >= log.start_offset, "cleaned above the snapshot", node, latest)

    # --- the log ----------------------------------------------------------------------------------------------------

    def on_append(self, node: "SimNode", batch: RecordBatch, epoch_before: int | None) -> None:
        """Check 2, log matching: an offset and epoch identify the same bytes and predecessor on all nodes."""
        key = (batch.base_offset, batch.leader_epoch)
        known = self.batches.get(key)
        if known is None:
            check(node.node is not None, "the disk holds a batch that was never appended", node, key)
            self.batches[key] = (batch.raw, epoch_before)
            if batch.is_control:
                self._on_control(node, batch)
            return
        if known[0] is not batch.raw:
            check(known[0] == batch.raw, "log matching: one (offset, epoch) has two contents", node, *key)
        if epoch_before is not None:
            same = known[1] in {epoch_before, None}
            check(same, "log matching: one (offset, epoch) has two predecessors", node, *key)

    def _on_control(self, node: "SimNode", batch: RecordBatch) -> None:
        """Check 1 and 20: LeaderChange names the leader; voters change singly, after a commit in the leader's epoch."""
        for record in batch.records():
            match decode_control(record.key or b"", record.value or b""):
                case LeaderChangeMessage(leader_id=leader_id):
                    first = self.leaders.setdefault(batch.leader_epoch, leader_id)
                    check(first == leader_id, "two leaders in an epoch", node, batch.leader_epoch, first, leader_id)
                case VotersRecord() as said:
                    self._on_voters(node, VoterSet.from_record(said), record.offset)
                case _:
                    pass

    def _on_voters(self, node: "SimNode", voters: VoterSet, offset: int) -> None:
        before = node.previous_voters if voters == node.voters else node.voters
        changed: set[object] = set(_keys(before)) ^ set(_keys(voters))
        if any(not key.directory_id.int for key in _keys(before)):  # an upgrade gives static voters their directories
            changed = set(before.by_id) ^ set(voters.by_id)
        if not changed or not len(before):
            return
        check(len(changed) == 1, "more than one voter changed", node, changed)
        high_watermark = node.raft.high_watermark
        check(high_watermark > node.led_from >= 0, "voters changed before a commit in the leader's epoch", node)
        assert node.log is not None
        is_open = any(_has_voters(batch) for batch in node.log.batches if high_watermark <= batch.base_offset < offset)
        check(not is_open, "two voter changes at a time", node, offset)

    def on_truncate(self, node: "SimNode", offset: int) -> None:
        """Check 19: a node never truncates below its high watermark."""
        if node.node is not None:
            check(offset >= node.raft.high_watermark, "truncated below the high watermark", node, offset)

    # --- what leaves the node ---------------------------------------------------------------------------------------

    def on_effect(self, node: "SimNode", effect: object) -> None:
        """Check 8, 9 and 10: epoch, vote and records are durable before a message depends on them."""
        match effect:
            case StoreElection(election=election):
                disk = node.election
                check(election.leader_epoch >= disk.leader_epoch, "the epoch on disk went back", node, election, disk)
                if election.leader_epoch == disk.leader_epoch and disk.leader_id >= 0:
                    check(election.leader_id == disk.leader_id, "an epoch's leader changed", node, election, disk)
            case SendRequest(message=message):
                self._on_request(node, message)
            case Respond(request_id=request_id, message=VoteResponse() as message) if message.topics:
                answer = message.topics[0].partitions[0]
                check(answer.leader_epoch <= node.election.leader_epoch, "answered in an epoch not on disk", node)
                asked = node.vote_requests.get(request_id)
                if answer.vote_granted and asked is not None and not asked.pre_vote:
                    voted = node.election.voted
                    is_stored = voted is not None and voted.id == asked.replica_id
                    if is_stored and node.is_dynamic:
                        is_stored = voted == ReplicaKey(asked.replica_id, asked.replica_directory_id)
                    check(is_stored, "a vote was granted before it was on disk", node, asked)
                    check(node.election.leader_epoch == asked.replica_epoch, "a vote of another epoch", node, asked)
            case _:
                pass

    def _on_request(self, node: "SimNode", message: Message) -> None:
        epoch = -1
        match message:
            case FetchRequest():
                asked = message.topics[0].partitions[0]
                epoch = asked.current_leader_epoch
                assert node.log is not None
                flushed = node.log.flushed_offset
                check(asked.fetch_offset <= flushed, "acknowledged before flush", node, asked.fetch_offset, flushed)
            case VoteRequest():
                asked_vote = message.topics[0].partitions[0]
                epoch = asked_vote.replica_epoch
                if not asked_vote.pre_vote:
                    voted = node.election.voted
                    check(voted is not None and voted.id == node.id, "stood without its own vote on disk", node)
            case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
                epoch = message.topics[0].partitions[0].leader_epoch
            case FetchSnapshotRequest():
                epoch = message.topics[0].partitions[0].current_leader_epoch
            case _:
                pass
        check(epoch <= node.election.leader_epoch, "sent in an epoch not on disk", node, message)

    # --- after a step -----------------------------------------------------------------------------------------------

    def on_update_voter(self, node: "SimNode", message: UpdateRaftVoterRequest) -> None:
        """Record an UpdateRaftVoter as a contact with the leader, as in Kafka's UpdateVoterHandler."""
        if node.is_leader and message.current_leader_epoch == node.raft.epoch:
            node.heard_ms[message.voter_id] = node.now_ms

    def on_fetch(self, node: "SimNode", message: FetchRequest | FetchSnapshotRequest) -> None:
        """Record a contact of a replica with a node that may lead."""
        asked = message.topics[0].partitions[0]
        if node.is_leader and asked.current_leader_epoch == node.raft.epoch:
            replica_id = message.replica_id if isinstance(message, FetchSnapshotRequest) else -1
            if isinstance(message, FetchRequest):
                replica_id = message.replica_state.replica_id
            node.heard_ms[replica_id] = node.now_ms

    def after_step(self, node: "SimNode") -> None:
        """Check the node that has run a step."""
        raft, log = node.raft, node.log
        assert log is not None
        epoch = raft.epoch
        check(epoch >= node.seen_epoch, "the epoch went back", node, node.seen_epoch)
        node.seen_epoch = epoch
        if raft.voters is not node.voters:
            node.previous_voters, node.voters = node.voters, raft.voters
            node.voters_changed_ms, node.voters_changed_end = node.now_ms, log.end_offset
        state = raft.state
        if isinstance(state, Leader):
            if (
                node.led_epoch != epoch and node.election.leader_epoch == epoch
            ):  # the vote of a single voter may not be stored yet
                self._on_elected(node, epoch)
            if node.led_epoch == epoch:
                check(state.high_watermark >= node.led_high_watermark, "a leader's high watermark went back", node)
                node.led_high_watermark = state.high_watermark
                self._check_quorum(node)
        if log.start_offset != node.seen_start_offset:
            self._on_start_offset(node, log.start_offset)
        high_watermark = raft.high_watermark
        if high_watermark != node.seen_high_watermark:
            check(high_watermark > node.seen_high_watermark, "the high watermark went back", node)
            node.seen_high_watermark = high_watermark
            self._on_high_watermark(node, high_watermark)

    def _check_quorum(self, node: "SimNode") -> None:
        """Check 11: a leader without fetches of a majority for 1.5 times the fetch timeout has resigned."""
        voters = node.raft.voters
        others = [voter.key.id for voter in voters.by_id.values() if voter.key.id != node.id]
        needed = voters.majority - (len(voters) - len(others))
        if needed > 0:
            since_ms = sorted((node.heard_ms.get(each, 0) for each in others), reverse=True)[needed - 1]
            silent_ms = node.now_ms - max(since_ms, node.led_since_ms, node.voters_changed_ms)
            limit_ms = node.config.raft.check_quorum_timeout_ms + SLACK_MS
            check(silent_ms <= limit_ms, "leads without a quorum", node, silent_ms)

    def _on_start_offset(self, node: "SimNode", offset: int) -> None:
        """Check 18: a snapshot covers the deleted part of the log."""
        check(offset >= node.seen_start_offset, "the log's start went back", node, offset)
        node.seen_start_offset = offset
        if offset > 0:
            assert node.log is not None
            covers = any(each.offset >= offset for each in node.log.snapshot_ids())
            check(covers, "the log has lost what no snapshot holds", node, offset)

    def _on_elected(self, node: "SimNode", epoch: int) -> None:
        """Check 1 and 3: an epoch has one leader, and its log holds all committed records."""
        first = self.leaders.setdefault(epoch, node.id)
        check(first == node.id, "election safety: two leaders in an epoch", node, first, epoch)
        node.led_epoch = epoch
        node.led_high_watermark = -1
        node.led_since_ms = node.now_ms
        node.led_from = node.raft.epoch_start_offset
        node.heard_ms.clear()
        self.check_has_committed(node, "leader completeness")

    def check_has_committed(self, node: "SimNode", claim: str) -> None:
        """Check that all committed records are in this node's log or below its start."""
        end, log = self.committed_end, node.log
        assert log is not None
        check(log.end_offset >= end, f"{claim}: committed records are missing", node, end)
        if end > log.start_offset:
            found = log.epoch_of(end - 1)
            check(found == self.committed_epochs[-1], f"{claim}: other records than committed", node, end, found)

    def _on_high_watermark(self, node: "SimNode", offset: int) -> None:
        """Check 4: what a node treats as committed is committed. With log matching, the last epoch suffices."""
        log = node.log
        assert log is not None
        check(offset <= log.end_offset, "the high watermark is beyond the log", node, offset)
        if offset > self.committed_end:
            self._commit(node, offset)
        if offset <= 0:
            return
        committed = self.committed_epoch(offset)
        check(committed >= 0, "the high watermark is within a batch", node, offset)
        found = log.epoch_of(offset - 1) if offset > log.start_offset else committed
        check(found == committed, "applied other records than were committed", node, offset, found, committed)

    def _commit(self, node: "SimNode", offset: int) -> None:
        """Check 6 and 7: a leader commits, with a record of its epoch, on a majority of disks."""
        raft, log = node.raft, node.log
        assert log is not None
        leads = isinstance(raft.state, Leader | Resigned)  # it may resign in the step that commits
        check(leads, "a node that does not lead knows of a commit first", node, offset)
        epoch = log.epoch_of(offset - 1)
        check(epoch == raft.epoch, "committed by counting an older epoch's record", node, offset, epoch)
        self.check_majority(raft.voters, offset, epoch, node)
        for batch in log.batches[log.index_of(self.committed_end) :]:
            if batch.base_offset >= offset:
                break
            check(batch.base_offset == self.committed_end, "committed a gap", node, batch.base_offset)
            self.committed_ends.append(batch.last_offset + 1)
            self.committed_epochs.append(batch.leader_epoch)
            if not batch.is_control:
                self.metadata.on_batch(batch)

    def check_majority(self, voters: VoterSet, offset: int, epoch: int, node: "SimNode") -> None:
        """Check that a majority of the voters' disks holds the records below `offset`, or held them until destroyed."""
        disks = [(each.key, each.log) for each in self.nodes if each.log is not None]
        durable = [
            key
            for key, log in (*disks, *self.lost_disks)
            if voters.is_voter(key)
            and log.flushed_offset >= offset
            and (log.start_offset >= offset or log.epoch_of(offset - 1) == epoch)
        ]
        check(len(durable) >= voters.majority, "committed without a majority of disks", node, offset, durable)

    def check_at_end(self) -> None:
        """Check that the committed log has no gap and that epochs do not decrease."""
        for before, after in pairwise(self.committed_epochs):
            check(before <= after, "a committed epoch falls", before, after)


def _keys(voters: VoterSet) -> list[ReplicaKey]:
    return [voter.key for voter in voters.by_id.values()]


def _has_voters(batch: RecordBatch) -> bool:
    if not batch.is_control:
        return False
    found = [decode_control(record.key or b"", record.value or b"") for record in batch.records()]
    return any(isinstance(each, VotersRecord) for each in found)


def _same_vote(found: ElectionState, stored: ElectionState) -> bool:
    """Report whether the file holds the stored election; version 0 omits the voted directory."""
    return (found.leader_epoch, found.leader_id, found.voted_id) == (
        stored.leader_epoch,
        stored.leader_id,
        stored.voted_id,
    ) and (not found.voted_directory_id.int or found.voted_directory_id == stored.voted_directory_id)
