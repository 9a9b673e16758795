"""The columns of wide tables, chosen by the reader and kept in a cookie for each table.

A template asks `columns_of(TABLE)` and leaves out the cells of hidden columns, so that downloads, which read the cells
of the page, have the same columns. The first column, which names the row, is always shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.http.errors import BadRequestError
from app.http.locations import redirect, safe_next
from app.pages.theme import YEAR_SECONDS
from app.services import Anyone
from app.texts import phrase

router = APIRouter(include_in_schema=False)

COOKIE_PREFIX: Final = "columns-"
NONE: Final = "none"
"""The cookie of a reader who has hidden all columns that can be hidden."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that can be hidden: its key, its head, and whether it is shown before anything was chosen."""

    key: str
    label: str
    is_usual: bool = True


TABLES: Final[Mapping[str, Sequence[Column]]] = {
    "topics": (
        Column("partitions", phrase("Partitions")),
        Column("replication-factor", phrase("Replication factor")),
        Column("min-isr", phrase("Min ISR")),
        Column("health", phrase("Health")),
        Column("cleanup-policy", phrase("Cleanup policy")),
        Column("retention", phrase("Retention"), is_usual=False),
        Column("size", phrase("Size")),
        Column("rate", phrase("Records/s"), is_usual=False),
        Column("overrides", phrase("Overrides")),
        Column("last-change", phrase("Last change")),
        Column("topic-id", phrase("Topic id"), is_usual=False),
    ),
    "partitions": (
        Column("leader", phrase("Leader")),
        Column("replicas", phrase("Replicas")),
        Column("isr", phrase("ISR")),
        Column("state", phrase("State")),
        Column("leader-epoch", phrase("Leader epoch")),
        Column("partition-epoch", phrase("Partition epoch")),
    ),
    "brokers": (
        Column("state", phrase("State")),
        Column("rack", phrase("Rack")),
        Column("endpoints", phrase("Endpoints")),
        Column("replicas", phrase("Replicas")),
        Column("leaders", phrase("Leaders")),
        Column("out-of-sync", phrase("Out of sync")),
        Column("size", phrase("Size")),
        Column("broker-epoch", phrase("Broker epoch")),
    ),
    "groups": (
        Column("type", phrase("Type")),
        Column("state", phrase("State")),
        Column("members", phrase("Members")),
        Column("lag", phrase("Lag")),
        Column("trend", phrase("Last minutes")),
        Column("coordinator", phrase("Coordinator")),
    ),
}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one table; iterating yields each with whether it is shown."""

    table: str
    shown: frozenset[str]

    def __contains__(self, key: str) -> bool:
        return key in self.shown

    def __iter__(self) -> Iterator[tuple[Column, bool]]:
        return ((column, column.key in self.shown) for column in TABLES[self.table])


def columns_of(request: Request, table: str) -> Columns:
    """Return the columns that the reader has chosen; keys that do not exist are ignored."""
    kept = request.cookies.get(COOKIE_PREFIX + table)
    if kept is None:
        return Columns(table, frozenset(column.key for column in TABLES[table] if column.is_usual))
    wanted = kept.split(".")
    return Columns(table, frozenset(column.key for column in TABLES[table] if column.key in wanted))


@router.post("/columns")
async def choose(
    request: Request,
    _caller: Anyone,
    table: Annotated[str, Form()] = "",
    column: Annotated[list[str] | None, Form()] = None,
    usual: Annotated[str, Form()] = "",
    back: Annotated[str, Form()] = "/",
) -> Response:
    """Keep the columns of a table and return to the page `back`; with `usual` show the usual ones again."""
    if table not in TABLES:
        raise BadRequestError(
            phrase("table: '%(table)s' is not one of %(tables)s.", table=table[:40], tables=", ".join(TABLES))
        )
    response = redirect(safe_next(back))
    if usual:
        response.delete_cookie(COOKIE_PREFIX + table)
        return response
    keys = [each.key for each in TABLES[table] if each.key in (column or ())]
    response.set_cookie(
        COOKIE_PREFIX + table, ".".join(keys) or NONE, max_age=YEAR_SECONDS, samesite="lax", httponly=True
    )
    return response
