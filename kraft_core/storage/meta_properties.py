"""meta.properties: the cluster, node and directory id of a log directory.

The error texts are Kafka's, since operators search for them. Source: MetaProperties, MetaPropertiesEnsemble, Kafka
4.3.1.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from uuid import UUID

from kraft_core.protocol.uuids import is_reserved, random_uuid, uuid_from_text, uuid_to_text
from kraft_core.storage.files import (
    OPERATING_SYSTEM,
    FileSystem,
    StorageError,
    create_directory,
    read_file,
    storage_errors,
    write_file,
)
from kraft_core.storage.properties import format_properties, parse_properties

log = logging.getLogger(__name__)

FILE_NAME: Final = "meta.properties"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content of one file. `directory_id` None: written by a version without directory ids."""

    cluster_id: str
    node_id: int
    directory_id: UUID | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a file's text, version 0 or 1. Raises ValueError in Kafka's words."""
        properties = parse_properties(text)
        version = properties.get("version", "0").strip()
        if not version.isdecimal():
            raise ValueError(f"Invalid meta.properties version string '{version}'")
        if int(version) > VERSION:
            raise ValueError(f"Found unexpected version: Unknown meta.properties version number {version}")
        node_text = properties.get("node.id", properties.get("broker.id") if version == "0" else None)
        if node_text is None:
            raise ValueError("node ID not found" if version == "0" else "Failed to find node.id")
        if "cluster.id" not in properties:
            raise ValueError("cluster.id was not found.")
        try:
            node_id = int(node_text)
        except ValueError:
            raise ValueError(f"Unable to read node.id as a base-10 number: {node_text!r}") from None
        directory_text = properties.get("directory.id")
        try:
            directory_id = None if directory_text is None else uuid_from_text(directory_text)
        except ValueError as error:
            raise ValueError(f"Unable to read directory.id as a Uuid: {error}") from error
        return cls(properties["cluster.id"], node_id, directory_id)

    def text(self) -> str:
        """Return the file's text, version 1."""
        properties = {"version": str(VERSION), "cluster.id": self.cluster_id, "node.id": str(self.node_id)}
        if self.directory_id is not None:
            properties["directory.id"] = uuid_to_text(self.directory_id)
        return format_properties(properties)


def read_meta_properties(log_dir: Path, files: FileSystem = OPERATING_SYSTEM) -> MetaProperties | None:
    """Read the file of a log directory; None when it does not exist. Raises StorageError."""
    path = log_dir / FILE_NAME
    with storage_errors("read", path):
        try:
            raw = read_file(path, files)
        except FileNotFoundError:
            return None
    try:
        return MetaProperties.parse(raw.decode("latin-1"))  # as Java reads such a file
    except ValueError as error:
        raise StorageError(f"Error while reading meta.properties file {path}: {error}") from error


def write_meta_properties(log_dir: Path, properties: MetaProperties, files: FileSystem = OPERATING_SYSTEM) -> None:
    """Write the file of a log directory durably. Raises StorageError."""
    write_file(log_dir / FILE_NAME, properties.text().encode(), files)


def verify_meta_properties(
    log_dirs: Sequence[Path],
    expected_node_id: int,
    expected_cluster_id: str | None = None,
    files: FileSystem = OPERATING_SYSTEM,
) -> dict[Path, MetaProperties]:
    """Read the files of all log directories, check that they belong together, and return those that exist.

    Raises StorageError for an unreadable file, another node or cluster, a reserved or duplicate directory id.
    """
    found: dict[Path, MetaProperties] = {}
    seen: dict[UUID, Path] = {}
    for log_dir in log_dirs:
        properties = read_meta_properties(log_dir, files)
        if properties is None:
            continue
        path = log_dir / FILE_NAME
        expected_cluster_id = expected_cluster_id or properties.cluster_id
        if properties.cluster_id != expected_cluster_id:
            raise StorageError(
                f"Invalid cluster.id in: {path}. Expected {expected_cluster_id}, but read {properties.cluster_id}"
            )
        if properties.node_id != expected_node_id:
            raise StorageError(
                f"Stored node id {properties.node_id} doesn't match previous node id {expected_node_id} in {path}. "
                "If you "
                "moved your data, make sure your configured node id matches. If you intend to create a new node, you "
                "should remove all data in your data directories."
            )
        directory_id = properties.directory_id
        if directory_id is not None:
            if is_reserved(directory_id):
                raise StorageError(f"Invalid reserved directory ID {uuid_to_text(directory_id)} found in {log_dir}")
            if directory_id in seen:
                raise StorageError(
                    f"Duplicate directory ID {uuid_to_text(directory_id)} found. It was the ID of "
                    f"{seen[directory_id]}, "
                    f"but also of {log_dir}"
                )
            seen[directory_id] = log_dir
        found[log_dir] = properties
    return found


def load_meta_properties(
    log_dirs: Sequence[Path], metadata_log_dir: Path, node_id: int, files: FileSystem = OPERATING_SYSTEM
) -> dict[Path, MetaProperties]:
    """Read and check the files of all log directories at a node's start, adding missing directory ids.

    `metadata_log_dir` counts as one of `log_dirs`. A directory without the file gets the cluster id of the others, but
    not the metadata directory: its log may be lost. Raises StorageError.
    """
    every = list(dict.fromkeys([*log_dirs, metadata_log_dir]))
    found = verify_meta_properties(every, node_id, files=files)
    if metadata_log_dir not in found:
        raise StorageError(
            "No readable meta.properties files found."
            f" {metadata_log_dir} is not formatted: run `conclave format` with this configuration first."
        )
    cluster_id = found[metadata_log_dir].cluster_id
    for log_dir in every:
        properties = found.get(log_dir)
        if properties is None or properties.directory_id is None:
            if log_dir == metadata_log_dir:
                log.error("directory_id_generated", extra={"log_dir": str(log_dir), "consequence": "not a voter"})
            found[log_dir] = MetaProperties(cluster_id, node_id, random_uuid())
            create_directory(log_dir, files)
            write_meta_properties(log_dir, found[log_dir], files)
    return found
