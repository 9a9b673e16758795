"""The partitions behind a number of a placement report, and the matrices of brokers and racks that share partitions."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.http.errors import BadRequestError, GoneError
from app.pages.frame import ids_text, page_of, render, rows_on_page, whole_number
from app.pages.reports import known_report
from app.reports.partition_rows import KINDS, RowFilter, partition_rows
from app.reports.what_if import NoPlacementError, UnknownDomainError
from app.services import Reader, services_of
from app.texts import joined, phrase, phrases, recognised

router = APIRouter(include_in_schema=False)

ROWS_SHOWN: Final = 50
LABELS: Final = {
    "replicas": "",
    "leaders": phrase("leaders"),
    "preferred": phrase("preferred leaders"),
    "out_of_sync": phrase("out of sync"),
    "offline_replicas": phrase("offline replicas"),
    "adding": phrase("replicas being added"),
    "removing": phrase("replicas being removed"),
    "offline": phrase("without leader"),
    "under_min": phrase("under min ISR"),
    "at_min": phrase("at min ISR"),
    "under_replicated": phrase("under-replicated"),
    "non_preferred": phrase("not led by the preferred replica"),
    "fixable_by_election": phrase("corrected by a preferred election"),
    "rf1": phrase("with a single replica"),
    "rf_is_min_isr": phrase("with min ISR equal to the replication factor"),
    "rack_violated": phrase("that violate the rack rule"),
    "rack_unknown": phrase("with an unknown verdict of the rack rule"),
}


@dataclass(frozen=True, slots=True)
class RowsView:
    """Model of report_rows.html."""

    run_id: int
    offset: int | None
    words: str
    total: int
    rows: Sequence[Mapping[str, Any]]
    page: int
    pages: int
    page_query: str


@dataclass(frozen=True, slots=True)
class Cell:
    """How many partitions two brokers or racks share; `shade` is 0 to 5."""

    other: str
    shared: int
    shade: int
    href: str
    is_worst: bool


@dataclass(frozen=True, slots=True)
class MatrixView:
    """The upper half of a matrix, by row: the name, and the cells from its own on. `kind` is "broker" or "rack"."""

    kind: str
    names: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]


def rows_url(run_id: int, **query: object) -> str:
    """Return the address of the partitions behind a number; values that are lists are repeated."""
    return f"/reports/{run_id}/partitions{'?' if query else ''}{urlencode(query, doseq=True)}"


def matrices(run_id: int, risk: Mapping[str, Any]) -> list[MatrixView]:
    """Return the matrix of brokers where the report has one, else that of racks if there is one."""
    worst = {tuple(map(str, row["brokers"])) for row in risk["worst_pairs"]}
    if risk["pair_matrix"] is not None:
        matrix = risk["pair_matrix"]
        return [_matrix(run_id, "broker", list(map(str, matrix["brokers"])), matrix["shared"], worst)]
    if risk["rack_matrix"] is not None:
        return [_matrix(run_id, "rack", risk["rack_matrix"]["racks"], risk["rack_matrix"]["shared"], set())]
    return []


def _matrix(
    run_id: int, kind: str, names: Sequence[str], shared: Sequence[Sequence[int]], worst: set[tuple[str, ...]]
) -> MatrixView:
    highest = max((row[at] for line, row in enumerate(shared) for at in range(line + 1, len(names))), default=0)

    def cell(line: int, at: int) -> Cell:
        count = shared[line][at]
        wanted = [names[line]] if line == at and kind == "broker" else [names[line], names[at]]
        shade = -(-5 * count // highest) if line != at and highest else 0
        is_worst = (names[line], names[at]) in worst
        return Cell(names[at], count, shade, rows_url(run_id, **{kind: wanted}), is_worst)

    size = range(len(names))
    return MatrixView(kind, names, [(names[line], [cell(line, at) for at in size if at >= line]) for line in size])


def read_filter(asked: Mapping[str, str], brokers: Sequence[str], racks: Sequence[str]) -> RowFilter:
    """Return what an address asks for. Raises UnknownDomainError for what is no number."""
    ids = []
    for text in brokers:
        broker = whole_number(text, 0, 2**31 - 1)
        if broker is None:
            raise UnknownDomainError(phrase("'%(text)s' is not a broker id.", text=text[:40]))
        ids.append(broker)
    margin = asked.get("margin", "")
    distance = whole_number(margin.removeprefix("-"), 0, 10_000)
    if margin and distance is None:
        raise UnknownDomainError(phrase("margin '%(text)s' is not a whole number.", text=margin[:40]))
    signed = None if distance is None else -distance if margin.startswith("-") else distance
    return RowFilter(brokers=tuple(ids), racks=tuple(racks), what=asked.get("what", "") or KINDS[0], margin=signed)


def in_words(wanted: RowFilter) -> str:
    """Return what is listed."""
    words: list[str] = [LABELS[wanted.what]]
    if wanted.brokers:
        ids = ids_text(wanted.brokers)
        words.append(phrases("on broker %(ids)s", "on each of brokers %(ids)s", len(wanted.brokers), ids=ids))
    if len(wanted.racks) == 2 and wanted.racks[0] == wanted.racks[1]:
        words.append(phrase("with two or more replicas in rack %(rack)s", rack=wanted.racks[0]))
    elif wanted.racks:
        racks = ", ".join(wanted.racks)
        words.append(phrases("in rack %(racks)s", "in each of racks %(racks)s", len(wanted.racks), racks=racks))
    if wanted.margin is not None:
        words.append(phrase("with margin %(margin)s", margin=wanted.margin))
    return joined(", ", filter(None, words)) or phrase("all")


@router.get("/reports/{run_id}/partitions")
async def rows(request: Request, _caller: Reader, run_id: int) -> Response:
    """Return the partitions of a report that an address asks for: `broker` and `rack` repeated, `what`, `margin`."""
    services, asked = services_of(request), request.query_params
    run = await known_report(services, run_id)
    assert run.result is not None, "known_report has checked"
    page = whole_number(asked.get("page", "1"), 1, 10**7) or 1
    try:
        wanted = read_filter(asked, asked.getlist("broker"), asked.getlist("rack"))
        wanted.check(run.result["body"])
        out = services.reports.folder_of(run_id) / "out"
        size = rows_on_page(request, ROWS_SHOWN)
        start = (page - 1) * size
        found, total = await asyncio.to_thread(partition_rows, out, wanted, offset=start, limit=size)
    except UnknownDomainError as unknown:
        raise BadRequestError(recognised(str(unknown))) from unknown
    except NoPlacementError as gone:
        raise GoneError(recognised(str(gone))) from gone
    query = urlencode([(name, value) for name, value in asked.multi_items() if name != "page"])
    view = RowsView(
        run_id,
        run.image_offset,
        in_words(wanted),
        total,
        found,
        page,
        max(1, -(-total // size)),
        f"{query}&" if query else "",
    )
    title = phrase("Partitions of report #%(id)s", id=run_id)
    return render(request, "report_rows.html", page=page_of(request, title, "/reports"), view=view)
