"""Writing an image as records for a snapshot; replaying them onto the empty image gives the same metadata.

The order is Kafka's (docs/protocol.md, "Snapshots"): features, cluster, topics, configs, quotas, producer ids, ACLs,
SCRAM, tokens; each part is sorted, so that equal images give equal bytes. Metadata that the current metadata.version
cannot express is an error, since the log below a snapshot is deleted.
Source: MetadataImage.write, ImageWriterOptions of Kafka 4.3.1.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.trie_items import items_of
from kraft_core.protocol import metadata_records as records
from kraft_core.protocol.metadata_version import (
    METADATA_VERSION,
    is_controller_registration_supported,
    is_cordoned_log_dirs_supported,
    is_delegation_token_supported,
    is_directory_assignment_supported,
    is_elr_supported,
    is_migration_supported,
    is_scram_supported,
    metadata_version_name,
)
from kraft_core.protocol.uuids import DIRECTORY_MIGRATING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from kraft_core.image.acls_image import StandardAcl
    from kraft_core.image.metadata_image import (
        BrokerRegistration,
        ControllerRegistration,
        DelegationToken,
        PartitionRegistration,
        TopicsImage,
    )
    from kraft_core.protocol.metadata_records import MetadataRecord

_first: Callable[[tuple[Any, Any]], Any] = itemgetter(0)  # values are not comparable


class UnwritableMetadataError(Exception):
    """The current metadata.version cannot express some metadata. Source: UnwritableMetadataException."""

    def __init__(self, metadata_version: int, loss: str) -> None:
        super().__init__(
            f"metadata.version {metadata_version_name(metadata_version)} cannot express, and a snapshot would "
            f"lose, {loss}"
        )


def image_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Yield the records of a snapshot of `image`.

    Raises UnwritableMetadataError, possibly after some records, for metadata that the image's metadata.version cannot
    express: directories below 17, cordoned ones below 30, controllers below 15 and so on; ELR below 23 is left out.
    Raises ValueError for an image without metadata.version, unless it is empty.
    """
    version = image.features.metadata_version
    if version is None:
        if not image.same_metadata(MetadataImage.EMPTY):
            raise ValueError(f"Unknown metadata version for the image at offset {image.offset}")
        return
    _check_expressible(image, version)
    yield records.FeatureLevelRecord(name=METADATA_VERSION, feature_level=version)
    for name, level in sorted(image.features.levels.items()):
        yield records.FeatureLevelRecord(name=name, feature_level=level)
    for _, broker in sorted(image.cluster.brokers.items(), key=_first):
        yield broker_record(broker, version)
    for _, controller in sorted(image.cluster.controllers.items(), key=_first):
        yield controller_record(controller)
    yield from _topic_records(image.topics, version)
    for (resource_type, resource_name), configs in sorted(image.configs.by_resource.items(), key=_first):
        for name, value in sorted(configs.items()):
            yield records.ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
    yield from _quota_records(image)
    if image.producer_ids >= 0:
        yield records.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.producer_ids)
    yield from _security_records(image)


def _check_expressible(image: MetadataImage, version: int) -> None:
    """Check everything except brokers and partitions, which are checked one by one."""
    if len(image.cluster.controllers) and not is_controller_registration_supported(version):
        raise UnwritableMetadataError(version, "controller registration data")
    if len(image.scram) and not is_scram_supported(version):
        raise UnwritableMetadataError(version, "SCRAM credentials")
    if len(image.delegation_tokens) and not is_delegation_token_supported(version):
        raise UnwritableMetadataError(version, "delegation tokens")


