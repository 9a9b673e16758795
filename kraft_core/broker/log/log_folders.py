"""Which folders in the log directories are logs of the broker, according to complete metadata.

Rules, for each partition by topic id:

1. The folder of a partition that the metadata assign to this broker is kept.
2. Of several folders of one partition, the one in service with the most records is kept; if none in service has
   records, the set-aside one with the most records is restored.
3. Every other folder is set aside: renamed to `<topic>-<partition>.<unique>-stray`, never deleted.

Source: LogManager.loadLog and isStrayReplica, Kafka 4.3.1. Apache neither restores a log nor starts with two folders of
one partition.
"""

import logging
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kraft_core.broker.caught_up_image import CaughtUpImage
from kraft_core.broker.log.checkpoints import read_topic_id
from kraft_core.broker.log.file_records import scan_headers
from kraft_core.broker.log.log_directory import LogDirectory
from kraft_core.broker.log.log_file_utils import LOG_SUFFIX, base_offsets, file_name
from kraft_core.protocol.internal_topics import METADATA_TOPIC

log = logging.getLogger(__name__)

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
_NAME_BYTES_MAX: Final = 255  # a limit of file systems
_PARTITION_FOLDER: Final = re.compile(r"^(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)$")
_STRAY_FOLDER: Final = re.compile(r"^(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)\.[0-9a-f]{32}-stray$")


class FolderError(OSError):
    """A partition's folder cannot be read or renamed; `folder` is its path."""

    def __init__(self, folder: Path, cause: OSError) -> None:
        super().__init__(cause.errno, cause.strerror, str(folder))
        self.folder = folder


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """A folder with a partition's segments.

    `topic` is shortened if the name of a set-aside folder would be too long.
    """

    path: Path
    directory_id: uuid.UUID
    topic: str
    partition: int
    topic_id: uuid.UUID | None
    is_stray: bool

    def is_named_after(self, topic: str) -> bool:
        """Return whether the folder's name can be that of a log of `topic`."""
        return self.topic == topic or (len(self.path.name) == _NAME_BYTES_MAX and topic.startswith(self.topic))


@dataclass(frozen=True, slots=True)
class Kept:
    """A folder that becomes a partition's log.

    A set-aside one is renamed to `path`, replacing the folder `instead_of`.
    """

    folder: PartitionFolder
    topic: str
    path: Path
    instead_of: Path | None = None


@dataclass(slots=True)
class FolderPlan:
    """The fate of each folder. `not_restored` are set-aside folders with records whose log has records too."""

    kept: list[Kept] = field(default_factory=list)
    set_aside: list[tuple[PartitionFolder, str]] = field(default_factory=list)
    not_restored: list[tuple[PartitionFolder, Path]] = field(default_factory=list)


def sort_folders(
    directories: Sequence[LogDirectory], image: CaughtUpImage
) -> tuple[list[Kept], dict[LogDirectory, OSError]]:
    """Delete folders marked for deletion, set aside and restore folders by the rules.

    Return the logs to open, and the error of each directory that failed; the rules are applied without those
    directories.
    """
    failed: dict[LogDirectory, OSError] = {}
    while True:
        folders: list[PartitionFolder] = []
        for directory in directories:
            if directory in failed:
                continue
            try:
                for deleted in directory.path.glob("*" + DELETE_SUFFIX):
                    delete_folder(deleted)
                folders += list(find_folders(directory.path, directory.directory_id))
            except OSError as error:
                failed[directory] = error
        try:
            plan = plan_folders(folders, image)
            apply_plan(plan)
        except FolderError as error:
            failed[next(each for each in directories if each.path == error.folder.parent)] = error
        else:
            return plan.kept, failed


def find_folders(path: Path, directory_id: uuid.UUID) -> Iterator[PartitionFolder]:
    """Yield the partitions' folders of one log directory, by name. Raises OSError, CorruptCheckpointError."""
    for folder in sorted(path.iterdir()):
        in_service, stray = _PARTITION_FOLDER.match(folder.name), _STRAY_FOLDER.match(folder.name)
        found = in_service or stray
        if found is None or not folder.is_dir() or found["topic"] == METADATA_TOPIC:
            continue
        yield PartitionFolder(
            folder, directory_id, found["topic"], int(found["partition"]), read_topic_id(folder), in_service is None
        )


def log_end(folder: Path) -> int:
    """Return the offset after the last complete batch of a folder, 0 if it never had one. Raises FolderError."""
    bases = base_offsets(folder)
    if not bases:
        return 0
    end = bases[-1]
    try:
        with (folder / file_name(end, LOG_SUFFIX)).open("rb") as file:
            for _, header in scan_headers(file.fileno(), 0, os.fstat(file.fileno()).st_size):
                end = header.last_offset + 1
    except OSError as error:
        raise FolderError(folder, error) from error
    return end


