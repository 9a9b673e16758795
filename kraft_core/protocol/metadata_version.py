"""metadata.version and the other features: their levels, what each level enables, and record versions.

A cluster's finalized metadata.version determines the records and record versions that can be written to the log, since
every node must be able to read them. Levels of 4.3.1: 7 (3.3-IV3) to 30 (4.3-IV0).

Source: MetadataVersion.java and Feature.java, Kafka 4.3.1; KIP-584, KIP-778, KIP-1022.
"""

from enum import IntEnum
from typing import Final, NamedTuple, Self

from kraft_core.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"


class MetadataVersion(IntEnum):
    """Levels of metadata.version. `changes_metadata` marks those that changed the log's records."""

    _value_: int
    version: str
    changes_metadata: bool

    def __new__(cls, level: int, version: str = "", changes_metadata: bool = False) -> Self:
        """Create a member with the number of the feature level."""
        member = int.__new__(cls, level)
        member._value_ = level
        member.version = version
        member.changes_metadata = changes_metadata
        return member

    IBP_3_3_IV3 = 7, "3.3-IV3", True
    IBP_3_4_IV0 = 8, "3.4-IV0", True
    IBP_3_5_IV0 = 9, "3.5-IV0", False
    IBP_3_5_IV1 = 10, "3.5-IV1", False
    IBP_3_5_IV2 = 11, "3.5-IV2", True
    IBP_3_6_IV0 = 12, "3.6-IV0", False
    IBP_3_6_IV1 = 13, "3.6-IV1", True
    IBP_3_6_IV2 = 14, "3.6-IV2", True
    IBP_3_7_IV0 = 15, "3.7-IV0", True
    IBP_3_7_IV1 = 16, "3.7-IV1", False
    IBP_3_7_IV2 = 17, "3.7-IV2", True
    IBP_3_7_IV3 = 18, "3.7-IV3", False
    IBP_3_7_IV4 = 19, "3.7-IV4", False
    IBP_3_8_IV0 = 20, "3.8-IV0", False
    IBP_3_9_IV0 = 21, "3.9-IV0", False
    IBP_4_0_IV0 = 22, "4.0-IV0", False
    IBP_4_0_IV1 = 23, "4.0-IV1", True
    IBP_4_0_IV2 = 24, "4.0-IV2", False
    IBP_4_0_IV3 = 25, "4.0-IV3", False
    IBP_4_1_IV0 = 26, "4.1-IV0", False
    IBP_4_1_IV1 = 27, "4.1-IV1", False
    IBP_4_2_IV0 = 28, "4.2-IV0", False
    IBP_4_2_IV1 = 29, "4.2-IV1", False
    IBP_4_3_IV0 = 30, "4.3-IV0", True

    @property
    def release(self) -> str:
        """The Kafka release of the level, such as `4.3`."""
        return self.version.partition("-")[0]


MINIMUM_METADATA_VERSION: Final = MetadataVersion.IBP_3_3_IV3
LATEST_METADATA_VERSION: Final = MetadataVersion.IBP_4_3_IV0


class Feature(NamedTuple):
    """A feature that brokers and controllers negotiate; levels `minimum` to `maximum` are supported."""

    name: str
    minimum: int
    maximum: int
    bootstrap_metadata_versions: tuple[int, ...]
    """For level minimum + 1, + 2, …: the metadata.version from which a new cluster starts with that level."""
    needs_metadata_version: tuple[int, ...]
    """For level minimum + 1, + 2, …: the metadata.version that the level requires."""

    def default_level(self, metadata_version: int) -> int:
        """Return the feature's level in a newly formatted cluster with this metadata.version."""
        return self.minimum + sum(needed <= metadata_version for needed in self.bootstrap_metadata_versions)


FEATURES: Final[dict[str, Feature]] = {
    feature.name: feature
    for feature in (
        Feature(ELIGIBLE_LEADER_REPLICAS_VERSION, 0, 1, (26,), (23,)),
        Feature(GROUP_VERSION, 0, 1, (22,), (7,)),
        Feature(KRAFT_VERSION, 0, 1, (21,), (7,)),
        Feature(METADATA_VERSION, 7, 30, tuple(range(8, 31)), tuple(range(8, 31))),
        Feature(SHARE_VERSION, 0, 1, (28,), (7,)),
        Feature(STREAMS_VERSION, 0, 1, (29,), (7,)),
        Feature(TRANSACTION_VERSION, 0, 2, (24, 24), (7, 7)),
    )
}
"""All features of 4.3.1 by name. kraft.version is in control records, never in FeatureLevelRecord; its initial level
is 1 for dynamic voters and 0 for static ones, independent of the table."""

_NOT_SERVED_BY_OUR_BROKER: Final = frozenset({GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION, TRANSACTION_VERSION})

BROKER_FEATURES: Final[dict[str, Feature]] = {
    name: feature for name, feature in FEATURES.items() if name not in _NOT_SERVED_BY_OUR_BROKER
}
"""The features that this project's broker supports: it has no transactions, share groups or streams groups.
The others stay at level 0 in its cluster."""


