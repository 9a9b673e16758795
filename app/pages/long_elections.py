"""The page of an election of very many partitions: its progress, and the result of each partition."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.actions.audited import Caller
from app.actions.election_store import LongElection
from app.actions.long_elections import ElectionRunningError
from app.cluster.partitions import Partition
from app.http.errors import NotFoundError
from app.pages.flash import Flash
from app.pages.frame import counted, go_to, page_items, page_of, render, rows_on_page, whole_number
from app.pages.shared_parts import shared
from app.services import Reader, Services, services_of
from app.texts import phrase
from kraft_core.clients.admin.partitions import ElectionType

router = APIRouter(include_in_schema=False)

ROWS: Final = 100


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """What has become of one partition, with the tone of its tag; a refusal has none."""

    topic: str
    partition: int
    text: str
    tone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LongElectionView:
    """Model of long_election.html. `brokers` are (id, leaders before, leaders now)."""

    url: str
    title: str
    state: str
    done: int
    total: int
    elected: int
    failed: int
    offset: int | None
    by: str
    begun_at: dt.datetime
    ended_at: dt.datetime | None
    waits_for: str
    stopped_by: str
    brokers: Sequence[tuple[int, int, int]]
    rows: Sequence[OutcomeRow]
    page: int
    pages: int

    @property
    def left(self) -> int:
        """Partitions that have not been answered."""
        return self.total - self.done


def path_of(held: LongElection) -> str:
    """Return the address of the page of an election."""
    return f"/elections/{held.id}"


def title_of(held: LongElection) -> str:
    """Return what an election is called on pages."""
    partitions = counted(len(held.partitions), "partition")
    if held.election is ElectionType.UNCLEAN:
        return phrase("Unclean election of %(partitions)s", partitions=partitions)
    return phrase("Election of %(partitions)s", partitions=partitions)


async def begin(request: Request, caller: Caller, election: ElectionType, partitions: Sequence[Partition]) -> Response:
    """Begin an election, and go to its page; to that of another one while it is being held."""
    try:
        held = await services_of(request).actions.long_elections.begin(caller, election, partitions)
    except ElectionRunningError as refused:
        text = phrase("This election is being held. Another one can begin when it has ended; nothing was begun.")
        return go_to(request, path_of(refused.running), Flash("warn", text))
    return go_to(request, path_of(held))


@router.get("/elections/{election_id}")
@shared
async def long_election(request: Request, _caller: Reader, election_id: str) -> Response:
    """Return the page. Raises NotFoundError for an unknown election."""
    services = services_of(request)
    held = await services.actions.long_elections.get(election_id)
    if held is None:
        text = phrase("The election is not known: the last five are kept. What was elected is in the audit.")
        raise NotFoundError(text)
    number = whole_number(request.query_params.get("page", "1"), 1, 10**9) or 1
    view = _view(services, held, number, rows_on_page(request, ROWS))
    page = page_of(request, view.title, "/topics")
    return render(request, "long_election.html", page=page, view=view)


def _view(services: Services, held: LongElection, number: int, rows_max: int) -> LongElectionView:
    shown, page, pages = page_items(held.refused_first(), number, rows_max)
    return LongElectionView(
        url=path_of(held),
        title=title_of(held),
        state=held.state,
        done=held.done,
        total=len(held.partitions),
        elected=held.elected,
        failed=len(held.failures),
        offset=held.offset,
        by=held.by,
        begun_at=held.begun_at,
        ended_at=held.ended_at,
        waits_for=held.waits_for,
        stopped_by=held.stopped_by,
        brokers=_brokers(services, held),
        rows=[_row(held, each) for each in shown],
        page=page,
        pages=pages,
    )


def _brokers(services: Services, held: LongElection) -> list[tuple[int, int, int]]:
    """Return the leaders of each broker before the election and now, those that changed most first."""
    now = services.cluster.topic_table.totals().leaders_of
    brokers = {*services.cluster.image.cluster.brokers, *now, *held.leaders_before}
    rows = [(broker, held.leaders_before.get(broker, 0), now.get(broker, 0)) for broker in brokers]
    return sorted(rows, key=lambda row: (-abs(row[2] - row[1]), row[0]))


def _row(held: LongElection, key: Partition) -> OutcomeRow:
    state, error = held.outcome(key)
    if error is not None:
        return OutcomeRow(*key, f"{error.message} ({error.code.name})", "")
    if state == "elected":
        return OutcomeRow(*key, phrase("elected"), "good")
    return OutcomeRow(*key, phrase("not elected") if held.stopped_by else phrase("waiting"), "warn")