def broker_record(broker: BrokerRegistration, metadata_version: int) -> records.RegisterBrokerRecord:
    """Return a broker's registration as a record. Raises UnwritableMetadataError."""
    for loss, is_lost in (
        (
            "the isMigratingZkBroker state",
            broker.is_migrating_zk_broker and not is_migration_supported(metadata_version),
        ),
        (
            "the online log directories",
            bool(broker.directories) and not is_directory_assignment_supported(metadata_version),
        ),
        (
            "the cordoned log directories",
            broker.cordoned_directories is not None and not is_cordoned_log_dirs_supported(metadata_version),
        ),
    ):
        if is_lost:
            raise UnwritableMetadataError(metadata_version, f"{loss} of one or more brokers")
    return records.RegisterBrokerRecord(
        broker_id=broker.id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=tuple(
            records.RegisterBrokerRecordBrokerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in broker.listeners
        ),
        features=tuple(
            records.RegisterBrokerRecordBrokerFeature(
                name=name, min_supported_version=levels.min, max_supported_version=levels.max
            )
            for name, levels in sorted(broker.supported_features.items(), key=_first)
        ),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.directories,
        cordoned_log_dirs=broker.cordoned_directories,
    )


def controller_record(controller: ControllerRegistration) -> records.RegisterControllerRecord:
    """Return a controller's registration as a record."""
    return records.RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=tuple(
            records.RegisterControllerRecordControllerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in controller.listeners
        ),
        features=tuple(
            records.RegisterControllerRecordControllerFeature(
                name=name, min_supported_version=levels.min, max_supported_version=levels.max
            )
            for name, levels in sorted(controller.supported_features.items(), key=_first)
        ),
    )


def partition_record(
    topic_id: UUID, index: int, partition: PartitionRegistration, metadata_version: int
) -> records.PartitionRecord:
    """Return a partition's state as a record, without an empty ELR. Raises UnwritableMetadataError."""
    with_elr = is_elr_supported(metadata_version)
    with_directories = is_directory_assignment_supported(metadata_version)
    if not with_directories and any(directory != DIRECTORY_MIGRATING for directory in partition.directories):
        raise UnwritableMetadataError(metadata_version, "the directory assignment state of one or more replicas")
    return records.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories if with_directories else (),
        eligible_leader_replicas=(partition.elr or None) if with_elr else None,
        last_known_elr=(partition.last_known_elr or None) if with_elr else None,
    )


def _topic_records(topics: TopicsImage, metadata_version: int) -> Iterator[MetadataRecord]:
    for name, topic_id in sorted(items_of(topics.by_name)):
        yield records.TopicRecord(name=name, topic_id=topic_id)
        for index, partition in topics.by_id[topic_id].sorted_partitions():
            yield partition_record(topic_id, index, partition, metadata_version)


def _quota_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    def order(entity: tuple[tuple[str, str | None], ...]) -> list[tuple[str, bool, str]]:
        return [(kind, name is not None, name or "") for kind, name in entity]

    for entity in sorted(image.client_quotas, key=order):
        parts = tuple(records.ClientQuotaRecordEntityData(entity_type=kind, entity_name=name) for kind, name in entity)
        for key, value in sorted(image.client_quotas[entity].items()):
            yield records.ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


def acl_record(acl_id: UUID, acl: StandardAcl) -> records.AccessControlEntryRecord:
    """Return an ACL as a record."""
    return records.AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def token_record(token: DelegationToken) -> records.DelegationTokenRecord:
    """Return a delegation token as a record."""
    return records.DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=token.expiration_timestamp,
        token_id=token.token_id,
    )


def _security_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    for acl_id in sorted(image.acls.by_id, key=lambda uuid: uuid.int):
        yield acl_record(acl_id, image.acls.by_id[acl_id])
    for mechanism, users in sorted(image.scram.items(), key=_first):
        for name, credential in sorted(users.items(), key=_first):
            yield records.UserScramCredentialRecord(
                name=name,
                mechanism=mechanism,
                salt=credential.salt,
                stored_key=credential.stored_key,
                server_key=credential.server_key,
                iterations=credential.iterations,
            )
    for _, token in sorted(image.delegation_tokens.items(), key=_first):
        yield token_record(token)