def metadata_version_from_text(text: str) -> MetadataVersion:
    """Parse `4.3-IV0`, a release (`4.3` or `4.3.1`, which means its newest level), or a level (`30`).

    Raises ValueError with the text and the known levels.
    """
    if text.isdecimal() and int(text) in MetadataVersion.__members__.values():
        return MetadataVersion(int(text))
    wanted = ".".join(text.split(".")[:2])
    for member in reversed(MetadataVersion):
        if wanted in {member.version, member.release}:
            return member
    first, last = MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION
    raise ValueError(f"Unknown metadata.version {text!r}; known are {first.version} to {last.version}")


def metadata_version_name(level: int) -> str:
    """Return a level's name such as `4.3-IV0`; the number for an unknown level."""
    try:
        return MetadataVersion(level).version
    except ValueError:
        return str(level)


def did_metadata_change(source: int, target: int) -> bool:
    """Return whether records changed between two levels, so that a downgrade would lose data."""
    low, high = sorted((source, target))
    return any(member.changes_metadata for member in MetadataVersion if low < member <= high)


def is_leader_epoch_bump_required_on_isr_shrink(metadata_version: int) -> bool:
    """Return whether removing a replica from the ISR raises the leader epoch (KAFKA-15021)."""
    return metadata_version < MetadataVersion.IBP_3_6_IV0


def is_metadata_transaction_supported(metadata_version: int) -> bool:
    """Return whether Begin-, End- and AbortTransactionRecord can be written."""
    return metadata_version >= MetadataVersion.IBP_3_6_IV1


def is_scram_supported(metadata_version: int) -> bool:
    """Return whether SCRAM credentials can be recorded (KIP-900)."""
    return metadata_version >= MetadataVersion.IBP_3_5_IV2


def is_delegation_token_supported(metadata_version: int) -> bool:
    """Return whether delegation tokens can be recorded (KIP-48)."""
    return metadata_version >= MetadataVersion.IBP_3_6_IV2


def is_controller_registration_supported(metadata_version: int) -> bool:
    """Return whether RegisterControllerRecord can be written."""
    return metadata_version >= MetadataVersion.IBP_3_7_IV0


def is_directory_assignment_supported(metadata_version: int) -> bool:
    """Return whether directories of brokers and replicas are recorded (KIP-858)."""
    return metadata_version >= MetadataVersion.IBP_3_7_IV2


def is_elr_supported(metadata_version: int) -> bool:
    """Return whether eligible leader replicas can be recorded (KIP-966)."""
    return metadata_version >= MetadataVersion.IBP_4_0_IV1


def is_migration_supported(metadata_version: int) -> bool:
    """Return whether records contain the state of a migration from ZooKeeper."""
    return metadata_version >= MetadataVersion.IBP_3_4_IV0


def is_cordoned_log_dirs_supported(metadata_version: int) -> bool:
    """Return whether cordoned directories of brokers are recorded (KIP-1066)."""
    return metadata_version >= MetadataVersion.IBP_4_3_IV0


def register_broker_record_version(metadata_version: int) -> int:
    """Return the version of RegisterBrokerRecord to write."""
    if is_cordoned_log_dirs_supported(metadata_version):
        return 4
    if is_directory_assignment_supported(metadata_version):
        return 3
    return 2 if is_migration_supported(metadata_version) else 1


def partition_record_version(metadata_version: int) -> int:
    """Return the version of PartitionRecord and PartitionChangeRecord to write."""
    if is_elr_supported(metadata_version):
        return 2
    return 1 if is_directory_assignment_supported(metadata_version) else 0


def broker_registration_change_record_version(record: BrokerRegistrationChangeRecord) -> int:
    """Return the lowest version with all fields that the record sets, which is the one Kafka writes."""
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    return 1 if record.in_controlled_shutdown else 0


def _newest_broker_registration_change_version(metadata_version: int) -> int:
    if is_cordoned_log_dirs_supported(metadata_version):
        return 3
    return 2 if is_directory_assignment_supported(metadata_version) else 1


def record_version(record_type: type[MetadataRecord], metadata_version: int) -> int:
    """Return the version of a record type at this metadata.version.

    For BrokerRegistrationChangeRecord it is the newest one allowed; `version_to_write` returns Kafka's choice for a
    given record.
    """
    if record_type is PartitionRecord or record_type is PartitionChangeRecord:
        return partition_record_version(metadata_version)
    if record_type is RegisterBrokerRecord:
        return register_broker_record_version(metadata_version)
    if record_type is BrokerRegistrationChangeRecord:
        return _newest_broker_registration_change_version(metadata_version)
    return 0


def version_to_write(record: MetadataRecord, metadata_version: int) -> int:
    """Return the version in which Kafka writes this record at this metadata.version."""
    if isinstance(record, BrokerRegistrationChangeRecord):
        return broker_registration_change_record_version(record)
    return record_version(type(record), metadata_version)
