"""InitProducerId and the transaction coordinator of the simulated brokers.

The coordinator's state is in the cluster, as if its log were always committed: a move of the coordinator loses nothing.
Markers are written until they are committed, whatever the leaders do.

Source: TransactionCoordinator, TransactionMetadata of Kafka 4.3.1; KIP-360 (epoch bump), KIP-890 (TV2).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
)
from kraft_core.protocol.record_batch import RecordBatch
from kraft_core.protocol.wire import Message
from tests.clients.simulator.partition_log import PartitionLog
from tests.clients.simulator.sim_broker import HANDLERS, Call, SimBroker

if TYPE_CHECKING:
    from tests.clients.simulator.sim_cluster import SimCluster

TRANSACTION = 1
"""The type of the key in FindCoordinator."""
TV2_PRODUCE, TV2_END = 12, 5
"""The versions of Produce and EndTxn from which on a request belongs to a transaction of version 2."""


@dataclass(slots=True)
class Transaction:
    """A transactional id. `state` is as Kafka names it, for Prepare and Complete without the outcome (`commits`)."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: str = "Empty"
    commits: bool = False
    number: int = 0
    partitions: set[TopicPartition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    last_epoch: int = -1
    has_timed_out: bool = False
    on_end: list[Callable[[bool], None]] = field(default_factory=list)


def _refusal(broker: SimBroker, transactional_id: str) -> ErrorCode:
    cluster = broker.cluster
    if cluster.coordinator(TRANSACTION, transactional_id) != broker.id:
        return ErrorCode.NOT_COORDINATOR
    if cluster.world.chance(cluster.disorder.refuse_before):
        return cluster.world.random.choice(
            [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
        )
    return ErrorCode.NONE


def _fenced(known: Transaction | None, producer_id: int, epoch: int, *, is_new: bool) -> ErrorCode:
    """Return the error for a producer that is not the current one; `is_new` if the version has PRODUCER_FENCED."""
    if known is None or known.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.epoch != epoch:
        return ErrorCode.PRODUCER_FENCED if is_new else ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.NONE


# Producer ids


def init_producer_id(broker: SimBroker, request: Message, call: Call) -> Message:
    """Give a producer its id; for a transactional one also a new epoch, which ends what an older one left open."""
    assert isinstance(request, InitProducerIdRequest)
    cluster = broker.cluster
    transactional_id = request.transactional_id
    if transactional_id is None:
        if cluster.world.chance(cluster.disorder.refuse_before):
            return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        cluster.next_producer_id += 1
        return InitProducerIdResponse(producer_id=cluster.next_producer_id)
    error = _refusal(broker, transactional_id)
    if error is not ErrorCode.NONE:
        return InitProducerIdResponse(error_code=error)
    known = cluster.transactions.get(transactional_id)
    if known is None:
        cluster.next_producer_id += 1
        known = Transaction(transactional_id, cluster.next_producer_id, 0, request.transaction_timeout_ms)
        cluster.transactions[transactional_id] = known
        return InitProducerIdResponse(producer_id=known.producer_id)
    if request.producer_id >= 0 and (request.producer_id, request.producer_epoch) != (known.producer_id, known.epoch):
        if (request.producer_id, request.producer_epoch) == (known.producer_id, known.last_epoch):
            return InitProducerIdResponse(producer_id=known.producer_id, producer_epoch=known.epoch)  # a retry
        fenced = ErrorCode.PRODUCER_FENCED if call.header.api_version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
        return InitProducerIdResponse(error_code=fenced)
    if known.state == "Ongoing":
        known.epoch += 1
        known.last_epoch = -1
        begin_end(cluster, known, commits=False)
    if known.state == "Prepare":
        return InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
    known.last_epoch = request.producer_epoch
    known.epoch += 1
    known.timeout_ms = request.transaction_timeout_ms
    known.state = "Empty"
    return InitProducerIdResponse(producer_id=known.producer_id, producer_epoch=known.epoch)


# Transactions


def add_partitions(broker: SimBroker, request: Message, call: Call) -> Message:
    """Add partitions to a transaction of version 1, and begin it if needed."""
    assert isinstance(request, AddPartitionsToTxnRequest)
    transactional_id = request.v3_and_below_transactional_id
    error = _refusal(broker, transactional_id)
    known = broker.cluster.transactions.get(transactional_id)
    if error is ErrorCode.NONE:
        is_new = call.header.api_version >= 2
        error = _fenced(known, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch, is_new=is_new)
    if error is ErrorCode.NONE and known is not None:
        if known.state == "Prepare":
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        else:
            begin(broker.cluster, known)
            for topic in request.v3_and_below_topics:
                known.partitions |= {TopicPartition(topic.name, index) for index in topic.partitions}
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=tuple(
            AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=error
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        )
    )


def add_offsets(broker: SimBroker, request: Message, call: Call) -> Message:
    """Add a group to a transaction of version 1."""
    assert isinstance(request, AddOffsetsToTxnRequest)
    error = _refusal(broker, request.transactional_id)
    known = broker.cluster.transactions.get(request.transactional_id)
    if error is ErrorCode.NONE:
        error = _fenced(known, request.producer_id, request.producer_epoch, is_new=call.header.api_version >= 2)
    if error is ErrorCode.NONE and known is not None:
        if known.state == "Prepare":
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        else:
            begin(broker.cluster, known)
            known.groups.add(request.group_id)
    return AddOffsetsToTxnResponse(error_code=error)


def begin(cluster: "SimCluster", known: Transaction) -> None:
    """Begin a transaction unless one is open; it is aborted when its time is over."""
    if known.state == "Ongoing":
        return
    known.state = "Ongoing"
    known.number += 1
    cluster.world.after(known.timeout_ms * 1000, _time_out, cluster, known, known.number)


def _time_out(cluster: "SimCluster", known: Transaction, number: int) -> None:
    if known.state == "Ongoing" and known.number == number:
        cluster.world.note("transaction times out", known.transactional_id)
        known.has_timed_out = True
        known.epoch += 1
        known.last_epoch = -1
        begin_end(cluster, known, commits=False)


def before_append(
    broker: SimBroker, log: PartitionLog, batch: RecordBatch, request: ProduceRequest, call: Call
) -> ErrorCode:
    """Check a transactional batch; one of version 2 adds its partition to the transaction."""
    if not batch.is_transactional:
        return ErrorCode.NONE
    cluster = broker.cluster
    known = cluster.transactions.get(request.transactional_id or "")
    if known is None or known.producer_id != batch.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if batch.producer_epoch != known.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if call.header.api_version < TV2_PRODUCE:
        is_part = known.state == "Ongoing" and log.partition in known.partitions
        return ErrorCode.NONE if is_part else ErrorCode.INVALID_TXN_STATE
    if known.state == "Prepare":
        return ErrorCode.CONCURRENT_TRANSACTIONS
    begin(cluster, known)
    known.partitions.add(log.partition)
    return ErrorCode.NONE


def end_txn(broker: SimBroker, request: Message, call: Call) -> Message:
    """Commit or abort; the answer comes before the markers are written. Version 2 raises the epoch (KIP-890)."""
    assert isinstance(request, EndTxnRequest)
    error = _refusal(broker, request.transactional_id)
    if error is not ErrorCode.NONE:
        return EndTxnResponse(error_code=error)
    is_v2 = call.header.api_version >= TV2_END
    known = broker.cluster.transactions.get(request.transactional_id)
    if known is None or known.producer_id != request.producer_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_retry = is_v2 and request.producer_epoch == known.last_epoch and known.state in {"Prepare", "Complete"}
    if request.producer_epoch != known.epoch and not is_retry:
        is_new = call.header.api_version >= 2
        return EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED if is_new else ErrorCode.INVALID_PRODUCER_EPOCH)
    if known.state == "Ongoing" or (is_v2 and not is_retry and not request.committed and known.state != "Prepare"):
        if is_v2:
            known.last_epoch = known.epoch
            known.epoch += 1
        begin_end(broker.cluster, known, commits=request.committed)
    elif known.state == "Empty" or known.commits != request.committed or (is_v2 and not is_retry):
        return EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
    elif known.state == "Prepare":
        return EndTxnResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
    return EndTxnResponse(producer_id=known.producer_id, producer_epoch=known.epoch)


