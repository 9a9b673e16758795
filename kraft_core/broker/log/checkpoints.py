"""Kafka's small text files in log directories: checkpoints, partition.metadata and the clean-shutdown file.

A checkpoint has the line "0", the number of entries, and one entry per line. Every file is replaced as a whole, so that
after a crash either the old or the new one is complete.

Source: CheckpointFile, LeaderEpochCheckpointFile, OffsetCheckpointFile, PartitionMetadataFile,
CleanShutdownFileHandler, Kafka 4.3.1.
"""

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kraft_core.protocol.uuids import uuid_from_text, uuid_to_text
from kraft_core.storage.files import OPERATING_SYSTEM, Sync, replace_file
from kraft_core.storage.leader_epochs import CHECKPOINT_NAME, LeaderEpochs

PARTITION_METADATA: Final = "partition.metadata"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"


class CorruptCheckpointError(Exception):
    """A malformed file; the message names the file and the line."""


def read_checkpoint(path: Path) -> list[list[str]]:
    """Return the words of each entry; none if there is no file. Raises CorruptCheckpointError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    if not lines or lines[0].strip() != "0":
        raise CorruptCheckpointError(f"{path} does not begin with version 0")
    if len(lines) < 2 or not lines[1].strip().isdecimal() or int(lines[1]) != len(lines) - 2:
        raise CorruptCheckpointError(f"{path} announces another count of entries than the {len(lines) - 2} it has")
    return [line.split() for line in lines[2:]]


def read_offsets(path: Path) -> dict[tuple[str, int], int]:
    """Return offsets by (topic, partition). Raises CorruptCheckpointError."""
    offsets = {}
    for words in read_checkpoint(path):
        try:
            topic, partition, offset = words
            offsets[topic, int(partition)] = int(offset)
        except ValueError:
            raise CorruptCheckpointError(f"{path} has the entry {' '.join(words)!r}") from None
    return offsets


def write_offsets(path: Path, offsets: Mapping[tuple[str, int], int]) -> None:
    """Write offsets by (topic, partition). Raises OSError."""
    lines = ["0", str(len(offsets)), *(f"{topic} {number} {offset}" for (topic, number), offset in offsets.items())]
    replace_file(path, ("\n".join(lines) + "\n").encode())


def read_leader_epochs(directory: Path) -> LeaderEpochs:
    """Read the leader epochs of a partition folder; empty when there is no file. Raises CorruptCheckpointError."""
    path = directory / CHECKPOINT_NAME
    entries = []
    for words in read_checkpoint(path):
        try:
            epoch, offset = (int(word) for word in words)
        except ValueError:
            raise CorruptCheckpointError(f"{path} has the entry {' '.join(words)!r}") from None
        entries.append((epoch, offset))
    return LeaderEpochs(entries)


def write_leader_epochs(directory: Path, epochs: LeaderEpochs) -> None:
    """Write the leader epochs of a partition folder, without a sync: batches contain them too. Raises OSError."""
    replace_file(directory / CHECKPOINT_NAME, epochs.checkpoint_text().encode(), sync=Sync.NONE)


def read_topic_id(directory: Path) -> uuid.UUID | None:
    """Return the topic id of a partition's folder, None if the file is missing. Raises CorruptCheckpointError."""
    path = directory / PARTITION_METADATA
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        if fields["version"] != "0":
            raise CorruptCheckpointError(f"{path} has version {fields['version']}, known is 0")
        return uuid_from_text(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise CorruptCheckpointError(f"{path} names no topic id: {error}") from None


def write_topic_id(directory: Path, topic_id: uuid.UUID) -> None:
    """Write partition.metadata. Raises OSError."""
    text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n"
    replace_file(directory / PARTITION_METADATA, text.encode(), sync=Sync.BYTES)


def read_clean_shutdown(directory: Path) -> int | None:
    """Return the broker epoch in the clean-shutdown file.

    The epoch is -1 if the file does not contain one, None if there is no file. Raises OSError.
    """
    try:
        text = (directory / CLEAN_SHUTDOWN).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return int(json.loads(text).get("brokerEpoch", -1))
    except (ValueError, AttributeError, TypeError):
        return -1


def take_clean_shutdown(directory: Path) -> bool:
    """Delete the clean-shutdown file durably, and return whether there was one. Raises OSError."""
    try:
        (directory / CLEAN_SHUTDOWN).unlink()
    except FileNotFoundError:
        return False
    OPERATING_SYSTEM.sync_directory(directory)
    return True


def write_clean_shutdown(directory: Path, broker_epoch: int) -> None:
    """Write the clean-shutdown file: every log of this directory is flushed and closed. Raises OSError."""
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch})
    replace_file(directory / CLEAN_SHUTDOWN, text.encode())
