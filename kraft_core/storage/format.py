"""Formatting log directories for the first start, as kafka-storage does.

Each directory gets bootstrap.checkpoint (the initial features of a new cluster) and, as the last step, meta.properties:
a directory counts as formatted only when everything else exists. The metadata directory of a dynamic quorum also gets
0-0.checkpoint with the voter set. Source: Formatter, DynamicVoters, BootstrapDirectory, StorageTool, Kafka 4.3.1.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kraft_core.protocol.control_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    encode_control_batch,
)
from kraft_core.protocol.metadata_records import (
    FeatureLevelRecord,
    MetadataRecord,
    UserScramCredentialRecord,
    encode_record,
)
from kraft_core.protocol.metadata_version import (
    BROKER_FEATURES,
    FEATURES,
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    is_scram_supported,
    metadata_version_from_text,
    metadata_version_name,
)
from kraft_core.protocol.record_batch import encode_batch
from kraft_core.protocol.uuids import is_reserved, random_uuid, uuid_from_text
from kraft_core.raft.raft_log import BOOTSTRAP_SNAPSHOT_ID
from kraft_core.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet
from kraft_core.storage.files import OPERATING_SYSTEM, FileSystem, StorageError, create_directory, write_file
from kraft_core.storage.meta_properties import MetaProperties, verify_meta_properties, write_meta_properties
from kraft_core.storage.recovery import PARTITION_DIRECTORY
from kraft_core.storage.scram_parser import parse_scram_arguments
from kraft_core.storage.snapshots import SnapshotStore

BOOTSTRAP_NAME: Final = "bootstrap.checkpoint"
_PORT_MAX: Final = 65535


class FormatError(StorageError):
    """The request cannot be carried out; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRequest:
    """The directories and options. `voters` None: a static quorum, or a node that joins later (see `is_dynamic`)."""

    node_id: int
    cluster_id: str
    log_dirs: Sequence[Path]
    metadata_log_dir: Path
    is_dynamic: bool  # no controller.quorum.voters: kraft.version 1
    has_broker_role: bool = False  # process.roles: features that this project's broker does not support stay off
    voters: VoterSet | None = None
    release_version: str | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    scram_arguments: Sequence[str] = ()  # of --add-scram
    ignore_formatted: bool = False


def parse_initial_controllers(text: str, listener_name: str) -> VoterSet:
    """Read `id@host:port:directoryId,…`; an IPv6 host is in brackets. Raises FormatError with the wrong part."""
    voters: list[VoterNode] = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        try:
            voters.append(_parse_controller(part, listener_name))
        except ValueError as error:
            raise FormatError(f"Invalid initial controller '{part}': {error}") from error
    if not voters:
        raise FormatError("No voters given.")
    try:
        return VoterSet.of(voters)
    except ValueError as error:
        raise FormatError(f"Invalid initial controllers '{text}': {error}") from error


def _parse_controller(part: str, listener_name: str) -> VoterNode:
    node_text, at, rest = part.partition("@")
    address, colon, directory_text = rest.rpartition(":")
    host, colon_before_port, port_text = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not at or not colon or not colon_before_port or not host:
        raise ValueError("it must be id@host:port:directoryId")
    if not node_text.isdecimal():
        raise ValueError(f"'{node_text}' is no node id")
    if not port_text.isdecimal() or int(port_text) > _PORT_MAX:
        raise ValueError(f"'{port_text}' is no port")
    directory_id = uuid_from_text(directory_text)
    if is_reserved(directory_id):
        raise ValueError(f"'{directory_text}' is a reserved directory id")
    return VoterNode(
        ReplicaKey(int(node_text), directory_id), (Endpoint(listener_name.upper(), host, int(port_text)),), 0, 1
    )


def standalone_voters(node_id: int, host: str, port: int, listener_name: str) -> VoterSet:
    """Return a quorum of one voter with a random directory id; an empty host becomes localhost."""
    endpoint = Endpoint(listener_name.upper(), host or "localhost", port)
    return VoterSet.of([VoterNode(ReplicaKey(node_id, random_uuid()), (endpoint,), 0, 1)])


def effective_features(request: FormatRequest) -> dict[str, int]:
    """Return the level of every feature, with the release's defaults.

    Raises FormatError for an unknown feature or level, a level that needs a newer metadata.version, or a kraft.version
    that does not fit the kind of quorum.
    """
    features = dict(request.features)
    if METADATA_VERSION in features and request.release_version is not None:
        raise FormatError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    try:
        release = (
            metadata_version_from_text(request.release_version)
            if request.release_version is not None
            else features.get(METADATA_VERSION, LATEST_METADATA_VERSION)
        )
    except ValueError as error:
        raise FormatError(str(error)) from error
    features[METADATA_VERSION] = metadata_version = int(release)
    for name in features:
        if name not in FEATURES:
            raise FormatError(f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(FEATURES))}")
    kraft_version = features.setdefault(KRAFT_VERSION, int(request.is_dynamic))
    if kraft_version == 0 and request.is_dynamic:
        raise FormatError(
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags --standalone, "
            "--initial-controllers, or --no-initial-controllers is used."
        )
    if kraft_version > 0 and not request.is_dynamic:
        raise FormatError(
            f"Cannot set kraft.version to {kraft_version} unless controller.quorum.voters is empty and one of the "
            "flags "
            "--standalone, --initial-controllers, or --no-initial-controllers is used."
        )
    for name, feature in FEATURES.items():
        if request.has_broker_role and name not in BROKER_FEATURES:
            if features.setdefault(name, 0):
                raise FormatError(
                    f"{name} could not be set to {features[name]} because the broker of this node does not support it; "
                    "allowed is 0."
                )
            continue
        level = features.setdefault(name, feature.default_level(metadata_version))
        if not feature.minimum <= level <= feature.maximum:
            raise FormatError(
                f"No feature:{name} with feature level {level}: supported are {feature.minimum} to {feature.maximum}."
            )
        if name != METADATA_VERSION and level > feature.minimum:
            needed = feature.needs_metadata_version[level - feature.minimum - 1]
            if metadata_version < needed:
                raise FormatError(
                    f"{name} could not be set to {level} because it depends on metadata.version level {needed}"
                )
    return features


