"""Fetch with sessions, ListOffsets and OffsetForLeaderEpoch of a simulated broker.

Source: FetchManager, FetchSession, ReplicaManager of Kafka 4.3.1; KIP-227 (sessions), KIP-320 (truncation), KIP-951.
"""

from dataclasses import dataclass, field
from typing import Final, cast

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchResponse,
    FetchResponseAbortedTransaction,
    FetchResponseEpochEndOffset,
    FetchResponseFetchableTopicResponse,
    FetchResponseLeaderIdAndEpoch,
    FetchResponseNodeEndpoint,
    FetchResponsePartitionData,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponseListOffsetsPartitionResponse,
    ListOffsetsResponseListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderEpochResponseOffsetForLeaderTopicResult,
)
from kraft_core.protocol.wire import Message
from tests.clients.simulator.partition_log import PartitionLog
from tests.clients.simulator.sim_broker import HANDLERS, Call, Parked, SimBroker
from tests.simulator.invariant import check

SESSIONS_MAX: Final = 8
"""Sessions that a broker keeps; Kafka's max.incremental.fetch.session.cache.slots is 1000."""
READ_COMMITTED: Final = 1
NEAREST_SINCE: Final = 11
"""The version of Fetch with the client's rack."""
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


@dataclass(slots=True)
class _Wanted:
    """A partition of a session, and what the last answer to the client had of it."""

    request: FetchRequestFetchPartition
    high_watermark: int = -1


@dataclass(slots=True)
class _Session:
    id: int
    epoch: int = 1
    partitions: dict[TopicPartition, _Wanted] = field(default_factory=dict)


