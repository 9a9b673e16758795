"""The audit log: what users and programs did, newest first."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.db.models import AuditEvent
from app.pages.frame import page_of, render
from app.security.audit import AuditFilter
from app.services import Owner, Services, services_of
from app.texts import phrase

router = APIRouter(include_in_schema=False)

EVENTS_ON_PAGE: Final = 100
RESULTS: Final[Mapping[str, str]] = {"ok": phrase("ok"), "denied": phrase("denied"), "failed": phrase("failed")}


@dataclass(frozen=True, slots=True)
class AuditView:
    """Model of audit.html. `rows` are (event, details); `older` is the id that continues the list, None at its end.

    `live` is the address of the list without its frame, "" for a page of older events.
    """

    actor: str
    resource: str
    rows: Sequence[tuple[AuditEvent, str]]
    older: int | None
    live: str
    results: Mapping[str, str] = field(default_factory=lambda: RESULTS)


def _details(event: AuditEvent) -> str:
    return event.error or (json.dumps(event.detail, ensure_ascii=False, sort_keys=True) if event.detail else "")


async def audit_view(services: Services, actor: str, resource: str, before: int | None) -> AuditView:
    """Return the newest events that match, or those before an event."""
    wanted = AuditFilter(actor=actor.strip(), resource=resource.strip(), before_id=before)
    found = await services.security.events(wanted, EVENTS_ON_PAGE)
    rows = [(each, _details(each)) for each in found]
    live = f"/fragments/audit?{urlencode([('actor', actor), ('resource', resource)])}" if before is None else ""
    return AuditView(actor, resource, rows, found[-1].id if len(found) == EVENTS_ON_PAGE else None, live)


@router.get("/audit")
async def audit(
    request: Request, _caller: Owner, actor: str = "", resource: str = "", before: int | None = None
) -> Response:
    """Return the page."""
    view = await audit_view(services_of(request), actor, resource, before)
    return render(request, "audit.html", page=page_of(request, phrase("Audit"), "/audit"), view=view)


@router.get("/fragments/audit")
async def audit_fragment(request: Request, _caller: Owner, actor: str = "", resource: str = "") -> Response:
    """Return the newest events without the frame."""
    view = await audit_view(services_of(request), actor, resource, None)
    return render(request, "_audit.html", view=view)
