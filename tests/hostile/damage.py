"""Damage to the files of a stopped node, and checks of its next start."""

import asyncio
import struct
from collections.abc import Sequence
from pathlib import Path

from kraft_core.protocol.errors import ErrorCode
from tests.interop import kafka
from tests.interop.conclave import Quorum, RawBroker, controller_client, create_topics, describe_quorum

PARTITION = Path("data") / "__cluster_metadata-0"


async def acknowledge(found: Quorum, names: Sequence[str], *, register: bool = True) -> None:
    """Create new topics one by one. After a lost leader a retry may find its topic created."""
    client = controller_client(found.bootstrap)
    if register:
        await RawBroker(101, found.cluster_id, client).register()
    for name in names:
        answer = await client.request(create_topics([name], partitions=3))
        assert answer.topics[0].error_code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}, answer
    client.close()


def snapshots(folder: Path) -> list[Path]:
    """Return the metadata snapshots, oldest first, without the one of the format."""
    return [each for each in sorted((folder / PARTITION).glob("*.checkpoint")) if not each.name.startswith("0" * 20)]


def assert_all_topics_exist(process: kafka.Process, port: int, names: list[str]) -> None:
    """Assert that the node leads and has every topic."""

    async def scenario() -> set[int]:
        async with asyncio.timeout(kafka.PATIENCE_S):
            while await describe_quorum(port) is None:
                assert process.alive, process.output
                await asyncio.sleep(0.05)
        client = controller_client(f"127.0.0.1:{port}")
        answer = await client.request(create_topics(names))
        client.close()
        return {topic.error_code for topic in answer.topics}

    assert asyncio.run(scenario()) == {ErrorCode.TOPIC_ALREADY_EXISTS}, process.output


def assert_refuses(process: kafka.Process, *texts: str) -> None:
    """Assert exit code 1 and one line with all of these words, without a traceback."""
    assert process.popen.wait(kafka.PATIENCE_S) == 1, process.output
    assert "Traceback" not in process.output, process.output
    lines = [line for line in process.output.splitlines() if all(text in line for text in texts)]
    assert lines, process.output


def log_of(folder: Path) -> Path:
    """Return the newest segment."""
    return max((folder / PARTITION).glob("*.log"))


def first_log_of(folder: Path) -> Path:
    """Return the oldest segment."""
    return min((folder / PARTITION).glob("*.log"))


def batches(path: Path) -> list[tuple[int, int]]:
    """Return (position, size) of every batch of a segment."""
    data, position, found = path.read_bytes(), 0, []
    while position + 12 <= len(data):
        (size,) = struct.unpack_from(">i", data, position + 8)
        if size <= 0 or position + 12 + size > len(data):
            break
        found.append((position, 12 + size))
        position += 12 + size
    return found


def overwrite(path: Path, position: int, data: bytes) -> None:
    """Overwrite bytes of a file."""
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def flip(path: Path, position: int) -> None:
    """Flip one bit."""
    overwrite(path, position, bytes([path.read_bytes()[position] ^ 0x10]))


def append(path: Path, data: bytes) -> None:
    """Append bytes to a file."""
    with path.open("ab") as file:
        file.write(data)


def in_the_middle(folder: Path) -> tuple[Path, int, int]:
    """Return (segment, position, size) of a batch that many others follow."""
    path = first_log_of(folder)
    found = batches(path)
    position, size = found[len(found) // 2]
    return path, position, size


def flip_in_the_middle(folder: Path) -> tuple[str, ...]:
    """Flip a bit of a batch. Return what the refusal must name."""
    path, position, size = in_the_middle(folder)
    flip(path, position + size - 3)
    return path.name, f"at byte {position}:"


def damage_a_length(folder: Path) -> tuple[str, ...]:
    """Set an enormous batch length. Return what the refusal must name."""
    path, position, _ = in_the_middle(folder)
    overwrite(path, position + 8, b"\x7f\xff\xff\xff")
    return path.name, f"at byte {position}:"


def zero_a_batch(folder: Path) -> tuple[str, ...]:
    """Overwrite a batch with zeros. Return what the refusal must name."""
    path, position, size = in_the_middle(folder)
    overwrite(path, position, bytes(size))
    return path.name, f"at byte {position}:"


def flip_in_the_newest_snapshot(folder: Path) -> tuple[str, ...]:
    """Flip a bit of the newest snapshot. Return what the refusal must name."""
    newest = snapshots(folder)[-1]
    found = batches(newest)
    position, size = found[len(found) // 2]
    flip(newest, position + size - 3)
    return newest.name, f"at byte {position}:"


def cut_the_newest_snapshot(folder: Path) -> Path:
    """Remove the footer of the newest snapshot. Return the snapshot."""
    newest = snapshots(folder)[-1]
    newest.chmod(0o600)
    newest.write_bytes(newest.read_bytes()[:-30])
    return newest
