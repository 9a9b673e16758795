"""The virtual disk keeps exactly what a real one guarantees."""

import os
from pathlib import Path
from random import Random

import pytest

from kraft_core.storage.files import read_file, write_all, write_file
from tests.simulator.sim_disk import SECTOR_BYTES, Crashed, SimDisk

ROOT = Path("/disk")
FILE = ROOT / "file"


def disk_with(data: bytes, *, seed: int = 0) -> tuple[SimDisk, int]:
    """Return a disk with one durable open file, and its descriptor."""
    disk = SimDisk(Random(seed))
    disk.make_directory(ROOT)
    write_file(FILE, data, disk)
    return disk, disk.open(FILE, os.O_RDWR)


@pytest.mark.parametrize("seed", range(20))
def test_synced_data_survives_a_power_loss_and_unsynced_data_survives_as_a_prefix(seed: int) -> None:
    disk, descriptor = disk_with(b"synced", seed=seed)
    added = bytes(range(256)) * 8
    write_all(disk, descriptor, added, 6)
    disk.lose_power(leaves_holes=False)
    found = read_file(FILE, disk)
    assert (b"synced" + added).startswith(found)
    assert found.startswith(b"synced")
    assert len(found) in {6, 6 + len(added)} or len(found) % SECTOR_BYTES == 0


def test_holes_are_left_only_on_request() -> None:
    added = b"x" * SECTOR_BYTES * 6

    def holes(*, leaves_holes: bool) -> int:
        found = 0
        for seed in range(40):
            disk, descriptor = disk_with(b"", seed=seed)
            write_all(disk, descriptor, added, 0)
            disk.lose_power(leaves_holes=leaves_holes)
            found += b"\0" in read_file(FILE, disk)
        return found

    assert holes(leaves_holes=False) == 0
    assert holes(leaves_holes=True) > 0


def test_a_killed_process_loses_only_its_descriptors() -> None:
    disk, descriptor = disk_with(b"synced")
    write_all(disk, descriptor, b" and more", 6)
    disk.killed()
    assert read_file(FILE, disk) == b"synced and more"
    with pytest.raises(KeyError):
        disk.pread(descriptor, 1, 0)


@pytest.mark.parametrize("seed", range(20))
def test_a_rename_without_a_sync_of_its_directory_happens_as_a_whole_or_not_at_all(seed: int) -> None:
    disk, _ = disk_with(b"old", seed=seed)
    other = ROOT / "other"
    write_file(other, b"new", disk)
    disk.rename(other, FILE)
    disk.lose_power(leaves_holes=False)
    assert (read_file(FILE, disk), disk.names(ROOT)) in [(b"new", ["file"]), (b"old", ["file", "other"])]


def test_a_synced_rename_of_an_unsynced_file_may_leave_it_empty() -> None:
    found = set()
    for seed in range(20):
        disk, _ = disk_with(b"old", seed=seed)
        other = ROOT / "other"
        write_all(disk, disk.open(other, os.O_WRONLY | os.O_CREAT), b"new", 0)
        disk.rename(other, FILE)
        disk.sync_directory(ROOT)
        disk.lose_power(leaves_holes=False)
        found.add(read_file(FILE, disk))
    assert found == {b"", b"new"}


def test_after_a_failed_sync_the_next_one_succeeds_and_writes_nothing() -> None:
    disk, descriptor = disk_with(b"synced")
    write_all(disk, descriptor, b"!", 6)
    disk.failing_sync = True
    with pytest.raises(OSError, match="Input/output error"):
        disk.fdatasync(descriptor)
    disk.fdatasync(descriptor)
    assert read_file(FILE, disk) == b"synced!"
    assert not disk.is_synced(FILE)
    disk.lose_power(leaves_holes=False)
    assert read_file(FILE, disk) == b"synced"


def test_a_full_disk_writes_what_fits_and_then_fails() -> None:
    disk, descriptor = disk_with(b"12345")
    disk.free_bytes = 3
    assert disk.pwritev(descriptor, [b"67890"], 5) == 3
    with pytest.raises(OSError, match="No space left"):
        disk.pwritev(descriptor, [b"9"], 8)
    disk.pwritev(descriptor, [b"abc"], 0)
    assert read_file(FILE, disk) == b"abc45678"


def test_a_process_that_died_in_an_operation_runs_no_other() -> None:
    disk, descriptor = disk_with(b"synced")
    disk.crash_in = 1
    write_all(disk, descriptor, b"!", 6)
    with pytest.raises(Crashed):
        disk.fdatasync(descriptor)
    with pytest.raises(Crashed):
        disk.unlink(FILE)
    disk.killed()
    assert read_file(FILE, disk) == b"synced!"


@pytest.mark.parametrize("kind", ["bit_flip", "zeroed_sector", "misdirected_write"])
def test_damage_is_within_a_sector_and_remembered(kind: str) -> None:
    for seed in range(10):
        disk, _ = disk_with(bytes(range(1, 201)) * 20, seed=seed)
        write_file(ROOT / "other", b"other" * 300, disk)
        before = read_file(FILE, disk)
        disk.damage(FILE, kind)
        after = read_file(FILE, disk)
        changed = [index for index, byte in enumerate(after) if byte != before[index]]
        assert len(after) == len(before)
        assert {index // SECTOR_BYTES for index in changed} in [set(), {changed[0] // SECTOR_BYTES if changed else 0}]
        assert disk.is_damaged == bool(changed)
        if kind == "bit_flip":
            assert len(changed) == 1
