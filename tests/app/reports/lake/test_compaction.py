"""Compaction of the change feed: fewer files with the same rows, at every moment, whatever kills it."""

import datetime as dt
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from pyarrow import fs as arrow_fs

from app.reports.lake import compaction
from app.reports.lake.compaction import compact
from app.reports.lake.feed import Feed
from app.reports.lake.lake import Lake
from tests.app.reports.lake.replay import image_at
from tests.app.reports.lake.test_feed import CLUSTER, DAY_MS, NOON, batch, replayed, snapshot_of, topic, write

TODAY = dt.date(2026, 3, 3)


def rows_of(lake: Lake) -> list[tuple[Any, ...]]:
    """Return what a stranger sees, who lists the files of the table."""
    with duckdb.connect() as stranger:
        found = stranger.sql(
            f"""SELECT "offset", origin, type, topic, date FROM read_parquet('{lake.location}/records/**/*.parquet',
                hive_partitioning = true) ORDER BY ALL"""
        )
        return found.fetchall()


def names(lake: Lake) -> list[tuple[int | None, int, int]]:
    return [(file.first, file.last, file.date.day) for file in lake.records_files(CLUSTER)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Four files of the 1st of March with a snapshot among them, two of the 2nd, two of the 3rd, which is today."""
    lake = Lake(str(tmp_path / "lake"))
    for offset, day in enumerate((0, 0, 0, 0, 1, 1, 2, 2)):
        write(lake, batch(offset, topic(offset), time_ms=NOON + day * DAY_MS))
        if offset == 1:
            snapshot = snapshot_of(replayed(topic(0), offset=1), NOON)
            Feed(lake, CLUSTER, lake.position(CLUSTER)).add_snapshot(snapshot)
    return lake


def test_the_files_of_past_days_become_one_per_day_with_the_same_rows(lake: Lake) -> None:
    before, position, image = rows_of(lake), lake.position(CLUSTER), image_at(lake, CLUSTER, 6)
    assert compact(lake, CLUSTER, TODAY) == 2
    assert names(lake) == [(None, 1, 1), (0, 3, 1), (4, 5, 2), (6, 6, 3), (7, 7, 3)]
    assert rows_of(lake) == before
    assert lake.position(CLUSTER) == position
    assert image_at(lake, CLUSTER, 6).same_metadata(image)
    assert not list(Path(lake.location).rglob(".compaction/*/*"))
    assert compact(lake, CLUSTER, TODAY) == 0
    write(lake, batch(8, topic(8), time_ms=NOON + 3 * DAY_MS))
    assert lake.repair(CLUSTER) == []
    assert compact(lake, CLUSTER, dt.date(2026, 4, 1)) == 1
    assert lake.delete_before(CLUSTER, dt.date(2026, 3, 3)) == 1, "the base stays, and what follows it"


def test_a_late_file_of_a_merged_day_is_merged_too_and_a_gap_is_kept(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    for offset in (0, 1):
        write(lake, batch(offset, topic(offset)))
    assert compact(lake, CLUSTER, TODAY) == 1
    write(lake, batch(2, topic(2)))
    assert compact(lake, CLUSTER, TODAY) == 1
    feed = Feed(lake, CLUSTER, lake.position(CLUSTER))
    feed.add_snapshot(snapshot_of(replayed(topic(1), offset=99), NOON))
    feed.add(batch(100, topic(3), epoch=4))
    feed.flush()
    assert compact(lake, CLUSTER, TODAY) == 0
    assert names(lake) == [(0, 2, 1), (None, 99, 1), (100, 100, 1)]


def test_merged_files_and_their_row_groups_are_bounded(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FILE_ROWS_MAX", 3)
    monkeypatch.setattr(compaction, "ROWS_MAX", 2)
    before = rows_of(lake)
    compact(lake, CLUSTER, TODAY)
    assert [name for name in names(lake) if name[2] == 1] == [(None, 1, 1), (0, 2, 1), (3, 3, 1)]
    merged = pq.read_metadata(next(file.path for file in lake.records_files(CLUSTER) if file.first == 0))
    assert [merged.row_group(number).num_rows for number in range(merged.num_row_groups)] == [2, 1]
    assert rows_of(lake) == before
    assert compact(lake, CLUSTER, TODAY) == 0


class KilledError(Exception):
    pass


def killed_at(owner: object, name: str, call: int, *, after: bool = False) -> Callable[..., Any]:
    """Return the function `owner.name`, which ends the program at its nth call."""
    original, calls = getattr(owner, name), [0]

    def function(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] == call and not after:
            raise KilledError
        found = original(*args, **kwargs)
        if calls[0] == call:
            raise KilledError
        return found

    return function


@pytest.mark.parametrize(
    ("owner", "name", "call", "after"),
    [
        (Path, "hardlink_to", 1, False),
        (pq.ParquetWriter, "write_table", 1, True),
        (compaction, "_exchange", 1, True),
        (compaction, "_exchange", 2, False),
        (compaction, "_exchange", 2, True),
        (shutil, "rmtree", 2, False),
        (pq.ParquetWriter, "write_table", 2, False),
        (compaction, "_exchange", 4, True),
    ],
)
def test_a_kill_at_any_point_leaves_each_row_once_and_the_next_run_completes(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, call: int, *, after: bool
) -> None:
    before = rows_of(lake)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, killed_at(owner, name, call, after=after))
        with pytest.raises(KilledError):
            compact(lake, CLUSTER, TODAY)
    assert rows_of(lake) == before
    compact(lake, CLUSTER, TODAY)
    assert rows_of(lake) == before
    assert [name[0] for name in names(lake)] == [None, 0, 4, 6, 7]
    assert not list(Path(lake.location).rglob(".compaction/*/*"))


class ObjectLake(Lake):
    """A lake that is handled as one in an object store, whose folders exist as soon as a file is written."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._is_local = False

    def _unfinished(self, folder: str, name: str) -> AbstractContextManager[Path]:
        Path(folder).mkdir(parents=True, exist_ok=True)
        return super()._unfinished(folder, name)


def counted_rows(lake: Lake) -> list[tuple[int, str]]:
    """Return the rows of the files that count, in their order."""
    files = [file for file in lake.records_files(CLUSTER) if file.first is not None]
    return [(row["offset"], row["topic"]) for file in files for row in lake.read(file.path).to_pylist()]


def test_in_an_object_store_the_merged_file_takes_the_place_of_the_others(lake: Lake) -> None:
    store = ObjectLake(lake.location)
    before, position, image = counted_rows(store), store.position(CLUSTER), image_at(store, CLUSTER, 6)
    assert compact(store, CLUSTER, TODAY) == 2
    assert names(store) == [(None, 1, 1), (0, 3, 1), (4, 5, 2), (6, 6, 3), (7, 7, 3)]
    assert len(store.files("records", CLUSTER)) == 5
    assert (counted_rows(store), store.position(CLUSTER)) == (before, position)
    assert rows_of(store) == rows_of(lake)
    assert image_at(store, CLUSTER, 6).same_metadata(image)
    assert compact(store, CLUSTER, TODAY) == 0


@pytest.mark.parametrize(
    ("owner", "name", "call", "after"),
    [
        (pq.ParquetWriter, "write_table", 1, True),
        (arrow_fs, "copy_files", 1, False),
        (arrow_fs, "copy_files", 1, True),
        (Lake, "delete", 1, False),
        (Lake, "delete", 1, True),
        (Lake, "delete", 3, True),
        (arrow_fs, "copy_files", 2, True),
        (Lake, "delete", 6, False),
        (Lake, "delete", 6, True),
    ],
)
def test_a_kill_at_any_point_in_an_object_store_neither_loses_nor_doubles_a_row(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, call: int, *, after: bool
) -> None:
    store = ObjectLake(lake.location)
    before, position = counted_rows(store), store.position(CLUSTER)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, killed_at(owner, name, call, after=after))
        with pytest.raises(KilledError):
            compact(store, CLUSTER, TODAY)
    assert (counted_rows(store), store.position(CLUSTER)) == (before, position)
    assert store.repair(CLUSTER) == []
    compact(store, CLUSTER, TODAY)
    assert counted_rows(store) == before
    assert names(store) == [(None, 1, 1), (0, 3, 1), (4, 5, 2), (6, 6, 3), (7, 7, 3)]
    assert len(store.files("records", CLUSTER)) == 5


def test_a_merged_file_that_was_cut_short_replaces_nothing(lake: Lake) -> None:
    """What a store leaves that shows a file while it is being written."""
    store = ObjectLake(lake.location)
    before = counted_rows(store)
    first = next(file for file in store.records_files(CLUSTER) if file.first == 0)
    cut = Path(first.path).with_name("00000000000000000000-00000000000000000003-0000000001.parquet")
    cut.write_bytes(Path(first.path).read_bytes()[:-9])
    assert counted_rows(store) == before
    assert [file.path for file in store.replaced_files(CLUSTER)] == [str(cut)]
    assert compact(store, CLUSTER, TODAY) == 2
    assert counted_rows(store) == before


def test_where_folders_cannot_be_exchanged_the_files_stay(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before = names(lake)
    with monkeypatch.context() as patch:
        patch.setattr(compaction, "_RENAME_EXCHANGE", 1 << 20)  # what an old file system answers: EINVAL
        assert compact(lake, CLUSTER, TODAY) == 0
    assert names(lake) == before
