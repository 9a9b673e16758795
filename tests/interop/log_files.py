"""The metadata log as it lies on the disk, read without the code under test's storage layer."""

import struct
from pathlib import Path

HEADER = struct.Struct(">qii")


def raw_batches(folder: Path) -> dict[int, bytes]:
    """Every whole batch of all segments under a node's folder, by base offset."""
    found: dict[int, bytes] = {}
    for segment in sorted((folder / "data" / "__cluster_metadata-0").glob("*.log")):
        data = segment.read_bytes()
        position = 0
        while position + HEADER.size <= len(data):
            base_offset, length, _ = HEADER.unpack_from(data, position)
            end = position + 12 + length
            if length <= 0 or end > len(data):
                break
            found[base_offset] = data[position:end]
            position = end
    return found


def committed_prefix(logs: list[dict[int, bytes]]) -> int:
    """How many batches the logs share; they must agree on every offset where a majority has a batch.

    Fails when two logs hold different bytes at one base offset below the shortest log's end.
    """
    shortest = min(max(log) for log in logs)
    shared = 0
    for base_offset in sorted(set().union(*logs)):
        if base_offset > shortest:
            break
        held = [log[base_offset] for log in logs if base_offset in log]
        oldest = max(min(log) for log in logs)
        if base_offset < oldest:
            continue
        assert len(held) == len(logs), f"batch {base_offset} is missing in {len(logs) - len(held)} logs"
        assert len(set(held)) == 1, f"batch {base_offset} differs"
        shared += 1
    return shared
