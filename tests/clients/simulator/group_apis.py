"""The group coordinator of a simulated broker: the product's own rules of classic groups, which are sans-IO.

The groups' log is in the cluster, as if always committed. A broker that becomes the coordinator reads it; members then
have to be heard of again. Commits are shown to `SimCluster.on_commit` before they are written.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast
from uuid import UUID

from kraft_core.broker.coordinator.group_coordinator import GroupCoordinator, commit_refused
from kraft_core.broker.coordinator.group_coordinator_config import GroupCoordinatorConfig, KeyAndValue
from kraft_core.broker.coordinator.group_records import CommittedOffset, GroupRecord, offset_record
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestOffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseOffsetFetchResponseGroup,
    OffsetFetchResponseOffsetFetchResponsePartition,
    OffsetFetchResponseOffsetFetchResponsePartitions,
    OffsetFetchResponseOffsetFetchResponseTopic,
    OffsetFetchResponseOffsetFetchResponseTopics,
    SyncGroupRequest,
    SyncGroupResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTxnOffsetCommitResponseTopic,
)
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message
from tests.clients.simulator import consumer_group_apis
from tests.clients.simulator.sim_broker import HANDLERS, Call, SimBroker
from tests.clients.simulator.transaction_apis import begin

if TYPE_CHECKING:
    from tests.clients.simulator.sim_cluster import SimCluster

GROUP: Final = 0
"""The type of the key in FindCoordinator."""
_NOTHING: Final = CommittedOffset(-1, -1, "", -1)


class _Names:
    """The topics of the cluster, as the coordinator asks for them."""

    def __init__(self, cluster: "SimCluster") -> None:
        self._cluster = cluster

    def has_partition(self, topic: str, partition: int) -> bool:
        return TopicPartition(topic, partition) in self._cluster.logs

    def topic_id(self, topic: str) -> UUID:
        return self._cluster.topic_ids.get(topic, ZERO_UUID)

    def topic_name(self, topic_id: UUID) -> str | None:
        return self._cluster.names_by_id.get(topic_id)


class _Log:
    """The log of all groups; a broker that is not the coordinator any more cannot write."""

    def __init__(self, broker: SimBroker) -> None:
        self._broker = broker

    def append(self, group_id: str, records: Sequence[KeyAndValue]) -> ErrorCode:
        cluster = self._broker.cluster
        if cluster.coordinator(GROUP, group_id) != self._broker.id:
            return ErrorCode.NOT_COORDINATOR
        cluster.group_logs.setdefault(group_id, []).extend(records)
        return ErrorCode.NONE


class _Groups:
    """The coordinator of one broker's process."""

    def __init__(self, broker: SimBroker) -> None:
        self.broker, self.world, self.cluster = broker, broker.world, broker.cluster
        config = GroupCoordinatorConfig(min_session_timeout_ms=100, initial_rebalance_delay_ms=20)
        self.rules = GroupCoordinator(config, _Log(broker), _Names(broker.cluster), self._new_uuid)
        self.loaded: dict[str, int] = {}  # the term of the coordinator that each group was loaded in

    def _new_uuid(self) -> UUID:
        return UUID(int=self.world.random.getrandbits(128))

    @property
    def now_ms(self) -> int:
        return self.cluster.now_ms

    def refusal(self, group_id: str) -> ErrorCode:
        """Return why this broker does not answer for a group now; load the group if it does."""
        self._unload()
        if self.cluster.coordinator(GROUP, group_id) != self.broker.id:
            return ErrorCode.NOT_COORDINATOR
        if self.world.chance(self.cluster.disorder.refuse_before):
            return self.world.random.choice([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
        if group_id not in self.loaded:
            self.loaded[group_id] = self.cluster.terms[GROUP, group_id]
            groups: dict[str, GroupRecord] = {}
            self.rules.replay(self.cluster.group_logs.get(group_id, ()), groups)
            for _ in self.rules.loaded(groups, self.now_ms):
                pass
        return ErrorCode.NONE

    def _unload(self) -> None:
        """Forget the groups that have moved since they were loaded, even if they have come back."""
        moved = {each for each, term in self.loaded.items() if self.cluster.terms[GROUP, each] != term}
        if moved:
            self.loaded = {each: term for each, term in self.loaded.items() if each not in moved}
            self.rules.unload(lambda each: each in moved)

    def plan(self) -> None:
        """Run the rules again when their next deadline comes."""
        due = self.rules.next_deadline_ms()
        if due is not None:
            self.world.after(max(0, due - self.now_ms) * 1000 + 1, self._poll, self.broker.incarnation)

    def _poll(self, incarnation: int) -> None:
        if incarnation == self.broker.incarnation:
            self._unload()
            due = self.rules.next_deadline_ms()
            if due is not None and due <= self.now_ms:
                self.rules.poll(self.now_ms)
                self.plan()


def groups_of(broker: SimBroker) -> _Groups:
    """Return the coordinator of a broker's process."""
    return cast("_Groups", broker.state.get("groups") or broker.state.setdefault("groups", _Groups(broker)))


# Membership


def join(broker: SimBroker, request: Message, call: Call) -> None:
    assert isinstance(request, JoinGroupRequest)
    groups = groups_of(broker)
    error = groups.refusal(request.group_id)
    if error is not ErrorCode.NONE:
        call.answer(JoinGroupResponse(error_code=error, member_id=request.member_id))
        return
    client_id = call.header.client_id or ""
    groups.rules.join(request, call.header.api_version, client_id, "host", call.answer, groups.now_ms)
    groups.plan()


def sync(broker: SimBroker, request: Message, call: Call) -> None:
    assert isinstance(request, SyncGroupRequest)
    groups = groups_of(broker)
    error = groups.refusal(request.group_id)
    if error is not ErrorCode.NONE:
        call.answer(SyncGroupResponse(error_code=error))
        return
    groups.rules.sync(request, call.answer, groups.now_ms)
    groups.plan()


def heartbeat(broker: SimBroker, request: Message, call: Call) -> Message:
    assert isinstance(request, HeartbeatRequest)
    groups = groups_of(broker)
    error = groups.refusal(request.group_id)
    if error is not ErrorCode.NONE:
        return HeartbeatResponse(error_code=error)
    answer = groups.rules.heartbeat(request, groups.now_ms)
    groups.plan()
    return answer


def leave(broker: SimBroker, request: Message, call: Call) -> Message:
    assert isinstance(request, LeaveGroupRequest)
    groups = groups_of(broker)
    error = groups.refusal(request.group_id)
    if error is not ErrorCode.NONE:
        return LeaveGroupResponse(error_code=error)
    answer = groups.rules.leave(request, call.header.api_version, groups.now_ms)
    groups.plan()
    return answer


def consumer_heartbeat(broker: SimBroker, request: Message, call: Call) -> Message:
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    error = groups_of(broker).refusal(request.group_id)
    if error is not ErrorCode.NONE:
        return ConsumerGroupHeartbeatResponse(error_code=error)
    return consumer_group_apis.heartbeat(broker, request)


# Offsets


def commit(broker: SimBroker, request: Message, call: Call) -> Message:
    """Write offsets, after a look at whether they may be written at all."""
    assert isinstance(request, OffsetCommitRequest)
    groups = groups_of(broker)
    error = groups.refusal(request.group_id)
    if error is not ErrorCode.NONE:
        return commit_refused(request, error)
    for topic in request.topics:
        name = broker.cluster.names_by_id[topic.topic_id] if call.header.api_version >= 10 else topic.name
        for each in topic.partitions:
            partition = TopicPartition(name, each.partition_index)
            broker.cluster.on_commit(call.link.process.id, partition, each.committed_offset)
    if request.group_id.startswith(consumer_group_apis.PREFIX):
        error = consumer_group_apis.commit_error(broker, request)
        if error is not ErrorCode.NONE:
            return commit_refused(request, error)
        answer = groups.rules.offsets.commit(request, groups.now_ms)
    else:
        answer = groups.rules.commit(request, "host", groups.now_ms)
        groups.plan()
    _note_commits(broker, request, answer, call)
    return answer


def _note_commits(broker: SimBroker, request: OffsetCommitRequest, answer: OffsetCommitResponse, call: Call) -> None:
    for asked, outcome in zip(request.topics, answer.topics, strict=True):
        name = broker.cluster.names_by_id[asked.topic_id] if call.header.api_version >= 10 else asked.name
        for each, result in zip(asked.partitions, outcome.partitions, strict=True):
            if result.error_code == ErrorCode.NONE:
                partition = TopicPartition(name, each.partition_index)
                broker.cluster.written_commits.add((call.link.process.id, partition, each.committed_offset))


def txn_commit(broker: SimBroker, request: Message, call: Call) -> Message:
    """Keep offsets until the transaction ends."""
    assert isinstance(request, TxnOffsetCommitRequest)
    cluster, groups = broker.cluster, groups_of(broker)
    error = groups.refusal(request.group_id)
    known = cluster.transactions.get(request.transactional_id)
    if error is ErrorCode.NONE and (known is None or known.producer_id != request.producer_id):
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    elif error is ErrorCode.NONE and known is not None and known.epoch != request.producer_epoch:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.NONE and call.header.api_version >= 3 and request.generation_id >= 0:
        group = groups.rules.groups.get(request.group_id)
        as_commit = OffsetCommitRequest(
            group_id=request.group_id,
            generation_id_or_member_epoch=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
        )
        try:
            if group is None:
                error = ErrorCode.ILLEGAL_GENERATION
            else:
                groups.rules.offsets.check_commit(group, as_commit, groups.now_ms)
        except KafkaError as refused:
            error = refused.code
    if error is ErrorCode.NONE:
        error = _keep_offsets(broker, request, is_v2=call.header.api_version >= 5)
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponseTxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=error
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _keep_offsets(broker: SimBroker, request: TxnOffsetCommitRequest, *, is_v2: bool) -> ErrorCode:
    cluster, group_id = broker.cluster, request.group_id
    known = cluster.transactions[request.transactional_id]
    if known.state == "Prepare":
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if is_v2:
        begin(cluster, known)
        known.groups.add(group_id)
    elif known.state != "Ongoing" or group_id not in known.groups:
        return ErrorCode.INVALID_TXN_STATE
    by_producer = cluster.pending_offsets.setdefault(group_id, {})
    if known.producer_id not in by_producer:
        by_producer[known.producer_id] = {}
        known.on_end.append(lambda commits: _end_offsets(cluster, group_id, known.producer_id, commits=commits))
    for topic in request.topics:
        for each in topic.partitions:
            value = CommittedOffset(
                each.committed_offset, each.committed_leader_epoch, each.committed_metadata or "", cluster.now_ms
            )
            by_producer[known.producer_id][TopicPartition(topic.name, each.partition_index)] = value
    return ErrorCode.NONE


def _end_offsets(cluster: "SimCluster", group_id: str, producer_id: int, *, commits: bool) -> None:
    offsets = cluster.pending_offsets[group_id].pop(producer_id)
    if not commits:
        return
    broker = cluster.brokers[cluster.coordinator(GROUP, group_id)]
    records = [offset_record(group_id, *partition, value) for partition, value in offsets.items()]
    cluster.group_logs.setdefault(group_id, []).extend(records)
    groups = cast("_Groups | None", broker.state.get("groups"))
    if groups is not None and group_id in groups.loaded:
        for partition, value in offsets.items():
            groups.rules.offsets.replay(group_id, *partition, value)


def offset_fetch(broker: SimBroker, request: Message, call: Call) -> Message:
    """Answer with committed offsets; -1 where there is none, an error where a transaction may still change it."""
    assert isinstance(request, OffsetFetchRequest)
    if call.header.api_version >= 8:
        found = tuple(_offsets_of(broker, each, call, request.require_stable) for each in request.groups)
        return OffsetFetchResponse(groups=found)
    groups = groups_of(broker)
    error = groups.refusal(request.group_id)
    if error is not ErrorCode.NONE:
        return OffsetFetchResponse(error_code=error)
    committed = groups.rules.committed(request.group_id)
    return OffsetFetchResponse(
        topics=tuple(
            OffsetFetchResponseOffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponseOffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=committed.get((topic.name, index), _NOTHING).offset,
                        committed_leader_epoch=committed.get((topic.name, index), _NOTHING).leader_epoch,
                        error_code=_stability(broker, request.group_id, topic.name, index, request.require_stable),
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.topics
        )
    )


def _offsets_of(
    broker: SimBroker, wanted: OffsetFetchRequestOffsetFetchRequestGroup, call: Call, require_stable: bool
) -> OffsetFetchResponseOffsetFetchResponseGroup:
    groups = groups_of(broker)
    error = groups.refusal(wanted.group_id)
    if error is not ErrorCode.NONE:
        return OffsetFetchResponseOffsetFetchResponseGroup(group_id=wanted.group_id, error_code=error)
    if wanted.group_id.startswith(consumer_group_apis.PREFIX):
        error = consumer_group_apis.fetch_error(broker, wanted)
        if error is not ErrorCode.NONE:
            return OffsetFetchResponseOffsetFetchResponseGroup(group_id=wanted.group_id, error_code=error)
    committed = groups.rules.committed(wanted.group_id)
    topics = []
    for topic in wanted.topics or ():
        name = broker.cluster.names_by_id[topic.topic_id] if call.header.api_version >= 10 else topic.name
        partitions = []
        for index in topic.partition_indexes:
            value = committed.get((name, index), _NOTHING)
            partitions.append(
                OffsetFetchResponseOffsetFetchResponsePartitions(
                    partition_index=index,
                    committed_offset=value.offset,
                    committed_leader_epoch=value.leader_epoch,
                    error_code=_stability(broker, wanted.group_id, name, index, require_stable),
                )
            )
        topics.append(
            OffsetFetchResponseOffsetFetchResponseTopics(
                name=name, topic_id=broker.cluster.topic_ids[name], partitions=tuple(partitions)
            )
        )
    return OffsetFetchResponseOffsetFetchResponseGroup(group_id=wanted.group_id, topics=tuple(topics))


def _stability(broker: SimBroker, group_id: str, topic: str, index: int, require_stable: bool) -> ErrorCode:
    pending = broker.cluster.pending_offsets.get(group_id, {})
    is_open = any(TopicPartition(topic, index) in offsets for offsets in pending.values())
    return ErrorCode.UNSTABLE_OFFSET_COMMIT if require_stable and is_open else ErrorCode.NONE


HANDLERS[ConsumerGroupHeartbeatRequest.API_KEY] = consumer_heartbeat
HANDLERS[JoinGroupRequest.API_KEY] = join
HANDLERS[SyncGroupRequest.API_KEY] = sync
HANDLERS[HeartbeatRequest.API_KEY] = heartbeat
HANDLERS[LeaveGroupRequest.API_KEY] = leave
HANDLERS[OffsetCommitRequest.API_KEY] = commit
HANDLERS[TxnOffsetCommitRequest.API_KEY] = txn_commit
HANDLERS[OffsetFetchRequest.API_KEY] = offset_fetch
