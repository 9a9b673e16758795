"""One real raft node whose peers are the test: it sends their messages and receives the node's."""

from random import Random
from typing import Any, TypeVar
from uuid import UUID

from kraft_core.protocol.internal_topics import METADATA_TOPIC
from kraft_core.protocol.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
    FetchRequestReplicaState,
    FetchResponse,
    FetchResponseEpochEndOffset,
    FetchResponseFetchableTopicResponse,
    FetchResponseLeaderIdAndEpoch,
    FetchResponsePartitionData,
    FetchResponseSnapshotId,
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
    VoteResponse,
    VoteResponsePartitionData,
    VoteResponseTopicData,
)
from kraft_core.protocol.record_batch import encode_batch
from kraft_core.protocol.uuids import METADATA_TOPIC_ID
from kraft_core.protocol.wire import Message
from kraft_core.raft.effects import Effect, Flush, Respond, SendRequest
from kraft_core.raft.events import (
    Event,
    FailureReason,
    Flushed,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    Timer,
)
from kraft_core.raft.kafka_raft_client import KafkaRaftClient
from kraft_core.raft.leader_and_epoch import LeaderAndEpoch
from kraft_core.raft.quorum_state import ElectionState
from kraft_core.raft.raft_config import RaftConfig
from kraft_core.raft.raft_log import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch
from kraft_core.raft.snapshot.writer import SnapshotWriter
from kraft_core.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet
from tests.raft.memory_raft_log import MemoryRaftLog

M = TypeVar("M", bound=Message)
LISTENER = "CONTROLLER"
CLUSTER_ID = "unit-test"
T0 = 1_700_000_000_000


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=1000 + node_id))


def endpoint(node_id: int) -> Endpoint:
    return Endpoint(LISTENER, f"host{node_id}", 9093)


def dynamic_voters(*node_ids: int) -> VoterSet:
    return VoterSet.of(VoterNode(key(each), (endpoint(each),)) for each in node_ids)


def batch(offset: int, epoch: int, *values: bytes) -> bytes:
    return encode_batch(offset, epoch, T0, values or (b"record",))


def snapshot_bytes(snapshot_id: OffsetAndEpoch, kraft_version: int, voters: VoterSet, values: list[bytes]) -> bytes:
    """A snapshot as Kafka lays it out."""
    log = MemoryRaftLog()
    writer = SnapshotWriter(log.begin_snapshot, snapshot_id, 0, kraft_version, voters)
    if values:
        writer.append(values)
    writer.freeze()
    return log.snapshots[snapshot_id]