def begin_end(cluster: "SimCluster", known: Transaction, *, commits: bool) -> None:
    """Decide the outcome, and write the markers until all are committed."""
    known.state = "Prepare"
    known.commits = commits
    outcome = "commit" if commits else "abort"
    cluster.world.note("end", known.transactional_id, known.epoch, outcome, sorted(known.partitions))
    partitions, known.partitions = known.partitions, set()
    left = set(partitions)
    epoch = known.epoch

    def written(partition: TopicPartition) -> None:
        left.discard(partition)
        if not left:
            complete()

    def complete() -> None:
        known.state = "Complete"
        known.groups.clear()
        callbacks, known.on_end = known.on_end, []
        for callback in callbacks:
            callback(commits)

    for partition in sorted(partitions):
        log = cluster.logs[partition]
        _write_marker(cluster, log, known.producer_id, epoch, commits, lambda each=partition: written(each))
    if not partitions:
        complete()


def _write_marker(
    cluster: "SimCluster", log: PartitionLog, producer_id: int, epoch: int, commits: bool, done: Callable[[], None]
) -> None:
    """Write a marker when the leader is up, and look whether it is committed; a truncated one is written again."""
    offset = -1

    def work() -> None:
        nonlocal offset
        if offset >= 0 and not _is_there(log, producer_id, offset):
            offset = -1  # truncated
        if 0 <= offset < log.high_watermark:
            done()
            return
        if offset < 0 and cluster.brokers[log.leader].is_up:
            offset = log.end
            log.end_transaction(producer_id, epoch, cluster.now_ms, commits=commits)
            cluster.world.note("marker", log.partition, offset, "commit" if commits else "abort")
            cluster.replicate(log)
        cluster.world.after(cluster.world.random.randint(2_000, 15_000), work)

    cluster.world.after(cluster.world.random.randint(500, 20_000), work)


def _is_there(log: PartitionLog, producer_id: int, offset: int) -> bool:
    return any(b.base_offset == offset and b.is_control and b.producer_id == producer_id for b in log.batches)


HANDLERS[InitProducerIdRequest.API_KEY] = init_producer_id
HANDLERS[AddPartitionsToTxnRequest.API_KEY] = add_partitions
HANDLERS[AddOffsetsToTxnRequest.API_KEY] = add_offsets
HANDLERS[EndTxnRequest.API_KEY] = end_txn
