"""Produce of a simulated broker."""

from typing import Final

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import CorruptBatch, ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    ProduceRequest,
    ProduceResponse,
    ProduceResponseLeaderIdAndEpoch,
    ProduceResponseNodeEndpoint,
    ProduceResponsePartitionProduceResponse,
    ProduceResponseTopicProduceResponse,
)
from kraft_core.protocol.record_batch import read_batches
from kraft_core.protocol.wire import Message
from tests.clients.simulator.partition_log import PartitionLog, Waiter
from tests.clients.simulator.sim_broker import HANDLERS, Call, SimBroker
from tests.clients.simulator.transaction_apis import before_append
from tests.simulator.invariant import InvariantBrokenError, check

ALL: Final = -1
Result = tuple[ErrorCode, int]  # and the offset
BEFORE: Final = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
AFTER: Final = (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT)


class _Pending:
    """One produce request: answered when all its partitions are done, or when its time is over."""

    def __init__(self, broker: SimBroker, request: ProduceRequest, call: Call) -> None:
        self.broker, self.call = broker, call
        self.is_by_id = call.header.api_version >= 13
        self.acks = request.acks
        self.results: dict[TopicPartition, Result | None] = {}
        self.offsets: dict[TopicPartition, int] = {}
        cluster = broker.cluster
        for topic in request.topic_data:
            name = cluster.names_by_id.get(topic.topic_id, "") if self.is_by_id else topic.name
            check(name in cluster.topic_ids, "a produce request for a topic that never was", topic)
            for data in topic.partition_data:
                partition = TopicPartition(name, data.index)
                check(partition not in self.results, "a partition twice in a produce request", partition)
                self.results[partition] = None
                self._append(partition, data.records or b"", request)

    def _append(self, partition: TopicPartition, records: bytes, request: ProduceRequest) -> None:
        broker, cluster = self.broker, self.broker.cluster
        log = cluster.logs[partition]
        random, chance = cluster.world.random, cluster.world.chance
        if log.leader != broker.id:
            self._done(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if log.is_short_of_replicas and self.acks == ALL and random.random() < 0.7:
            self._done(partition, ErrorCode.NOT_ENOUGH_REPLICAS)
            return
        if chance(cluster.disorder.refuse_before):
            self._done(partition, random.choice(BEFORE))
            return
        if len(records) > cluster.max_message_bytes:
            cluster.too_large += 1
            self._done(partition, ErrorCode.MESSAGE_TOO_LARGE)
            return
        try:
            (batch,) = read_batches(records)
            refusal = before_append(broker, log, batch, request, self.call)
            if refusal is not ErrorCode.NONE:
                self._done(partition, refusal)
                return
            offset, was_there = log.append(batch)
        except CorruptBatch as fault:
            raise InvariantBrokenError(f"a batch that is corrupt: {fault}") from None
        except KafkaError as refused:
            broker.world.note("refused", partition, refused.code.name)
            self._done(partition, refused.code)
            return
        broker.world.note("append", partition, offset, "again" if was_there else "", "end", log.end)
        self.offsets[partition] = offset
        if not was_there:
            cluster.replicate(log)
        if chance(cluster.disorder.refuse_after):
            self._done(partition, random.choice(AFTER))
        elif self.acks != ALL:
            self._done(partition, ErrorCode.NONE)
        else:
            self._wait(log, partition)

    def _wait(self, log: PartitionLog, partition: TopicPartition) -> None:
        end = log.end
        if log.high_watermark >= end:
            self._done(partition, ErrorCode.NONE)
            return

        def answer(error: ErrorCode) -> None:
            if self.results[partition] is None:
                self._done(partition, error)
                self.maybe_answer()

        log.waiters.append(Waiter(end, answer))

    def _done(self, partition: TopicPartition, error: ErrorCode) -> None:
        self.results[partition] = (error, self.offsets.get(partition, -1))

    def late(self) -> None:
        """Answer what is not committed yet as timed out."""
        for partition, result in self.results.items():
            if result is None:
                self._done(partition, ErrorCode.REQUEST_TIMED_OUT)
        self.maybe_answer()

    def maybe_answer(self) -> None:
        """Answer when every partition has a result."""
        if self.call.is_answered or None in self.results.values():
            return
        if self.acks == 0:
            if any(result and result[0] is not ErrorCode.NONE for result in self.results.values()):
                self.broker.cluster.links.reset(self.call.link)  # as Kafka: there is no other way to report it
            self.call.answer(None)
            return
        self.call.answer(self._response())

    def _response(self) -> ProduceResponse:
        cluster = self.broker.cluster
        topics: dict[str, list[ProduceResponsePartitionProduceResponse]] = {}
        leaders = set()
        for partition, result in self.results.items():
            assert result is not None
            error, offset = result
            leader = ProduceResponseLeaderIdAndEpoch()
            if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and self.call.header.api_version >= 10:
                known, epoch = self.broker.view[partition]
                leader = ProduceResponseLeaderIdAndEpoch(leader_id=known, leader_epoch=epoch)
                leaders.add(known)
            entry = ProduceResponsePartitionProduceResponse(
                index=partition.partition,
                error_code=error,
                base_offset=offset if error is ErrorCode.NONE else -1,
                log_start_offset=cluster.logs[partition].start,
                current_leader=leader,
            )
            topics.setdefault(partition.topic, []).append(entry)
        endpoints = (cluster.brokers[leader] for leader in sorted(leaders) if leader in cluster.brokers)
        return ProduceResponse(
            responses=tuple(
                ProduceResponseTopicProduceResponse(
                    name=name, topic_id=cluster.topic_ids[name], partition_responses=tuple(entries)
                )
                for name, entries in topics.items()
            ),
            node_endpoints=tuple(
                ProduceResponseNodeEndpoint(node_id=node.id, host=node.address[0], port=node.address[1])
                for node in endpoints
            ),
        )


def produce(broker: SimBroker, request: Message, call: Call) -> None:
    """Write batches, and answer when they are as safe as `acks` asks for."""
    assert isinstance(request, ProduceRequest)
    check(request.acks in {-1, 0, 1}, "a produce request with other acks", request.acks)
    pending = _Pending(broker, request, call)
    pending.maybe_answer()
    if not call.is_answered:
        broker.world.after(request.timeout_ms * 1000, pending.late)


HANDLERS[ProduceRequest.API_KEY] = produce
