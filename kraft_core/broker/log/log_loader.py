"""Opening the folder of a partition: complete or undo interrupted work and recover the log.

After a clean shutdown the files are used as they are. Otherwise every segment that extends beyond the recovery point is
read and checked batch by batch. The log ends at the first batch that is incomplete or fails its CRC; anything after it
is dropped.

Source: LogLoader, Kafka 4.3.1.
"""

import logging
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kraft_core.broker.log.checkpoints import (
    CorruptCheckpointError,
    read_leader_epochs,
    read_topic_id,
    write_leader_epochs,
    write_topic_id,
)
from kraft_core.broker.log.file_records import scan_headers
from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_dir_failure_channel import is_full
from kraft_core.broker.log.log_file_utils import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    base_offsets,
    delete_files,
)
from kraft_core.broker.log.log_segment import LogSegment, new_segment
from kraft_core.broker.log.producer_state_manager import ProducerStateManager
from kraft_core.broker.log.unified_log import UnifiedLog
from kraft_core.protocol.batch_header import BatchHeader
from kraft_core.storage.leader_epochs import LeaderEpochs

log = logging.getLogger(__name__)


class TopicIdMismatchError(Exception):
    """The folder belongs to another topic of the same name."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What the checkpoints say about a log. `recovery_point` is used only after an unclean shutdown."""

    clean_shutdown: bool
    recovery_point: int
    log_start_offset: int
    now_ms: int


def open_log(
    directory: Path, topic: str, partition: int, topic_id: uuid.UUID, config: LogConfig, options: LoadOptions
) -> UnifiedLog:
    """Open or create the log in `directory`. May take long; runs on the I/O thread.

    Raises TopicIdMismatchError, and OSError when the folder cannot be read or written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    known_id = read_topic_id(directory)
    if known_id is None:
        write_topic_id(directory, topic_id)
    elif known_id != topic_id:
        raise TopicIdMismatchError(f"{directory} holds topic id {known_id}, not {topic_id}")
    _finish_interrupted_work(directory)
    try:
        epochs = read_leader_epochs(directory)
    except CorruptCheckpointError as error:
        log.warning("leader_epochs_rebuilt", extra={"cause": str(error)})
        epochs = LeaderEpochs()
    options = _without_an_older_topics_start(options, epochs, directory)
    segments: list[LogSegment] = []
    try:
        _open_segments(segments, directory, config, options, epochs)
        if not segments:
            start = options.log_start_offset
            segments.append(new_segment(directory, start, config.index_interval_bytes, options.now_ms))
        return _assemble(directory, topic, partition, topic_id, config, options, segments, epochs)
    except BaseException:
        for segment in segments:
            segment.close()
        raise


def _assemble(
    directory: Path,
    topic: str,
    partition: int,
    topic_id: uuid.UUID,
    config: LogConfig,
    options: LoadOptions,
    segments: list[LogSegment],
    epochs: LeaderEpochs,
) -> UnifiedLog:
    """Return the log of the open segments, with the state derived from them."""
    last = segments[-1].last_header()
    log_end_offset = segments[-1].base_offset if last is None else last.last_offset + 1
    log_start_offset = min(max(options.log_start_offset, segments[0].base_offset), log_end_offset)
    epochs.truncate_from_end(log_end_offset)
    epochs.truncate_from_start(log_start_offset)
    _write_if_changed(epochs, directory)
    producers = ProducerStateManager(directory)
    result = UnifiedLog(
        directory, topic, partition, topic_id, config, segments, producers, epochs, log_start_offset, log_end_offset
    )
    known_until = producers.load_newest_snapshot(log_start_offset, log_end_offset)
    for header in result.headers(known_until):
        if header.base_offset >= known_until:
            producers.update(header)
    if options.clean_shutdown:
        result.recovery_point = log_end_offset
    return result


def _write_if_changed(epochs: LeaderEpochs, directory: Path) -> None:
    """Write the leader epochs that recovery changed.

    On a full disk the older file stays, so that the node can start and records can be deleted.
    """
    with suppress(CorruptCheckpointError):
        if read_leader_epochs(directory).entries == epochs.entries:
            return
    try:
        write_leader_epochs(directory, epochs)
    except OSError as error:
        if not is_full(error):
            raise


def _without_an_older_topics_start(options: LoadOptions, epochs: LeaderEpochs, directory: Path) -> LoadOptions:
    """Return the options without a log start offset that cannot be this log's.

    The checkpoint identifies partitions by name, so after a crash it may describe a deleted topic of that name. The
    leader epochs of a log are updated before the checkpoint: epochs that begin below the log start contradict it.
    """
    entries = epochs.entries
    if not entries or entries[0][1] >= options.log_start_offset:
        return options
    extra = {"partition": directory.name, "checkpoint": options.log_start_offset, "first_epoch_begins": entries[0][1]}
    log.warning("log_start_of_another_topic_ignored", extra=extra)
    return replace(options, log_start_offset=0)


def _finish_interrupted_work(directory: Path) -> None:
    """Delete files marked for deletion or unfinished, and let finished compacted segments replace their sources."""
    unfinished = (DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")
    delete_files([path for path in directory.iterdir() if path.name.endswith(unfinished)])
    for swap in sorted(directory.glob("*" + LOG_SUFFIX + SWAP_SUFFIX)):
        base_offset = int(swap.name.split(".", 1)[0])
        next_offset = _next_offset(swap)
        # A crash may keep the name of a copy but not its bytes; all segments it was to replace are still there.
        if next_offset is None:
            delete_files([swap])
            continue
        for path in list(directory.glob("*" + LOG_SUFFIX)):
            if base_offset <= int(path.stem) < max(next_offset, base_offset + 1):
                suffixes = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
                delete_files(path.with_suffix(suffix) for suffix in suffixes)
        swap.rename(swap.with_name(swap.name.removesuffix(SWAP_SUFFIX)))


def _next_offset(path: Path) -> int | None:
    """Return the offset after the last batch of a file, None if it contains anything but complete batches."""
    size = path.stat().st_size
    last, end = -1, 0
    with path.open("rb") as file:
        for position, header in scan_headers(file.fileno(), 0, size):
            last, end = header.last_offset, position + header.size
    return last + 1 if end == size and size else None


def _open_segments(
    segments: list[LogSegment], directory: Path, config: LogConfig, options: LoadOptions, epochs: LeaderEpochs
) -> None:
    """Open the segments of the folder. Each is added to `segments` before it is read. Raises OSError."""
    bases = base_offsets(directory)
    rebuilt = epochs.latest is None

    def note_epoch(header: BatchHeader) -> None:
        if epochs.latest is None or header.leader_epoch > epochs.latest:
            epochs.assign(header.leader_epoch, header.base_offset)

    for index, base_offset in enumerate(bases):
        segment = LogSegment(directory, base_offset, config.index_interval_bytes, options.now_ms)
        segments.append(segment)
        is_last = index + 1 == len(bases)
        if options.clean_shutdown or (not is_last and bases[index + 1] <= options.recovery_point):
            segment.load()
            if rebuilt:
                for _, header in segment.batches():
                    note_epoch(header)
            continue
        cut = segment.recover(note_epoch)
        if cut:
            extra = {"partition": directory.name, "segment": segment.path.name, "bytes": cut}
            log.warning("log_truncated_at_torn_batch", extra=extra)
            for later in bases[index + 1 :]:
                dropped = LogSegment(directory, later, config.index_interval_bytes, options.now_ms)
                dropped.close()
                delete_files(dropped.files())
            break
