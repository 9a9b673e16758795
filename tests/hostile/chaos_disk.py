"""Compares the three data directories of a stopped quorum with each other and with what was committed."""

import itertools
from collections.abc import Iterator

from kraft_core.clients.observed_log import CommittedChange
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.metadata_records import MetadataRecord, decode_record
from kraft_core.protocol.record_batch import read_batches
from tests.interop.conclave import Quorum
from tests.interop.log_files import first_segment, leaders, raw_batches, replayed, snapshot_image, snapshots

Log = dict[int, bytes]


def differing_batches(logs: list[Log]) -> Iterator[str]:
    """Yield offsets below the end of the shortest log at which two logs have different bytes."""
    shortest = min(max(log) for log in logs)
    for base in sorted(set().union(*logs)):
        held = [log[base] for log in logs if base in log]
        reach = [log for log in logs if min(log) <= base]
        if base <= shortest and (len(set(held)) > 1 or len(held) != len(reach)):
            yield f"batch {base} differs or is missing in a log"


def two_leaders(logs: list[Log]) -> Iterator[str]:
    """Yield epochs in which two nodes wrote a LeaderChangeMessage, committed or not."""
    found: dict[int, int] = {}
    for epoch, leader in itertools.chain.from_iterable(leaders(log).items() for log in logs):
        if found.setdefault(epoch, leader) != leader:
            yield f"epoch {epoch} was led by {found[epoch]} and {leader}"


def missing_records(node: str, log: Log, changes: list[CommittedChange]) -> Iterator[str]:
    """Yield records that the observer saw committed and that a log of this range does not have."""
    on_disk: dict[int, tuple[int, MetadataRecord | None]] = {}
    for raw in log.values():
        for batch in read_batches(raw):
            values = [None] * batch.record_count if batch.is_control else map(decode_record, batch.values())
            on_disk |= {batch.base_offset + index: (batch.leader_epoch, record) for index, record in enumerate(values)}
    start, end = min(on_disk), max(on_disk)
    for change in changes:
        for offset, record in change.records:
            if start <= offset <= end and on_disk.get(offset) != (change.epoch, record):
                yield f"{node} has {on_disk.get(offset)} at {offset}, committed was {record} in epoch {change.epoch}"


def wrong_snapshots(quorum: Quorum, node_id: int, images: dict[int, MetadataImage]) -> Iterator[str]:
    """Yield snapshots that differ from the replay at their offset, and logs that begin above 0 without one."""
    folder = quorum.folder_of(node_id)
    found = snapshots(folder)
    begins = first_segment(folder)
    if begins > 0 and not any(offset >= begins for offset in found):
        yield f"the log of node {node_id} begins at {begins}, its snapshots are {list(found)}"
    for offset, path in found.items():
        if offset not in images:
            yield f"snapshot {path.name} of node {node_id} is of no committed offset"
        elif not snapshot_image(path).same_metadata(images[offset]):
            yield f"snapshot {path.name} of node {node_id} is not the replay of the log"


def wrong_replay(quorum: Quorum, node_id: int, log: Log, images: dict[int, MetadataImage]) -> Iterator[str]:
    """Yield a difference between the replay of a directory and the committed image at the last common offset."""
    found = {offset: path for offset, path in snapshots(quorum.folder_of(node_id)).items() if offset >= min(log)}
    base = None
    if min(log) > 0:
        base = snapshot_image(next(iter(found.values())))
    last = None
    for image in replayed(log, base):
        known = images.get(image.offset + 1)
        last = (image, known) if known is not None else last
    if last is None or not last[0].same_metadata(last[1]):
        yield f"the replay of node {node_id} differs from what was committed"


def compare_directories(quorum: Quorum, changes: list[CommittedChange]) -> tuple[list[str], int]:
    """Check the directories of all nodes. Return violations and the number of snapshots compared."""
    images = {change.last_offset + 1: change.after for change in changes}
    logs = {node_id: raw_batches(quorum.folder_of(node_id)) for node_id in quorum.node_ids}
    wrong = [*differing_batches(list(logs.values())), *two_leaders(list(logs.values()))]
    committed_end = changes[-1].last_offset
    longest = max(max(log) for log in logs.values())
    if longest < changes[-1].first_offset:
        wrong.append(f"the longest log ends at {longest}, committed was {committed_end}")
    for node_id, log in logs.items():
        wrong += missing_records(f"node {node_id}", log, changes)
        wrong += wrong_snapshots(quorum, node_id, images)
        wrong += wrong_replay(quorum, node_id, log, images)
    return wrong, sum(len(snapshots(quorum.folder_of(node_id))) for node_id in quorum.node_ids)
