"""Reads a run's list of violations: pages for the browser, all rows for export. Pages never load the whole list.

The list is a folder of Parquet files, see `app.reports.violation_writer`. Runs of older versions have one file.
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.texts import phrase

if TYPE_CHECKING:
    import pyarrow as pa

# pyarrow is imported late: it takes 60 MB, and most web processes never read such a list.

COLUMNS = (
    "topic",
    "partition",
    "reason",
    "replicas",
    "racks",
    "isr",
    "leader",
    "rf",
    "min_isr",
    "margin",
    "rack_moves",
    "size_bytes",
)
REASONS = ("offline", "under_min", "rack", "under_replicated", "rack_unknown")
VIOLATIONS = "violations.parquet"
NO_RACK = "\u2013"
"""The rack of a broker without one, so that the list of racks stays parallel to the replicas."""
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def violations_page(
    out: Path, *, reason: str | None = None, search: str = "", offset: int = 0, limit: int = 50
) -> tuple[list[dict[str, Any]], int]:
    """Return rows from `offset` with this reason and this text in the topic's name, and the number of matching rows.

    Raises FileNotFoundError if the run's files are gone.
    """
    rows: list[dict[str, Any]] = []
    total = 0
    for batch in _batches(out, 10_000):
        chosen = _matching(batch, reason, search)
        start = max(0, offset - total)
        if start < chosen.num_rows and len(rows) < limit:
            rows += chosen.slice(start, limit - len(rows)).to_pylist()
        total += chosen.num_rows
    return rows, total


def _batches(out: Path, size: int) -> Iterator["pa.RecordBatch"]:
    """Yield the whole list, in its order. Raises FileNotFoundError if the run's files are gone."""
    path = out / VIOLATIONS
    if not path.exists():
        raise FileNotFoundError(phrase("the list of violations of this run is gone: %(file)s", file=path.name))
    import pyarrow.parquet as pq

    for part in sorted(path.glob("part-*.parquet")) if path.is_dir() else [path]:
        with pq.ParquetFile(part) as file:
            yield from file.iter_batches(batch_size=size)


def _matching(batch: "pa.RecordBatch", reason: str | None, search: str) -> "pa.RecordBatch":
    import pyarrow.compute as pc

    if reason:
        batch = batch.filter(pc.equal(batch["reason"], reason))
    return batch.filter(pc.match_substring(batch["topic"], search)) if search else batch


def violations_csv(out: Path) -> Iterator[str]:
    """Yield the whole list as CSV, some thousand rows at a time. Lists are separated by spaces.

    A cell that a spreadsheet would read as a formula gets a leading apostrophe.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for batch in _batches(out, 5000):
        for row in batch.to_pylist():
            row["racks"] = [rack or NO_RACK for rack in row["racks"]]
            writer.writerow([_cell(row[name]) for name in COLUMNS])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return _cell(" ".join(str(item) for item in value))
    return str(safe_cell(value))


def safe_cell(value: Any) -> Any:
    """Return a text with a leading apostrophe if a spreadsheet would read it as a formula, any other value as it is."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value