class _Fetch:
    """One request: answered when it has data or an error, or when its time is over."""

    def __init__(self, broker: SimBroker, request: FetchRequest, call: Call) -> None:
        self.broker, self.request, self.call = broker, request, call
        self.version = call.header.api_version
        self.unknown: list[FetchResponseFetchableTopicResponse] = []
        self.error = ErrorCode.NONE
        self.session: _Session | None = None
        self.is_incremental = False
        self.wanted = self._partitions()
        self.is_late = request.max_wait_ms == 0

    # Sessions

    @property
    def _sessions(self) -> dict[int, _Session]:
        return cast("dict[int, _Session]", self.broker.state.setdefault("fetch sessions", {}))

    def _partitions(self) -> dict[TopicPartition, _Wanted]:
        request, sessions = self.request, self._sessions
        asked = self._asked()
        check(len(asked) <= len(self.broker.cluster.logs), "a fetch names partitions that do not exist", asked)
        if self.version < 7 or request.session_epoch == -1:
            sessions.pop(request.session_id, None)
            return asked
        if request.session_epoch == 0:
            sessions.pop(request.session_id, None)
            self.session = _Session(self.broker.world.random.randint(1, 2**31 - 1), partitions=asked)
            while len(sessions) >= SESSIONS_MAX:
                del sessions[next(iter(sessions))]
            sessions[self.session.id] = self.session
            return asked
        if self.broker.world.chance(self.broker.cluster.disorder.lose_session):
            sessions.pop(request.session_id, None)
        session = sessions.get(request.session_id)
        if session is None:
            self.error = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            return {}
        if session.epoch != request.session_epoch:
            self.error = ErrorCode.INVALID_FETCH_SESSION_EPOCH
            return {}
        session.epoch = session.epoch + 1 if session.epoch < 2**31 - 1 else 1
        for topic in request.forgotten_topics_data:
            name = self.broker.cluster.names_by_id.get(topic.topic_id, "") if self.version >= 13 else topic.topic
            for index in topic.partitions:
                session.partitions.pop(TopicPartition(name, index), None)
        for partition, wanted in asked.items():
            known = session.partitions.pop(partition, None)
            wanted.high_watermark = -1 if known is None else known.high_watermark
            session.partitions[partition] = wanted
        self.session, self.is_incremental = session, True
        check(len(session.partitions) <= len(self.broker.cluster.logs), "a session grows", len(session.partitions))
        return session.partitions

    def _asked(self) -> dict[TopicPartition, _Wanted]:
        found: dict[TopicPartition, _Wanted] = {}
        for topic in self.request.topics:
            name = self.broker.cluster.names_by_id.get(topic.topic_id) if self.version >= 13 else topic.topic
            if name is None:
                self.unknown.append(
                    FetchResponseFetchableTopicResponse(
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            FetchResponsePartitionData(
                                partition_index=each.partition, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                            )
                            for each in topic.partitions
                        ),
                    )
                )
                continue
            for each in topic.partitions:
                partition = TopicPartition(name, each.partition)
                check(partition not in found, "a partition twice in a fetch", partition)
                found[partition] = _Wanted(each)
        return found

    # Answers

    def retry(self) -> bool:
        """Answer if there is something to say; return whether the request is done with."""
        if self.call.is_answered or self.call.incarnation != self.broker.incarnation:
            return True
        if self.error is not ErrorCode.NONE:
            self.call.answer(FetchResponse(error_code=self.error))
            return True
        left = self.request.max_bytes
        entries: dict[TopicPartition, FetchResponsePartitionData] = {}
        size, is_failed = 0, bool(self.unknown)
        for partition, wanted in self.wanted.items():
            entry = self._read(partition, wanted.request, left)
            entries[partition] = entry
            size += len(entry.records or b"")
            left = max(0, left - len(entry.records or b""))
            is_failed |= entry.error_code != ErrorCode.NONE or entry.diverging_epoch.epoch >= 0
            is_failed |= entry.preferred_read_replica >= 0
        if size < self.request.min_bytes and not is_failed and not self.is_late and self.wanted:
            return False
        self._send(entries)
        return True

    def late(self) -> None:
        """Answer with what there is."""
        self.is_late = True
        self.retry()

    def _send(self, entries: dict[TopicPartition, FetchResponsePartitionData]) -> None:
        cluster = self.broker.cluster
        topics: dict[str, list[FetchResponsePartitionData]] = {}
        leaders = set()
        for partition, entry in entries.items():
            wanted = self.wanted[partition]
            is_news = entry.records or entry.error_code or entry.diverging_epoch.epoch >= 0
            is_news = is_news or entry.preferred_read_replica >= 0
            if self.is_incremental and not is_news and wanted.high_watermark == entry.high_watermark:
                continue
            wanted.high_watermark = entry.high_watermark
            topics.setdefault(partition.topic, []).append(entry)
            leaders |= {entry.current_leader.leader_id} - {-1}
            if self.session is not None and entry.records:
                self.session.partitions[partition] = self.session.partitions.pop(partition)  # the last one next time
        answer = FetchResponse(
            session_id=self.session.id if self.session is not None else 0,
            responses=(
                *self.unknown,
                *(
                    FetchResponseFetchableTopicResponse(
                        topic=name, topic_id=cluster.topic_ids[name], partitions=tuple(partitions)
                    )
                    for name, partitions in topics.items()
                ),
            ),
            node_endpoints=tuple(
                FetchResponseNodeEndpoint(node_id=node.id, host=node.address[0], port=node.address[1])
                for node in map(cluster.brokers.__getitem__, sorted(leaders))
            ),
        )
        self.call.answer(answer)

    def _nearest(self) -> SimBroker | None:
        """Return the replica in the rack of the client, if it runs and knows KIP-392. All brokers are replicas."""
        brokers = self.broker.cluster.up() if self.version >= NEAREST_SINCE else []
        near = (broker for broker in brokers if broker.rack == self.request.rack_id)
        return next((broker for broker in near if broker.versions[FetchRequest.API_KEY][1] >= NEAREST_SINCE), None)

    def _read(
        self, partition: TopicPartition, wanted: FetchRequestFetchPartition, max_bytes: int
    ) -> FetchResponsePartitionData:
        log = self.broker.cluster.logs[partition]
        index = partition.partition
        refusal = leader_refusal(
            self.broker, log, wanted.current_leader_epoch, reads_here=self._nearest() == self.broker
        )
        if refusal is not ErrorCode.NONE:
            leader = FetchResponseLeaderIdAndEpoch()
            if self.version >= 12 and refusal in {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}:
                known, epoch = self.broker.view[partition]
                leader = FetchResponseLeaderIdAndEpoch(leader_id=known, leader_epoch=epoch)
            return FetchResponsePartitionData(
                partition_index=index, error_code=refusal, high_watermark=-1, current_leader=leader
            )
        if self.version >= 12 and wanted.last_fetched_epoch >= 0:
            epoch, end = log.end_of_epoch(wanted.last_fetched_epoch)
            if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset:
                diverging = FetchResponseEpochEndOffset(epoch=epoch, end_offset=end)
                return FetchResponsePartitionData(
                    partition_index=index, high_watermark=log.visible, diverging_epoch=diverging
                )
        if not log.start <= wanted.fetch_offset <= log.end:
            return FetchResponsePartitionData(
                partition_index=index, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1
            )
        nearest = self._nearest()
        if log.leader == self.broker.id and nearest not in {None, self.broker}:
            return FetchResponsePartitionData(
                partition_index=index, high_watermark=log.visible, preferred_read_replica=nearest.id
            )
        is_committed = self.request.isolation_level == READ_COMMITTED
        limit = log.last_stable_offset if is_committed else log.visible
        self.broker.cluster.follower_reads += log.leader != self.broker.id
        records = log.read(wanted.fetch_offset, limit, min(max_bytes, wanted.partition_max_bytes)) if max_bytes else b""
        aborted = tuple(
            FetchResponseAbortedTransaction(producer_id=producer_id, first_offset=first)
            for producer_id, first, last in log.aborted
            if is_committed and last >= wanted.fetch_offset and first < limit
        )
        return FetchResponsePartitionData(
            partition_index=index,
            high_watermark=log.visible,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.start,
            aborted_transactions=aborted if is_committed else None,
            records=records,
        )


