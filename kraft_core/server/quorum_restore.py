"""Restores a quorum that has lost all its controllers from a copy of its metadata log.

A copy is older than what brokers, producers and clients have seen. A quorum that simply continued it would use offsets,
epochs and ids a second time, and logs that share them diverge unnoticed. So the newest copy becomes one snapshot with
numbers that were never in use:

1. Its end offset is above that of every copy by OFFSET_JUMP: broker epochs are offsets, and each fetch of an older log
   is answered with the snapshot.
2. Its epoch is above every epoch in the copies by EPOCH_JUMP.
3. Leader and partition epochs of each partition rise by LEADER_EPOCH_JUMP, so that replicas truncate diverging records.
4. The next producer id rises by PRODUCER_ID_JUMP.
5. Every broker is fenced and no partition has a leader, as after a stop of all brokers: with eligible leader replicas
   the ISR becomes the ELR; without, only the last leader remains in sync.
6. This node is the only voter: other controllers join by fetching, so that there is one history.

The metadata log of a broker can be restored as well as a controller's, and is usually newer.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec

from kraft_core.image.image_writer import image_records
from kraft_core.image.metadata_image import ClusterImage, MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.image.replay_error import ReplayError
from kraft_core.image.topics_image import LEADER_NONE
from kraft_core.image.trie_items import values_of
from kraft_core.node_snapshot import RECORDS_PER_BATCH
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.metadata_records import MetadataRecord, PartitionRecord, RegisterBrokerRecord, encode_record
from kraft_core.protocol.metadata_version import record_version
from kraft_core.protocol.record_batch import read_batches
from kraft_core.protocol.uuids import random_uuid, uuid_to_text
from kraft_core.raft.quorum_state import ElectionState
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.raft.snapshot.reader import SnapshotReader
from kraft_core.raft.snapshot.writer import SnapshotWriter
from kraft_core.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet
from kraft_core.server.config.kafka_config import ConfigError, KafkaConfig
from kraft_core.storage.files import OPERATING_SYSTEM, StorageError, create_directory, storage_errors
from kraft_core.storage.folder_lock import FolderLock
from kraft_core.storage.kafka_raft_log import KafkaRaftLog
from kraft_core.storage.meta_properties import (
    MetaProperties,
    read_meta_properties,
    verify_meta_properties,
    write_meta_properties,
)
from kraft_core.storage.quorum_state_store import FILE_NAME, QuorumStateStore
from kraft_core.storage.recovery import PARTITION_DIRECTORY
from kraft_core.storage.snapshots import SnapshotStore

OFFSET_JUMP: Final = 1_000_000_000
EPOCH_JUMP: Final = 1_000_000
LEADER_EPOCH_JUMP: Final = 1_000_000
PRODUCER_ID_JUMP: Final = 1_000_000_000_000
UNFINISHED: Final = ".restore"
"""Folder in metadata.log.dir in which the log is written."""
_INT32_MAX: Final = 2**31 - 1
_READ_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCopy:
    """The metadata log of one folder: everything up to `end` without an incomplete metadata transaction."""

    folder: Path
    properties: MetaProperties
    end: OffsetAndEpoch
    epoch_seen: int  # highest epoch in the folder's log and quorum-state
    timestamp_ms: int
    image: MetadataImage


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """The plan of a restore. `copies` are sorted, the newest first; the first one is restored."""

    copies: tuple[MetadataCopy, ...]
    target: Path  # metadata.log.dir of the node
    node_id: int
    directory_id: UUID
    is_formatted: bool  # the directory already has a meta.properties, as that of a combined node
    voters: VoterSet
    snapshot_id: OffsetAndEpoch

    @property
    def cluster_id(self) -> str:
        """Cluster id of all copies."""
        return self.copies[0].properties.cluster_id

    @property
    def lost_topics(self) -> tuple[str, ...]:
        """Names of topics in older copies that the restored metadata lacks: deleted since, or lost."""
        kept = self.copies[0].image.topics.by_id
        topics = (topic for copy in self.copies[1:] for topic in values_of(copy.image.topics.by_id))
        return tuple(sorted({topic.name for topic in topics if topic.id not in kept}))


def plan_restore(config: KafkaConfig, folders: Sequence[Path]) -> RestorePlan:
    """Read the copies and return the plan; nothing is written.

    Raises ConfigError for a node that cannot be the voter, StorageError for a folder that cannot be read or belongs to
    another cluster, and if the node already has a metadata log.
    """
    if not config.is_controller:
        raise ConfigError(
            f"process.roles is {','.join(config.process_roles)}: only a controller's metadata is restored."
        )
    if config.controller_quorum_voters:
        raise ConfigError(
            "controller.quorum.voters is set, but a restored quorum is dynamic: remove it and set "
            "controller.quorum.bootstrap.servers."
        )
    target = config.metadata_log_dir
    if (target / PARTITION_DIRECTORY).exists():
        raise StorageError(
            f"{target / PARTITION_DIRECTORY} exists already: nothing is overwritten. Move it aside first."
        )
    copies = sorted((read_copy(folder) for folder in folders), key=lambda copy: copy.end, reverse=True)
    newest = copies[0]
    for copy in copies[1:]:
        if copy.properties.cluster_id != newest.properties.cluster_id:
            raise StorageError(
                f"{copy.folder} belongs to cluster {copy.properties.cluster_id}, "
                f"{newest.folder} to {newest.properties.cluster_id}."
            )
    found = verify_meta_properties(
        list(dict.fromkeys([*config.log_dirs, target])), config.node_id, newest.properties.cluster_id
    )
    directory_id = (found[target].directory_id if target in found else None) or random_uuid()
    endpoints = tuple(
        Endpoint(each.name, each.host or "localhost", each.port) for each in config.advertised_controller_listeners
    )
    snapshot_id = OffsetAndEpoch(
        max(copy.end.offset for copy in copies) + OFFSET_JUMP, max(copy.epoch_seen for copy in copies) + EPOCH_JUMP
    )
    if snapshot_id.epoch > _INT32_MAX:
        raise StorageError(f"Epoch {snapshot_id.epoch} is beyond the largest, {_INT32_MAX}.")
    return RestorePlan(
        copies=tuple(copies),
        target=target,
        node_id=config.node_id,
        directory_id=directory_id,
        is_formatted=target in found and found[target].directory_id is not None,
        voters=VoterSet.of([VoterNode(ReplicaKey(config.node_id, directory_id), endpoints, 0, 1)]),
        snapshot_id=snapshot_id,
    )


def read_copy(folder: Path) -> MetadataCopy:
    """Read the metadata log in a metadata directory of a controller or broker, or in a copy; nothing is changed.

    An incomplete write at the end of the log is ignored. Raises StorageError.
    """
    source = folder / PARTITION_DIRECTORY
    if not source.is_dir():
        raise StorageError(f"{folder} has no folder {PARTITION_DIRECTORY}: name a metadata.log.dir or a copy of one.")
    properties = read_meta_properties(folder)
    if properties is None:
        raise StorageError(f"{folder} has no meta.properties, so its cluster is unknown.")
    with tempfile.TemporaryDirectory(prefix="conclave-restore-") as scratch:
        with storage_errors("copy", source):
            shutil.copytree(source, Path(scratch) / PARTITION_DIRECTORY)
        try:
            return _read(folder, properties, Path(scratch))
        except (ReplayError, KafkaError, StorageError) as error:
            raise StorageError(str(error).replace(scratch, str(folder))) from error


def _read(folder: Path, properties: MetaProperties, scratch: Path) -> MetadataCopy:
    election = ElectionState()
    if (scratch / PARTITION_DIRECTORY / FILE_NAME).exists():
        election = QuorumStateStore(scratch).read() or election
    log = KafkaRaftLog.open(scratch)
    try:
        loader = MetadataLoader()
        timestamp_ms = -1
        offset = 0
        newest = log.latest_snapshot_id()
        if newest is not None and newest.offset > 0:
            reader = SnapshotReader(log, newest)
            timestamp_ms = reader.last_contained_log_timestamp()
            loader.load_snapshot(reader, newest.offset, newest.epoch)
            offset = newest.offset
        while data := log.read(offset, _READ_BYTES) if offset < log.end_offset else b"":
            for batch in read_batches(data):
                loader.apply_batch(batch)
                offset, timestamp_ms = batch.last_offset + 1, max(timestamp_ms, batch.max_timestamp)
        if loader.image.features.metadata_version is None:
            raise StorageError(f"{folder} holds no metadata: its log ends at offset {log.end_offset}.")
        return MetadataCopy(
            folder=folder,
            properties=properties,
            end=OffsetAndEpoch(log.end_offset, log.last_epoch),
            epoch_seen=max(log.last_epoch, election.leader_epoch),
            timestamp_ms=timestamp_ms,
            image=loader.image,
        )
    finally:
        log.close()


def restored_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Yield the records of the snapshot, by the rules in the module's docstring.

    Raises StorageError for a partition whose epochs cannot be raised.
    """
    image = msgspec.structs.replace(
        image,
        cluster=ClusterImage(brokers=image.cluster.brokers),  # controllers register when they start
        producer_ids=max(image.producer_ids, 0) + PRODUCER_ID_JUMP,
    )
    for record in image_records(image):
        if isinstance(record, PartitionRecord):
            yield _restored_partition(record, has_elr=image.features.elr_enabled)
        elif isinstance(record, RegisterBrokerRecord):
            yield msgspec.structs.replace(record, fenced=True, in_controlled_shutdown=False)
        else:
            yield record