class OneNode:
    """Node 0 of voters 0, 1, 2 by default. Flushes finish at once unless `holds_flushes`."""

    def __init__(
        self,
        voters: tuple[int, ...] = (0, 1, 2),
        *,
        node_id: int = 0,
        kraft_version: int = 1,
        log: MemoryRaftLog | None = None,
        election: ElectionState | None = None,
        **settings: Any,
    ) -> None:
        self.now = T0
        self.log = log or MemoryRaftLog()
        static = VoterSet.of(VoterNode(ReplicaKey(each), (endpoint(each),), 0, 0) for each in voters)
        if kraft_version == 1 and not self.log.snapshots:
            self.log.snapshots[BOOTSTRAP_SNAPSHOT_ID] = snapshot_bytes(
                BOOTSTRAP_SNAPSHOT_ID, 1, dynamic_voters(*voters), []
            )
        self.config = RaftConfig(
            node_id=node_id,
            directory_id=key(node_id).directory_id,
            cluster_id=CLUSTER_ID,
            endpoints=(endpoint(node_id),),
            bootstrap_servers=tuple((endpoint(each).host, endpoint(each).port) for each in voters),
            **{"static_voters": static if kraft_version == 0 else VoterSet(), **settings},
        )
        self.client = KafkaRaftClient(self.config, self.log, election, Random(7), self.now)
        self.holds_flushes = False
        self.is_flushing = False
        self._flush_to = 0
        self.effects: list[Effect] = []
        self.unanswered: dict[int, SendRequest] = {}
        self.answers: dict[int, Message] = {}
        self._next_request = 0
        self.client.start(self.now)
        self._see(self.client.take_effects(self.now))

    def _see(self, effects: list[Effect]) -> list[Effect]:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, SendRequest):
                self.unanswered[effect.correlation] = effect
            elif isinstance(effect, Respond):
                self.answers[effect.request_id] = effect.message
            elif isinstance(effect, Flush):
                self.is_flushing = True
                self._flush_to = self.log.end_offset
                if not self.holds_flushes:
                    self.finish_flush()
        return effects

    def step(self, event: Event) -> list[Effect]:
        return self._see(self.client.step(event, self.now))

    def finish_flush(self) -> None:
        assert self.is_flushing
        self.is_flushing = False
        self.log.flushed_offset = max(self.log.flushed_offset, self._flush_to)
        self.step(Flushed(self._flush_to))

    def pass_time(self, ms: int) -> None:
        """Advance the time, with a Timer whenever the node requested one."""
        end = self.now + ms
        while self.client.next_deadline_ms() <= end:
            self.now = max(self.now, self.client.next_deadline_ms())
            self.step(Timer())
        self.now = end

    def request(self, message: Message, version: int = 18) -> Any:
        """Send the node a request; its answer, or None while it has none."""
        self._next_request += 1
        self.step(RequestReceived(self._next_request, message, version))
        return self.answers.get(self._next_request)

    def append(self, *lists: list[bytes]) -> list[Effect]:
        """As leader, append lists of values that come together."""
        for values in lists:
            self.client.prepare_append(self.client.epoch, values)
        self.client.schedule_prepared_append()
        return self._see(self.client.take_effects(self.now))

    def last_request_id(self) -> int:
        return self._next_request

    def sent(self, kind: type[M], to: int | None = None) -> list[SendRequest]:
        """Requests of this kind that wait for an answer."""
        return [
            each
            for each in self.unanswered.values()
            if isinstance(each.message, kind) and (to is None or each.destination.node_id == to)
        ]

    def answer(self, request: SendRequest, message: Message) -> list[Effect]:
        self.unanswered.pop(request.correlation, None)
        return self.step(ResponseReceived(request.correlation, message))

    def fail(self, request: SendRequest, reason: FailureReason = FailureReason.DISCONNECTED) -> list[Effect]:
        self.unanswered.pop(request.correlation, None)
        return self.step(RequestFailed(request.correlation, reason))

    # --- common journeys --------------------------------------------------------------------------------------------

    def become_prospective(self) -> None:
        until = self.now + 20_000
        while self.client.state_name != "prospective":
            assert self.now < until, f"{self.client.state} does not stand for election"
            self.pass_time(10)

    def become_candidate(self) -> None:
        self.become_prospective()
        self.grant_votes()
        assert self.client.state_name == "candidate"

    def become_leader(self) -> None:
        self.become_candidate()
        self.grant_votes()
        assert self.client.is_leader

    def become_leader_with(self, votes: int) -> None:
        """Become leader by so many votes of others."""
        self.become_prospective()
        self.grant_votes(votes)
        self.grant_votes(votes)
        assert self.client.is_leader

    def grant_votes(self, count: int = 1) -> None:
        is_pre_vote = self.client.state_name == "prospective"
        asked = [each for each in self.sent(VoteRequest) if _pre_vote(each) is is_pre_vote]
        for request in asked[:count]:
            self.answer(request, vote_response(self.client.epoch, granted=True))

    def follow(self, leader: int = 1, epoch: int = 1) -> None:
        self.request(begin_request(leader, epoch), 1)
        assert self.client.leader_and_epoch == LeaderAndEpoch(leader, epoch)

    def fetch_out(self) -> SendRequest:
        """The Fetch that waits for an answer by the leader."""
        (request,) = self.sent(FetchRequest, self.client.leader_id)
        return request

    def commit_epoch(self, by: int = 1) -> None:
        """As leader: let one voter fetch everything."""
        self.request(fetch_request(by, self.client.epoch, self.log.end_offset, self.log.last_epoch, max_wait_ms=0))