def leader_refusal(broker: SimBroker, log: PartitionLog, client_epoch: int, *, reads_here: bool = False) -> ErrorCode:
    """Return why a broker does not answer for a partition: another leader epoch, or not its leader.

    A consumer whose nearest replica it is `reads_here` nevertheless.
    """
    world, disorder = broker.world, broker.cluster.disorder
    if log.leader != broker.id and not reads_here:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if world.chance(disorder.refuse_before):
        return world.random.choice(
            [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        )
    if 0 <= client_epoch < log.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH if client_epoch > log.epoch else ErrorCode.NONE


def fetch(broker: SimBroker, request: Message, call: Call) -> None:
    """Answer with records, at once or when there are enough."""
    assert isinstance(request, FetchRequest)
    check(request.replica_id == -1 and request.replica_state.replica_id == -1, "a consumer that poses as a replica")
    pending = _Fetch(broker, request, call)
    if not pending.retry():
        broker.parked.append(Parked(pending.retry))
        broker.world.after(request.max_wait_ms * 1000, pending.late)


def list_offsets(broker: SimBroker, request: Message, call: Call) -> Message:
    """Find offsets by time. After an election the end is not known before the leader has committed in its epoch."""
    assert isinstance(request, ListOffsetsRequest)
    topics = []
    for topic in request.topics:
        entries = []
        for wanted in topic.partitions:
            log = broker.cluster.logs[TopicPartition(topic.name, wanted.partition_index)]
            error = leader_refusal(broker, log, wanted.current_leader_epoch)
            if error is ErrorCode.NONE and wanted.timestamp != EARLIEST and log.visible < log.epochs[-1][1]:
                is_old = call.header.api_version < 5
                error = ErrorCode.LEADER_NOT_AVAILABLE if is_old else ErrorCode.OFFSET_NOT_AVAILABLE
            timestamp, offset = -1, -1
            if error is ErrorCode.NONE:
                timestamp, offset = _offset(log, wanted.timestamp, request.isolation_level)
            entries.append(
                ListOffsetsResponseListOffsetsPartitionResponse(
                    partition_index=wanted.partition_index,
                    error_code=error,
                    timestamp=timestamp,
                    offset=offset,
                    leader_epoch=log.epoch if offset >= 0 else -1,
                )
            )
        topics.append(ListOffsetsResponseListOffsetsTopicResponse(name=topic.name, partitions=tuple(entries)))
    return ListOffsetsResponse(topics=tuple(topics))


def _offset(log: PartitionLog, timestamp: int, isolation_level: int) -> tuple[int, int]:
    limit = log.last_stable_offset if isolation_level == READ_COMMITTED else log.visible
    if timestamp == LATEST:
        return -1, limit
    if timestamp == EARLIEST:
        return -1, log.start
    for batch in log.batches:
        if batch.last_offset >= limit:
            break
        if batch.is_control or batch.max_timestamp < timestamp:
            continue
        for record in batch.records():
            if record.timestamp >= timestamp:
                return record.timestamp, record.offset
    return -1, -1


def offset_for_leader_epoch(broker: SimBroker, request: Message, call: Call) -> Message:
    """Answer where leader epochs end."""
    assert isinstance(request, OffsetForLeaderEpochRequest)
    topics = []
    for topic in request.topics:
        entries = []
        for wanted in topic.partitions:
            log = broker.cluster.logs[TopicPartition(topic.topic, wanted.partition)]
            error = leader_refusal(broker, log, wanted.current_leader_epoch)
            epoch, end = log.end_of_epoch(wanted.leader_epoch) if error is ErrorCode.NONE else (-1, -1)
            entries.append(
                OffsetForLeaderEpochResponseEpochEndOffset(
                    partition=wanted.partition, error_code=error, leader_epoch=epoch, end_offset=end
                )
            )
        topics.append(
            OffsetForLeaderEpochResponseOffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(entries))
        )
    return OffsetForLeaderEpochResponse(topics=tuple(topics))


HANDLERS[FetchRequest.API_KEY] = fetch
HANDLERS[ListOffsetsRequest.API_KEY] = list_offsets
HANDLERS[OffsetForLeaderEpochRequest.API_KEY] = offset_for_leader_epoch