def _restored_partition(record: PartitionRecord, *, has_elr: bool) -> PartitionRecord:
    leader_epoch, partition_epoch = record.leader_epoch + LEADER_EPOCH_JUMP, record.partition_epoch + LEADER_EPOCH_JUMP
    if max(leader_epoch, partition_epoch) > _INT32_MAX:
        raise StorageError(
            f"Partition {record.partition_id} of topic {uuid_to_text(record.topic_id)}: epoch "
            f"{max(leader_epoch, partition_epoch)} is beyond the largest, {_INT32_MAX}."
        )
    raised = msgspec.structs.replace(
        record, leader=LEADER_NONE, leader_epoch=leader_epoch, partition_epoch=partition_epoch
    )
    if record.leader == LEADER_NONE:
        return raised
    if not has_elr:
        return msgspec.structs.replace(raised, isr=(record.leader,))
    eligible = tuple(sorted({*record.isr, *(record.eligible_leader_replicas or ())}))
    return msgspec.structs.replace(raised, isr=(), eligible_leader_replicas=eligible, last_known_elr=(record.leader,))


def restore(plan: RestorePlan) -> None:
    """Carry out the plan. The log's folder gets its name when it is complete; meta.properties is written last.

    Raises StorageError; there is no log then, and the restore can be repeated.
    """
    create_directory(plan.target)
    lock = FolderLock(plan.target)
    unfinished = plan.target / UNFINISHED
    try:
        with storage_errors("write", plan.target):
            shutil.rmtree(unfinished, ignore_errors=True)
            _write_log(plan, unfinished)
            OPERATING_SYSTEM.rename(unfinished / PARTITION_DIRECTORY, plan.target / PARTITION_DIRECTORY)
            OPERATING_SYSTEM.sync_directory(plan.target)
        if not plan.is_formatted:
            write_meta_properties(plan.target, MetaProperties(plan.cluster_id, plan.node_id, plan.directory_id))
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        lock.release()


def _write_log(plan: RestorePlan, metadata_dir: Path) -> None:
    directory = metadata_dir / PARTITION_DIRECTORY
    create_directory(directory)
    writer = SnapshotWriter(
        SnapshotStore(directory).begin, plan.snapshot_id, plan.copies[0].timestamp_ms, 1, plan.voters
    )
    try:
        for values in _values(plan.copies[0].image):
            writer.append(values)
        writer.freeze()
    finally:
        writer.close()
    QuorumStateStore(metadata_dir).write(ElectionState(leader_epoch=plan.snapshot_id.epoch), 1)


def _values(image: MetadataImage) -> Iterator[list[bytes]]:
    metadata_version = image.features.metadata_version
    assert metadata_version is not None
    records = restored_records(image)
    while values := [
        encode_record(record, record_version(type(record), metadata_version))
        for record in islice(records, RECORDS_PER_BATCH)
    ]:
        yield values
