"""Kafka's small text files beside the logs: checkpoints, partition.metadata and the clean-shutdown mark.

A checkpoint is line "0", the count of entries, one entry a line. Every file is written beside its place, synced and renamed over it, so a
crash leaves the old or the new one whole.

Source: CheckpointFile, LeaderEpochCheckpointFile, OffsetCheckpointFile, PartitionMetadataFile, CleanShutdownFileHandler, Kafka 4.3.1.
"""

import contextlib
import json
import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from kraft_core.protocol.uuids import uuid_from_text, uuid_to_text

PARTITION_METADATA: Final = "partition.metadata"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"


class CorruptCheckpointError(Exception):
    """A checkpoint file that does not read as one; names the file and the line."""


def write_atomically(path: Path, text: str, *, sync: bool = True) -> None:
    """Replace a file as a whole; with `sync` the new content is on disk before the name points to it.

    Raises OSError; the old file then stays, and what was written of the new one is removed.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def read_checkpoint(path: Path) -> list[list[str]]:
    """The words of each entry; empty when there is no file. Raises CorruptCheckpointError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    if not lines or lines[0].strip() != "0":
        raise CorruptCheckpointError(f"{path} does not begin with version 0")
    if len(lines) < 2 or not lines[1].strip().isdecimal() or int(lines[1]) != len(lines) - 2:
        raise CorruptCheckpointError(f"{path} announces another count of entries than the {len(lines) - 2} it has")
    return [line.split() for line in lines[2:]]


def write_checkpoint(path: Path, entries: Iterable[str], *, sync: bool = True) -> None:
    """Write entries, each one line of words."""
    lines = list(entries)
    write_atomically(path, "\n".join(["0", str(len(lines)), *lines]) + "\n", sync=sync)


def read_offsets(path: Path) -> dict[tuple[str, int], int]:
    """Offsets by (topic, partition). Raises CorruptCheckpointError."""
    offsets = {}
    for words in read_checkpoint(path):
        try:
            topic, partition, offset = words
            offsets[topic, int(partition)] = int(offset)
        except ValueError:
            raise CorruptCheckpointError(f"{path} has the entry {' '.join(words)!r}") from None
    return offsets


def write_offsets(path: Path, offsets: Mapping[tuple[str, int], int]) -> None:
    """Write offsets by (topic, partition)."""
    write_checkpoint(path, (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()))


def read_topic_id(directory: Path) -> uuid.UUID | None:
    """The topic id of a partition folder, None when the file is missing. Raises CorruptCheckpointError."""
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
    """Write partition.metadata."""
    write_atomically(directory / PARTITION_METADATA, f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n")


def read_clean_shutdown(directory: Path) -> int | None:
    """Return the broker epoch of the mark of a clean shutdown (-1 when it names none), None without a mark. Raises OSError."""
    try:
        text = (directory / CLEAN_SHUTDOWN).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return int(json.loads(text).get("brokerEpoch", -1))
    except (ValueError, AttributeError, TypeError):
        return -1


def take_clean_shutdown(directory: Path) -> bool:
    """Delete the mark of a clean shutdown, durably, and say whether there was one. Raises OSError."""
    try:
        (directory / CLEAN_SHUTDOWN).unlink()
    except FileNotFoundError:
        return False
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return True


def write_clean_shutdown(directory: Path, broker_epoch: int) -> None:
    """Leave the mark that every log of this folder is flushed and closed."""
    write_atomically(directory / CLEAN_SHUTDOWN, json.dumps({"version": 0, "brokerEpoch": broker_epoch}))
