"""A node whose files were damaged while it was stopped: it recovers everything, or it ends with the reason.

A node acknowledges topics and is killed or stopped. Its folder is copied for every case, damaged and started again.
"""

import asyncio
import os
import random
import shutil
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kraft_core.clients.quorum_fetch import ObserverIdentity, fetch_snapshot_request
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.metadata_records import PartitionRecord, encode_record
from kraft_core.protocol.primitives import encode_uvarint
from kraft_core.protocol.record_batch import encode_batch, read_batches
from kraft_core.protocol.uuids import METADATA_TOPIC_ID
from tests.hostile.damage import (
    PARTITION,
    acknowledge,
    append,
    assert_all_topics_exist,
    assert_refuses,
    batches,
    cut_the_newest_snapshot,
    damage_a_length,
    first_log_of,
    flip_in_the_middle,
    flip_in_the_newest_snapshot,
    log_of,
    snapshots,
    zero_a_batch,
)
from tests.hostile.twins import epoch_at
from tests.interop import kafka
from tests.interop.conclave import Quorum, call, start
from tests.interop.log_files import raw_batches

TOPICS = [f"acknowledged-{number}" for number in range(12)]
QUIET = {"broker.session.timeout.ms": 600_000}  # the broker of the topics sends no heartbeats
SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": 3_000,
    "metadata.log.max.snapshot.interval.ms": 500,
}


@dataclass(frozen=True)
class Kept:
    """The folder of a node that has acknowledged TOPICS."""

    folder: Path
    port: int

    def copy(self, to: Path) -> Path:
        """Return a copy with adjusted configs."""
        target = to / "node"
        shutil.copytree(self.folder, target, symlinks=True, ignore=shutil.ignore_patterns("*.out"))
        config = target / "server.properties"
        config.write_text(config.read_text().replace(str(self.folder), str(target)))
        return target


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kept]:
    """Yield the folders after a kill and after a clean stop, each with and without snapshots."""
    found: dict[str, Kept] = {}
    for name, settings in {"killed": {}, "stopped": {}, "snapshots": SNAPSHOTS}.items():
        folder: Path = tmp_path_factory.mktemp(name)
        node = Quorum(folder, 1, {**settings, **QUIET})
        try:
            node.format(1)
            node.start(1)
            node.wait_for_leader()
            asyncio.run(acknowledge(node, TOPICS))
            if name == "snapshots":
                kafka.wait_until(
                    lambda node=node: len(snapshots(node.folder_of(1))) >= 2, kafka.PATIENCE_S, "two snapshots"
                )
            if name == "stopped":
                assert node.processes[1].stop() == 0
        finally:
            node.stop_all()
        found[name] = Kept(node.folder_of(1), node.ports[0])
    return found


@pytest.fixture
def processes() -> Iterator[list[kafka.Process]]:
    running: list[kafka.Process] = []
    yield running
    for each in running:
        each.kill()


def started(folder: Path, processes: list[kafka.Process]) -> kafka.Process:
    process = start("node", folder / "server.properties")
    processes.append(process)
    return process