def format_storage(request: FormatRequest, report: Callable[[str], None], files: FileSystem = OPERATING_SYSTEM) -> None:
    """Format every directory that is not formatted yet; `report` gets one line for each.

    Raises StorageError for a directory that is already formatted (unless `ignore_formatted`), belongs to another node
    or cluster, or cannot be written.
    """
    if not request.cluster_id.strip():
        raise FormatError("You must specify the cluster id.")
    features = effective_features(request)
    scram_records = _scram_records(request, features)
    every = list(dict.fromkeys([*request.log_dirs, request.metadata_log_dir]))
    formatted = verify_meta_properties(every, request.node_id, request.cluster_id, files)
    if formatted and not request.ignore_formatted:
        raise FormatError(
            f"Log directory {next(iter(formatted))} is already formatted. Use --ignore-formatted to ignore this "
            "directory "
            "and format the others."
        )
    empty = [log_dir for log_dir in every if log_dir not in formatted]
    if not empty:
        report("All of the log directories are already formatted.")
    for log_dir in empty:
        is_metadata = log_dir == request.metadata_log_dir
        voter = request.voters.by_id.get(request.node_id) if is_metadata and request.voters is not None else None
        kind = _kind(request, is_metadata=is_metadata, is_voter=voter is not None)
        report(
            f"Formatting {kind} {log_dir} with metadata.version {metadata_version_name(features[METADATA_VERSION])}."
        )
        create_directory(log_dir, files)
        write_file(
            log_dir / BOOTSTRAP_NAME, _bootstrap_checkpoint([*bootstrap_records(features), *scram_records]), files
        )
        if is_metadata and request.voters is not None:
            _write_voters(log_dir / PARTITION_DIRECTORY, request.voters, features[KRAFT_VERSION], files)
        directory_id = voter.key.directory_id if voter is not None else random_uuid()
        write_meta_properties(log_dir, MetaProperties(request.cluster_id, request.node_id, directory_id), files)


def _kind(request: FormatRequest, *, is_metadata: bool, is_voter: bool) -> str:
    if not is_metadata:
        return "data directory"
    if request.voters is None:
        return "metadata directory"
    return "dynamic metadata voter directory" if is_voter else "dynamic metadata directory"


def bootstrap_records(features: Mapping[str, int]) -> list[FeatureLevelRecord]:
    """Return the initial records of a new cluster: metadata.version first, then features above level 0 by name."""
    others = sorted(name for name, level in features.items() if name not in {METADATA_VERSION, KRAFT_VERSION} and level)
    return [FeatureLevelRecord(name=name, feature_level=features[name]) for name in (METADATA_VERSION, *others)]


def _scram_records(request: FormatRequest, features: Mapping[str, int]) -> list[UserScramCredentialRecord]:
    """Return the initial SCRAM credentials. Raises FormatError below metadata.version 11, ScramArgumentError."""
    if request.scram_arguments and not is_scram_supported(features[METADATA_VERSION]):
        raise FormatError(f"SCRAM is only supported in {METADATA_VERSION} 3.5-IV2 or later.")
    return parse_scram_arguments(request.scram_arguments)


def _bootstrap_checkpoint(records: Sequence[MetadataRecord]) -> bytes:
    values = [encode_record(record, 0) for record in records]
    footer_offset = 1 + len(values)
    return (
        encode_control_batch(0, 0, 0, [SnapshotHeaderRecord()])
        + encode_batch(1, 0, 0, values)
        + encode_control_batch(footer_offset, 0, 0, [SnapshotFooterRecord()])
    )


def _write_voters(directory: Path, voters: VoterSet, kraft_version: int, files: FileSystem) -> None:
    """Write 0-0.checkpoint: the voter set before the first record of the log."""
    now_ms = time.time_ns() // 1_000_000
    create_directory(directory, files)
    sink = SnapshotStore(directory, files).begin(BOOTSTRAP_SNAPSHOT_ID)
    header = SnapshotHeaderRecord(last_contained_log_timestamp=now_ms)
    version = KRaftVersionRecord(kraft_version=kraft_version)
    sink.append(encode_control_batch(0, 0, now_ms, [header, version, voters.to_record()]))
    sink.append(encode_control_batch(3, 0, now_ms, [SnapshotFooterRecord()]))
    sink.freeze()