def plan_folders(folders: Iterable[PartitionFolder], image: CaughtUpImage) -> FolderPlan:
    """Apply the rules to all folders of all log directories.

    Raises FolderError: logs are read where several folders claim the same partition.
    """
    plan = FolderPlan()
    claims: dict[tuple[uuid.UUID, int], list[PartitionFolder]] = {}
    for folder in folders:
        topic = None if folder.topic_id is None else image.topic(folder.topic_id)
        is_assigned = folder.topic_id is not None and image.assignment(folder.topic_id, folder.partition) is not None
        if is_assigned and topic is not None and folder.is_named_after(topic.name):
            claims.setdefault((topic.id, folder.partition), []).append(folder)
        elif not folder.is_stray:
            plan.set_aside.append((folder, image.reason_unassigned(folder.topic_id, folder.partition)))
    for (topic_id, partition), claimants in claims.items():
        _choose(plan, image, topic_id, partition, claimants)
    return plan


def _choose(
    plan: FolderPlan,
    image: CaughtUpImage,
    topic_id: uuid.UUID,
    partition: int,
    claimants: Sequence[PartitionFolder],
) -> None:
    """Choose the folder of one partition among those that claim it."""
    topic, registration = image.topic(topic_id), image.assignment(topic_id, partition)
    assert topic is not None
    assert registration is not None
    ends = {each.path: log_end(each.path) for each in claimants} if len(claimants) > 1 or claimants[0].is_stray else {}
    assigned_to = registration.directory(image.broker_id)

    def worth(folder: PartitionFolder) -> tuple[bool, int, bool, bool]:
        end = ends.get(folder.path, 0)
        return end > 0 and not folder.is_stray, end, not folder.is_stray, folder.directory_id == assigned_to

    chosen = max(claimants, key=worth)
    if chosen.is_stray and not ends[chosen.path]:
        return  # only empty folders that were set aside before
    path = chosen.path.with_name(f"{topic.name}-{partition}")
    in_service = [each for each in claimants if not each.is_stray and each is not chosen]
    replaced = next((each.path for each in in_service if chosen.is_stray), None)
    plan.kept.append(Kept(chosen, topic.name, path, replaced))
    plan.set_aside += [(each, f"{chosen.path} is the log of the same partition that is kept") for each in in_service]
    plan.not_restored += [
        (each, path) for each in claimants if each.is_stray and each is not chosen and ends[each.path]
    ]


def apply_plan(plan: FolderPlan) -> None:
    """Rename the folders as planned and log it. After a FolderError the rest can be planned again."""
    replaced = {kept.instead_of for kept in plan.kept}
    renamed: dict[Path, Path] = {}
    for folder, reason in plan.set_aside:
        renamed[folder.path] = set_aside(folder.path, reason, is_logged=folder.path not in replaced)
    for kept in plan.kept:
        if kept.folder.path != kept.path:
            extra: dict[str, object] = {"folder": str(kept.folder.path), "renamed": str(kept.path)}
            if kept.instead_of is not None:
                extra["set_aside"] = str(renamed[kept.instead_of])
            _rename(kept.folder.path, kept.path)
            log.warning("stray_log_taken_back", extra=extra | {"log_end_offset": log_end(kept.path)})
    for folder, path in plan.not_restored:
        extra = {"folder": str(folder.path), "log_end_offset": log_end(folder.path), "kept": str(path)}
        log.warning("stray_log_not_taken_back", extra=extra | {"kept_log_end_offset": log_end(path)})


def set_aside(folder: Path, reason: str, *, is_logged: bool = True) -> Path:
    """Rename a partition's folder so that it is no log but keeps its records.

    Return the new path. Raises FolderError.
    """
    stray = folder.with_name(folder_name(folder.name, uuid.uuid4().hex, STRAY_SUFFIX))
    _rename(folder, stray)
    if is_logged:
        log.warning("stray_log_set_aside", extra={"folder": str(folder), "renamed": str(stray), "reason": reason})
    return stray


def _rename(folder: Path, new: Path) -> None:
    try:
        folder.rename(new)
    except OSError as error:
        raise FolderError(folder, error) from error


def folder_name(partition_folder: str, unique: str, suffix: str) -> str:
    """Return the name of a folder that is out of service. The topic is shortened if the name would be too long.

    Source: UnifiedLog.logDirNameWithSuffixCappedLength.
    """
    topic, _, partition = partition_folder.rpartition("-")
    ending = f"-{partition}.{unique}{suffix}"
    return topic[: _NAME_BYTES_MAX - len(ending)] + ending


def delete_folder(folder: Path) -> None:
    """Delete a partition's folder, which contains only files."""
    for path in folder.iterdir():
        path.unlink(missing_ok=True)
    folder.rmdir()
