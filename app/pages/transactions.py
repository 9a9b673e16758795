"""Transactions: their states, coordinators, producers and for how long they are open."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.cluster.broker_answers import Answer
from app.cluster.transactions import ListedTransaction, TransactionList
from app.pages.frame import duration, number, page_items, page_of, render, whole_number
from app.services import Reader, services_of
from app.texts import phrase, sentence_of
from kraft_core.clients.admin.transactions import TransactionDescription

router = APIRouter(include_in_schema=False)

ROWS: Final = 50
PARTITIONS_SHOWN: Final = 20
STATES: Final = (
    phrase("Ongoing"),
    phrase("PrepareCommit"),
    phrase("PrepareAbort"),
    phrase("CompleteCommit"),
    phrase("CompleteAbort"),
    phrase("Empty"),
    phrase("Dead"),
)
OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """One transactional id; `why` says why cells are not known."""

    transactional_id: str
    state: str
    tone: str
    coordinator: int
    producer_id: int
    epoch: int | None
    open_for: str
    timeout: str
    partitions: str
    why: str


@dataclass(frozen=True, slots=True)
class TransactionsView:
    """Model of transactions.html: one page of the list, with the search and filter of its address."""

    search: str
    state: str
    rows: Sequence[TransactionRow]
    matching: int
    total: int
    page: int
    pages: int
    asked_at: dt.datetime | None
    notes: Sequence[str]
    is_answered: bool
    states: Sequence[str] = STATES

    @property
    def page_query(self) -> str:
        """The query for another page of the same list, to be completed with page=N."""
        given = {"q": self.search, "state": self.state}
        query = urlencode({name: value for name, value in given.items() if value})
        return f"{query}&" if query else ""

    @property
    def query(self) -> str:
        """The query for this same page."""
        return f"{self.page_query}page={self.page}"


def transaction_row(
    listed: ListedTransaction, answer: Answer[TransactionDescription], now: dt.datetime
) -> TransactionRow:
    """Return one row. A transaction that is open for longer than its timeout is not being ended as it should be."""
    found = answer.value
    open_for, tone, partitions, timeout = "", "", "", ""
    state = listed.state if found is None else found.state
    if found is not None:
        timeout = duration(max(0, found.timeout_ms))
        if found.start_time_ms >= 0 and state in OPEN:
            age_ms = max(0, int(now.timestamp() * 1000) - found.start_time_ms)
            open_for, tone = duration(age_ms), "bad" if age_ms > found.timeout_ms else "info"
        more = len(found.partitions) - PARTITIONS_SHOWN
        partitions = ", ".join(f"{topic}-{index}" for topic, index in sorted(found.partitions)[:PARTITIONS_SHOWN])
        if more > 0:
            partitions = phrase("%(names)s and %(count)s more", names=partitions, count=number(more))
    return TransactionRow(
        listed.transactional_id,
        next((each for each in STATES if each == state), state),
        tone,
        listed.coordinator,
        listed.producer_id,
        None if found is None else found.producer_epoch,
        open_for,
        timeout,
        partitions,
        sentence_of(answer.error)
        if answer.error is not None
        else ""
        if found
        else phrase("The coordinator has not answered yet."),
    )


def transaction_notes(listed: TransactionList) -> list[str]:
    """Return why transactions may be missing, a line for each broker."""
    notes: list[str] = [
        phrase("No list from broker %(id)s: %(error)s", id=broker_id, error=sentence_of(error))
        for broker_id, error in sorted(listed.errors.items())
    ]
    if listed.pending:
        notes.append(phrase("Not answered yet: broker %(ids)s.", ids=", ".join(map(str, listed.pending))))
    if listed.without_coordinator:
        ids = ", ".join(map(str, listed.without_coordinator))
        notes.append(
            phrase("Broker %(ids)s serves no transactions: its software has no transaction coordinator.", ids=ids)
        )
    if listed.missing is not None:
        notes.append(phrase("Transactions may be missing: %(why)s", why=listed.missing.text))
    return notes


async def transactions_view(request: Request, query: Mapping[str, str]) -> TransactionsView:
    """Return the page of an address; parameters that are not valid are ignored."""
    transactions = services_of(request).cluster.transactions
    search = query.get("q", "")[:2_000]
    wanted = next((each for each in STATES if each == query.get("state")), "")
    listed = await transactions.list()
    matching = [
        each
        for each in listed.transactions
        if search.lower() in each.transactional_id.lower() and wanted in {"", each.state}
    ]
    shown, page, pages = page_items(matching, whole_number(query.get("page", "1"), 1, 10**9) or 1, ROWS)
    details = await transactions.details({each.transactional_id: each.coordinator for each in shown})
    now = dt.datetime.now(dt.UTC)
    return TransactionsView(
        search,
        wanted,
        [transaction_row(each, details[each.transactional_id], now) for each in shown],
        len(matching),
        len(listed.transactions),
        page,
        pages,
        listed.asked_at,
        transaction_notes(listed),
        bool(listed.asked_at or listed.without_coordinator),
    )


@router.get("/transactions")
async def transactions(request: Request, _caller: Reader) -> Response:
    """Return the list."""
    view = await transactions_view(request, request.query_params)
    return render(
        request, "transactions.html", page=page_of(request, phrase("Transactions"), "/transactions"), view=view
    )
