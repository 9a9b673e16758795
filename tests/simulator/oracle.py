"""What must hold after every step (RELIABILITY 2), and what the cluster has committed so far."""

from bisect import bisect_left
from typing import TYPE_CHECKING
from zlib import crc32

from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    VoteRequest,
    VoteResponse,
)
from kraft_core.protocol.record_batch import RecordBatch
from kraft_core.protocol.wire import Message
from kraft_core.raft.effects import Effect, Respond, SendRequest, StoreElection
from kraft_core.raft.leader_state import Leader
from kraft_core.raft.quorum_state import Resigned
from kraft_core.raft.voter_set import ReplicaKey, VoterSet

if TYPE_CHECKING:
    from tests.simulator.sim_node import SimNode


class InvariantBrokenError(AssertionError):
    """A rule of the quorum does not hold."""


def check(holds: bool, claim: str, *facts: object) -> None:
    if not holds:
        raise InvariantBrokenError(f"{claim}: {', '.join(map(str, facts))}")


class Oracle:
    """Sees every node's log, disk and messages; knows no more of raft than its promises."""

    def __init__(self) -> None:
        self.nodes: list[SimNode] = []
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, ReplicaKey], ReplicaKey] = {}
        self.batches: dict[tuple[int, int], tuple[bytes, int]] = {}
        self.committed_ends: list[int] = [0]
        self.committed_epochs: list[int] = [0]
        self.chains: list[int] = [0]
        self.images: dict[int, MetadataImage] = {}
        self.acknowledged_names: list[str] = []

    @property
    def committed_end(self) -> int:
        return self.committed_ends[-1]

    def chain_at(self, offset: int) -> int:
        """Checksum of all that is committed below `offset`."""
        return self.chains[bisect_left(self.committed_ends, offset)]

    def on_image(self, node: "SimNode", image: MetadataImage) -> None:
        """State-machine safety: the same offset gives the same image everywhere, by replay, tip or snapshot."""
        first = self.images.setdefault(image.offset, image)
        check(first == image, "two images of one offset", node, image.offset)

    # --- the log ----------------------------------------------------------------------------------------------------

    def on_append(self, node: "SimNode", batch: RecordBatch, epoch_before: int) -> None:
        """Log matching: an offset and epoch name the same bytes everywhere, after the same predecessor."""
        known = self.batches.setdefault((batch.base_offset, batch.leader_epoch), (batch.raw, epoch_before))
        if known[0] is not batch.raw or known[1] != epoch_before:
            claim = "log matching: one (offset, epoch) has two contents"
            check(known == (batch.raw, epoch_before), claim, node, batch.base_offset, batch.leader_epoch)

    def on_truncate(self, node: "SimNode", offset: int) -> None:
        """Truncation never goes below the own high watermark."""
        if node.client is not None:
            check(offset >= node.client.high_watermark, "truncated below the high watermark", node, offset)

    # --- what leaves the node ---------------------------------------------------------------------------------------

    def on_effect(self, node: "SimNode", effect: Effect) -> None:
        """Disk before wire: epoch, vote and records are durable before a message tells of them."""
        match effect:
            case StoreElection(election=election):
                disk = node.election
                check(election.leader_epoch >= disk.leader_epoch, "the epoch on disk went back", node, election, disk)
                if election.leader_epoch == disk.leader_epoch and disk.leader_id >= 0:
                    check(election.leader_id == disk.leader_id, "an epoch's leader changed", node, election, disk)
                if election.voted is not None:
                    key = (election.leader_epoch, node.key)
                    first = self.votes.setdefault(key, election.voted)
                    check(first == election.voted, "two votes in one epoch", node, first, election.voted)
            case SendRequest(message=message):
                self._on_request(node, message)
            case Respond(request_id=request_id, message=VoteResponse() as message) if message.topics:
                answer = message.topics[0].partitions[0]
                check(answer.leader_epoch <= node.election.leader_epoch, "answered in an epoch not on disk", node)
                asked = node.vote_requests.get(request_id)
                if answer.vote_granted and asked is not None and not asked.pre_vote:
                    candidate = ReplicaKey(asked.replica_id, asked.replica_directory_id)
                    is_stored = node.election.voted == candidate
                    check(is_stored, "a vote was granted before it was on disk", node, candidate)
                    check(node.election.leader_epoch == asked.replica_epoch, "a vote of another epoch", node, asked)
            case _:
                pass

    def _on_request(self, node: "SimNode", message: Message) -> None:
        epoch = -1
        match message:
            case FetchRequest():
                asked = message.topics[0].partitions[0]
                epoch = asked.current_leader_epoch
                durable = asked.fetch_offset <= node.log.flushed_offset
                check(durable, "acknowledged before flush", node, asked.fetch_offset, node.log.flushed_offset)
            case VoteRequest():
                asked_vote = message.topics[0].partitions[0]
                epoch = asked_vote.replica_epoch
                if not asked_vote.pre_vote:
                    check(node.election.voted == node.key, "stood without its own vote on disk", node)
            case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
                epoch = message.topics[0].partitions[0].leader_epoch
            case FetchSnapshotRequest():
                epoch = message.topics[0].partitions[0].current_leader_epoch
            case _:
                pass
        check(epoch <= node.election.leader_epoch, "sent in an epoch not on disk", node, message)

    # --- after a step -----------------------------------------------------------------------------------------------

    def after_step(self, node: "SimNode") -> None:
        """Check the node that has just moved."""
        client = node.client
        assert client is not None
        epoch = client.epoch
        check(epoch >= node.seen_epoch, "the epoch went back", node, node.seen_epoch)
        node.seen_epoch = epoch
        state = client.state
        if isinstance(state, Leader):
            if node.led_epoch != epoch:
                self._on_elected(node, epoch)
            check(state.high_watermark >= node.led_high_watermark, "a leader's high watermark went back", node)
            node.led_high_watermark = state.high_watermark
        high_watermark = client.high_watermark
        if high_watermark != node.seen_high_watermark:
            check(high_watermark > node.seen_high_watermark, "the high watermark went back", node)
            node.seen_high_watermark = high_watermark
            self._on_high_watermark(node, high_watermark)

    def _on_elected(self, node: "SimNode", epoch: int) -> None:
        first = self.leaders.setdefault(epoch, node.id)
        check(first == node.id, "election safety: two leaders in an epoch", node, first, epoch)
        node.led_epoch = epoch
        node.led_high_watermark = -1
        self.check_has_committed(node, "leader completeness")

    def check_has_committed(self, node: "SimNode", claim: str) -> None:
        """All that is committed is in this node's log or below its start."""
        end = self.committed_end
        check(node.log.end_offset >= end, f"{claim}: committed records are missing", node, end)
        if end > node.log.start_offset:
            found = node.log.epoch_of(end - 1)
            check(found == self.committed_epochs[-1], f"{claim}: other records than committed", node, end, found)

    def _on_high_watermark(self, node: "SimNode", offset: int) -> None:
        check(offset <= node.log.end_offset, "the high watermark is beyond the log", node, offset)
        if offset > self.committed_end:
            self._commit(node, offset)
        index = bisect_left(self.committed_ends, offset)
        check(self.committed_ends[index] == offset, "the high watermark is within a batch", node, offset)
        node.apply(offset)
        check(node.chain == self.chains[index], "applied other records than were committed", node, offset)

    def _commit(self, node: "SimNode", offset: int) -> None:
        """More is committed than ever before: by a leader, with a record of its epoch, on a majority of disks."""
        client, log = node.client, node.log
        assert client is not None
        leads = isinstance(client.state, Leader | Resigned)  # it may resign in the step in which it commits
        check(leads, "a node that does not lead knows of a commit first", node, offset)
        epoch = log.epoch_of(offset - 1)
        check(epoch == client.epoch, "committed by counting an older epoch's record", node, offset, epoch)
        self.check_majority(client.voters, offset, epoch, node)
        for batch in log.batches[log.index_of(self.committed_end) :]:
            if batch.base_offset >= offset:
                break
            self.committed_ends.append(batch.last_offset + 1)
            self.committed_epochs.append(batch.leader_epoch)
            self.chains.append(crc32(batch.raw, self.chains[-1]))

    def check_majority(self, voters: VoterSet, offset: int, epoch: int, node: "SimNode") -> None:
        """A majority of the voters' disks holds the records below `offset`."""
        durable = [
            each.id
            for each in self.nodes
            if voters.is_voter(each.key)
            and each.log.flushed_offset >= offset
            and (each.log.start_offset >= offset or each.log.epoch_of(offset - 1) == epoch)
        ]
        check(len(durable) >= voters.majority, "committed without a majority of disks", node, offset, durable)
