"""A voter added or removed: first what that would do and what must hold, then the button."""

import uuid
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from app.cluster.voter_changes import Standing, VoterChange, VoterChangeRefused
from app.http.errors import ApiError
from app.pages.confirm import ConfirmView
from app.pages.flash import Flash
from app.pages.frame import go_to, page_of, refusal, render
from app.pages.topic import curl
from app.services import Admin, services_of
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.uuids import uuid_from_text, uuid_to_text

router = APIRouter(include_in_schema=False, prefix="/quorum/voters/{voter_id}/{directory_id}")

VoterId = Annotated[int, Path(ge=0, le=2**31 - 1)]
Make = Callable[[bool], Awaitable[VoterChange]]
"""Make the change, or with True only look."""


def _directory_id(text: str) -> uuid.UUID:
    """Read the directory id of an address. Raises ApiError 404."""
    try:
        return uuid_from_text(text)
    except ValueError:
        raise ApiError(404, f"'{text[:40]}' is not a directory id.") from None


def _ids(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids)) or "none"


def change_rows(before: Standing, after: Standing) -> list[tuple[str, str, str]]:
    """What changes: (what, now, afterwards)."""
    rows = [
        ("Voters", _ids(before.voter_ids), _ids(after.voter_ids)),
        (
            "A decision needs",
            f"{before.majority} of {len(before.voter_ids)}",
            f"{after.majority} of {len(after.voter_ids)}" if after.voter_ids else "\N{EN DASH}",
        ),
        ("Failures tolerated, all being well", str(before.failures_tolerated), str(after.failures_tolerated)),
    ]
    if before.behind or after.behind:
        now, then = str(before.failures_tolerated_now), str(after.failures_tolerated_now)
        rows += [
            ("Behind or silent at this moment", _ids(before.behind), _ids(after.behind)),
            ("Failures tolerated at this moment", now, then),
        ]
    return rows


def done_text(change: VoterChange) -> str:
    """What a change that is made has changed."""
    before, after, node = change.before, change.after, change.voter_id
    done = f"Node {node} is a voter" if change.operation == "ADD" else f"Node {node} is no voter any more"
    return (
        f"{done} since offset {change.offset}. Voters: {_ids(before.voter_ids)} → {_ids(after.voter_ids)};"
        f" a decision needs {after.majority} of {len(after.voter_ids)} (was {before.majority} of {len(before.voter_ids)});"
        f" failures tolerated, all being well: {before.failures_tolerated} → {after.failures_tolerated}."
    )


def _command(change: VoterChange, servers: str) -> str:
    where = f"--bootstrap-controller {servers}"
    if change.operation == "ADD":
        return f"# on node {change.voter_id}, with its settings\nconclave quorum add {where} -c server.properties"
    key = f"--controller-id {change.voter_id} --controller-directory-id {uuid_to_text(change.directory_id)}"
    return f"conclave quorum remove {where} \\\n  {key}"


def confirm_view(request: Request, change: VoterChange, error: str) -> ConfirmView:
    """The change as confirm.html shows it. An `error` takes the button away."""
    services = services_of(request)
    is_add, node, directory = change.operation == "ADD", change.voter_id, uuid_to_text(change.directory_id)
    body: dict[str, Any] = {
        "voter_id": node,
        "directory_id": directory,
        "endpoints": [{"name": name, "host": host, "port": port} for name, host, port in change.endpoints],
    }
    return ConfirmView(
        back="Quorum",
        back_url="/quorum",
        action=f"/quorum/voters/{node}/{directory}/{'add' if is_add else 'remove'}",
        button=f"Make node {node} a voter" if is_add else f"Remove voter {node}",
        changes=change_rows(change.before, change.after),
        checks=[(check.is_met, check.detail) for check in change.checks],
        consequences=change.warnings,
        curl=curl(request, services, "POST", "quorum/voters", body)
        if is_add
        else curl(request, services, "DELETE", f"quorum/voters/{node}/{directory}"),
        command=_command(change, ",".join(services.settings.bootstrap_controllers)),
        dangerous=not is_add,
        error=error,
    )


async def _answer(
    request: Request, kind: Literal["add", "remove"], node: int, make: Make, *, only_look: bool
) -> Response:
    """Show the change, or make it and go back to the quorum."""
    error, status, change = "", 200, None
    try:
        change = await make(only_look)
    except VoterChangeRefused as refused:
        change, status = refused.change, 200 if only_look else 409
        error = "This cannot be done now: not everything that must hold does. Nothing has changed."
    except (KafkaError, ConnectionError) as refused:
        error, status = refusal(refused)
        change = await _look_again(make)
    if change is not None and change.offset is not None:
        return go_to(request, "/quorum", Flash("good", done_text(change)))
    if change is None:
        return go_to(request, "/quorum", Flash("bad", error))
    title = f"Make node {node} a voter" if kind == "add" else f"Remove voter {node}"
    view = confirm_view(request, change, error)
    return render(request, "confirm.html", status, page=page_of(request, title, "/quorum"), view=view)


async def _look_again(make: Make) -> VoterChange | None:
    """What the leader's refusal left behind; None when nobody answers."""
    try:
        return await make(True)
    except VoterChangeRefused as refused:
        return refused.change
    except (KafkaError, ConnectionError):
        return None


async def _add(request: Request, caller: Admin, voter_id: int, directory_id: str, *, only_look: bool) -> Response:
    key = _directory_id(directory_id)
    actions = services_of(request).actions
    return await _answer(
        request,
        "add",
        voter_id,
        lambda look: actions.voters.add(caller, voter_id, key, validate_only=look),
        only_look=only_look,
    )


async def _remove(request: Request, caller: Admin, voter_id: int, directory_id: str, *, only_look: bool) -> Response:
    key = _directory_id(directory_id)
    actions = services_of(request).actions
    return await _answer(
        request,
        "remove",
        voter_id,
        lambda look: actions.voters.remove(caller, voter_id, key, validate_only=look),
        only_look=only_look,
    )


@router.get("/add")
async def add_form(request: Request, caller: Admin, voter_id: VoterId, directory_id: str) -> Response:
    """What making this observer a voter does."""
    return await _add(request, caller, voter_id, directory_id, only_look=True)


@router.post("/add")
async def add(request: Request, caller: Admin, voter_id: VoterId, directory_id: str) -> Response:
    """Make it one."""
    return await _add(request, caller, voter_id, directory_id, only_look=False)


@router.get("/remove")
async def remove_form(request: Request, caller: Admin, voter_id: VoterId, directory_id: str) -> Response:
    """What taking this voter out does."""
    return await _remove(request, caller, voter_id, directory_id, only_look=True)


@router.post("/remove")
async def remove(request: Request, caller: Admin, voter_id: VoterId, directory_id: str) -> Response:
    """Take it out."""
    return await _remove(request, caller, voter_id, directory_id, only_look=False)