def half_a_batch(folder: Path) -> None:
    data = log_of(folder).read_bytes()
    position, size = batches(log_of(folder))[-1]
    append(log_of(folder), struct.pack(">q", 10**6) + data[position + 8 : position + size // 2])


def each_index(folder: Path, do: Callable[[Path], object]) -> None:
    for pattern in ("*.index", "*.timeindex"):
        for path in (folder / PARTITION).glob(pattern):
            do(path)


HARMLESS: dict[str, Callable[[Path], object]] = {
    "nothing, killed": lambda folder: None,
    "nothing, stopped": lambda folder: None,
    "half a batch behind the end": half_a_batch,
    "random bytes behind the end": lambda folder: append(log_of(folder), random.Random(4).randbytes(1_000)),
    "zeros behind the end": lambda folder: append(log_of(folder), bytes(4_096)),
    "indexes gone": lambda folder: each_index(folder, Path.unlink),
    "indexes of garbage": lambda folder: each_index(folder, lambda path: path.write_bytes(b"garbage" * 9)),
    "an unfinished snapshot": lambda folder: (folder / PARTITION / f"{50:020}-{1:010}.checkpoint.part").write_bytes(
        b"x"
    ),
    "the snapshot of the format gone": lambda folder: (folder / PARTITION / f"{0:020}-{0:010}.checkpoint").unlink(),
    "epochs of garbage": lambda folder: (folder / PARTITION / "leader-epoch-checkpoint").write_text("no\nsense\n"),
    "epochs gone": lambda folder: (folder / PARTITION / "leader-epoch-checkpoint").unlink(missing_ok=True),
}


@pytest.mark.parametrize(
    ("damage", "end"), [(damage, ("killed", "stopped")[n % 2]) for n, damage in enumerate(HARMLESS)]
)
def test_all_topics_exist_after_harmless_damage(
    kept: dict[str, Kept], processes: list[kafka.Process], tmp_path: Path, damage: str, end: str
) -> None:
    folder = kept[end].copy(tmp_path)
    HARMLESS[damage](folder)
    assert_all_topics_exist(started(folder, processes), kept[end].port, TOPICS)


@pytest.mark.parametrize("end", ["killed", "stopped"])
@pytest.mark.parametrize("damage", [flip_in_the_middle, damage_a_length, zero_a_batch])
def test_damage_before_valid_batches_is_not_a_torn_write(
    kept: dict[str, Kept],
    processes: list[kafka.Process],
    tmp_path: Path,
    damage: Callable[[Path], tuple[str, ...]],
    end: str,
) -> None:
    """Apache's node truncates the log there and silently loses acknowledged records."""
    folder = kept[end].copy(tmp_path)
    named = damage(folder)
    damaged = first_log_of(folder).read_bytes()
    assert_refuses(started(folder, processes), "node_not_started", *named)
    assert first_log_of(folder).read_bytes() == damaged, "nothing is cut"


def quorum_state(folder: Path) -> Path:
    return folder / PARTITION / "quorum-state"


def meta(folder: Path) -> Path:
    return folder / "data" / "meta.properties"


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def write(of: Callable[[Path], Path], data: bytes) -> Callable[[Path], object]:
    return lambda folder: of(folder).write_bytes(data)


REFUSED: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "quorum-state of garbage": (write(quorum_state, b"{garbage"), ("quorum-state",)),
    "quorum-state empty": (write(quorum_state, b""), ("quorum-state",)),
    "quorum-state of a version to come": (
        lambda folder: change(quorum_state(folder), '"data_version":1', '"data_version":9'),
        ("quorum-state",),
    ),
    "quorum-state missing": (lambda folder: quorum_state(folder).unlink(), ("quorum-state is missing",)),
    "meta.properties missing": (lambda folder: meta(folder).unlink(), ("No readable meta.properties files found.",)),
    "meta.properties of garbage": (write(meta, b"\x00\xffgarbage"), ("meta.properties", "node ID not found")),
    "meta.properties of another node": (
        lambda folder: change(meta(folder), "node.id=1", "node.id=2"),
        ("Stored node id 2 doesn't match previous node id 1",),
    ),
    "meta.properties without a node": (
        lambda folder: change(meta(folder), "node.id=1", ""),
        ("Failed to find node.id",),
    ),
    "meta.properties of a version to come": (
        lambda folder: change(meta(folder), "version=1", "version=7"),
        ("Found unexpected version",),
    ),
}


@pytest.mark.parametrize("damage", REFUSED)
def test_invalid_metadata_files_are_refused_by_name(
    kept: dict[str, Kept], processes: list[kafka.Process], tmp_path: Path, damage: str
) -> None:
    folder = kept["stopped"].copy(tmp_path)
    do, texts = REFUSED[damage]
    do(folder)
    assert_refuses(started(folder, processes), "node_not_started", *texts)


def test_an_old_epoch_in_quorum_state_is_raised_to_that_of_the_log(
    kept: dict[str, Kept], processes: list[kafka.Process], tmp_path: Path
) -> None:
    folder = kept["stopped"].copy(tmp_path)
    state = quorum_state(folder)
    state.write_text(
        '{"leaderId":-1,"leaderEpoch":0,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    assert_all_topics_exist(started(folder, processes), kept["stopped"].port, TOPICS)


def test_a_snapshot_with_a_flipped_bit_stops_the_start(
    kept: dict[str, Kept], processes: list[kafka.Process], tmp_path: Path
) -> None:
    folder = kept["snapshots"].copy(tmp_path)
    named = flip_in_the_newest_snapshot(folder)
    assert_refuses(started(folder, processes), "node_not_started", *named)


def test_a_snapshot_without_its_footer_is_neither_loaded_nor_served(
    kept: dict[str, Kept], processes: list[kafka.Process], tmp_path: Path
) -> None:
    """Apache's node loads it and serves it to others. Ours uses the older snapshot and the log."""
    folder = kept["snapshots"].copy(tmp_path)
    cut = cut_the_newest_snapshot(folder)
    process, port = started(folder, processes), kept["snapshots"].port
    assert_all_topics_exist(process, port, TOPICS)
    (line,) = (line for line in process.output.splitlines() if cut.name in line)
    assert "ERROR incomplete_snapshot_ignored" in line

    epoch = epoch_at(port)

    async def error_of(snapshot: Path) -> int:
        end_offset, snapshot_epoch = map(int, snapshot.stem.split("-"))
        request = fetch_snapshot_request(
            ObserverIdentity(),
            leader_epoch=epoch,
            end_offset=end_offset,
            epoch=snapshot_epoch,
            position=0,
            max_bytes=1_000_000,
        )
        return (await call(port, request, 1)).topics[0].partitions[0].error_code

    assert asyncio.run(error_of(cut)) == ErrorCode.SNAPSHOT_NOT_FOUND
    assert asyncio.run(error_of(snapshots(folder)[0])) == ErrorCode.NONE


def without_rights(folder: Path) -> kafka.Process:
    """Start a node that is subject to the folder's permissions, even if the tests run as root."""
    command = [sys.executable, "-m", "kraft_core", str(folder / "server.properties")]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", *command]
    return kafka.Process("bound", command, folder)


def test_a_read_only_folder_is_refused_and_loses_nothing(
    kept: dict[str, Kept], processes: list[kafka.Process], tmp_path: Path
) -> None:
    folder = kept["killed"].copy(tmp_path)
    inside = [folder / "data", *(folder / "data").rglob("*")]
    modes = {path: path.stat().st_mode for path in inside}
    try:
        for path in inside:
            path.chmod(0o500 if path.is_dir() else 0o400)
        bound = without_rights(folder)
        processes.append(bound)
        assert_refuses(bound, "node_not_started", str(folder / "data"), "ermission denied")
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert_all_topics_exist(started(folder, processes), kept["killed"].port, TOPICS)


TOPIC_RECORD, UNKNOWN_TYPE = 2, 200
UNREADABLE = {
    "an unknown type": bytes([1, *encode_uvarint(UNKNOWN_TYPE), 0]),
    "an unknown version": bytes([1, TOPIC_RECORD, 99]),
    "a frame of another version": bytes([2, TOPIC_RECORD, 0]),
    "its end missing": bytes([1, TOPIC_RECORD, 0, 9]) + b"name",
    "an unknown topic": encode_record(
        PartitionRecord(partition_id=0, topic_id=METADATA_TOPIC_ID, replicas=(1,), isr=(1,)), 1
    ),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_record_that_cannot_be_replayed_stops_the_node(
    kept: dict[str, Kept], processes: list[kafka.Process], tmp_path: Path, what: str
) -> None:
    """Invariant 31: the batch is complete and its CRC is right, so the record is not damaged but unknown."""
    folder = kept["stopped"].copy(tmp_path)
    log = raw_batches(folder)
    (last,) = read_batches(log[max(log)])
    batch = encode_batch(last.last_offset + 1, last.leader_epoch, last.max_timestamp, [UNREADABLE[what]])
    append(log_of(folder), batch)
    process = started(folder, processes)
    assert process.popen.wait(kafka.PATIENCE_S) == 1, process.output
    (line,) = (line for line in process.output.splitlines() if "ERROR node_fatal" in line)
    assert f"from offset {last.last_offset + 1}:" in line


WRONG_SETTINGS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "no node.id": ("node.id=1", "", ("node.id",)),
    "node.id no number": ("node.id=1", "node.id=one", ("node.id", "one")),
    "negative node.id": ("node.id=1", "node.id=-2", ("node.id", "-2")),
    "bad role": ("process.roles=controller", "process.roles=king", ("process.roles", "king")),
    "no listener": ("listeners=CONTROLLER://127.0.0.1", "#", ("listeners",)),
    "unreadable listener": ("listeners=CONTROLLER://127.0.0.1", "listeners=CONTROLLER/127.0.0.1", ("listeners",)),
    "bad value": (
        "node.id=1",
        "node.id=1\ncontroller.quorum.fetch.timeout.ms=-7",
        ("controller.quorum.fetch.timeout.ms", "-7"),
    ),
    "no log dir": ("log.dirs=", "log.dirs=\n#", ("log.dirs",)),
    "neither voters nor bootstrap servers": ("controller.quorum.bootstrap.servers=", "#", ("controller.quorum",)),
}


@pytest.mark.parametrize("wrong", WRONG_SETTINGS)
def test_an_invalid_config_is_one_line_that_names_it_before_any_file_changes(
    kept: dict[str, Kept], processes: list[kafka.Process], tmp_path: Path, wrong: str
) -> None:
    folder = kept["stopped"].copy(tmp_path)
    old, new, texts = WRONG_SETTINGS[wrong]
    config = folder / "server.properties"
    change(config, f"\n{old}" if not config.read_text().startswith(old) else old, f"\n{new}")
    before = {path: path.stat().st_mtime_ns for path in (folder / "data").rglob("*")}
    process = started(folder, processes)
    assert process.popen.wait(kafka.PATIENCE_S) == 1
    (line,) = process.output.splitlines()
    assert all(text in line for text in texts), line
    assert {path: path.stat().st_mtime_ns for path in (folder / "data").rglob("*")} == before


def test_an_unknown_config_is_one_warning(
    kept: dict[str, Kept], processes: list[kafka.Process], tmp_path: Path
) -> None:
    folder = kept["stopped"].copy(tmp_path)
    append(folder / "server.properties", b"\nno.such.setting=1\nmy.plugin.setting=2\n")
    process = started(folder, processes)
    assert_all_topics_exist(process, kept["stopped"].port, TOPICS)
    for key in ("no.such.setting", "my.plugin.setting"):
        (line,) = (line for line in process.output.splitlines() if key in line)
        assert "WARN" in line