def _pre_vote(request: SendRequest) -> bool:
    assert isinstance(request.message, VoteRequest)
    return request.message.topics[0].partitions[0].pre_vote


# --- messages of peers ------------------------------------------------------------------------------------------------


def vote_request(
    candidate: int,
    epoch: int,
    last_epoch: int = 0,
    offset: int = 0,
    *,
    pre_vote: bool = False,
    voter: int = 0,
    **more: Any,
) -> VoteRequest:
    partition = VoteRequestPartitionData(
        replica_epoch=epoch,
        replica_id=candidate,
        replica_directory_id=key(candidate).directory_id,
        voter_directory_id=more.pop("voter_directory_id", key(voter).directory_id),
        last_offset_epoch=last_epoch,
        last_offset=offset,
        pre_vote=pre_vote,
    )
    topic = VoteRequestTopicData(topic_name=more.pop("topic", METADATA_TOPIC), partitions=(partition,))
    return VoteRequest(cluster_id=more.pop("cluster_id", CLUSTER_ID), voter_id=voter, topics=(topic,))


def vote_response(epoch: int, *, granted: bool, error: int = 0, leader: int = -1) -> VoteResponse:
    partition = VoteResponsePartitionData(leader_id=leader, leader_epoch=epoch, vote_granted=granted, error_code=error)
    return VoteResponse(topics=(VoteResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,)),))


def begin_request(leader: int, epoch: int, voter: int = 0) -> BeginQuorumEpochRequest:
    partition = BeginQuorumEpochRequestPartitionData(
        voter_directory_id=key(voter).directory_id, leader_id=leader, leader_epoch=epoch
    )
    topic = BeginQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return BeginQuorumEpochRequest(cluster_id=CLUSTER_ID, voter_id=voter, topics=(topic,))


def fetch_request(
    replica: int,
    epoch: int,
    offset: int,
    last_epoch: int,
    *,
    max_wait_ms: int = 500,
    known_high_watermark: int = 2**63 - 1,
) -> FetchRequest:
    partition = FetchRequestFetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        replica_directory_id=key(replica).directory_id,
        high_watermark=known_high_watermark,
    )
    return FetchRequest(
        cluster_id=CLUSTER_ID,
        replica_state=FetchRequestReplicaState(replica_id=replica),
        max_wait_ms=max_wait_ms,
        topics=(FetchRequestFetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )


def fetch_response(
    leader: int,
    epoch: int,
    records: bytes = b"",
    *,
    high_watermark: int = -1,
    error: int = 0,
    diverging: tuple[int, int] | None = None,
    snapshot_id: tuple[int, int] | None = None,
) -> FetchResponse:
    """`diverging` and `snapshot_id` are (end offset, epoch)."""
    more: dict[str, Any] = {}
    if diverging is not None:
        more["diverging_epoch"] = FetchResponseEpochEndOffset(end_offset=diverging[0], epoch=diverging[1])
    if snapshot_id is not None:
        more["snapshot_id"] = FetchResponseSnapshotId(end_offset=snapshot_id[0], epoch=snapshot_id[1])
    partition = FetchResponsePartitionData(
        error_code=error,
        high_watermark=high_watermark,
        current_leader=FetchResponseLeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
        records=records,
        **more,
    )
    topic = FetchResponseFetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    return FetchResponse(responses=(topic,))


def only(answer: Any) -> Any:
    """The one partition of an answer."""
    topics = answer.responses if isinstance(answer, FetchResponse) else answer.topics
    return topics[0].partitions[0]
