"""Adding and removing a voter, with a preview of the quorum afterwards and the preconditions."""

import uuid
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from app.actions.audited import Caller
from app.cluster.voter_changes import FaultTolerance, VoterChange, VoterChangeRefused
from app.http.errors import CHANGE_REFUSED, NotFoundError
from app.pages.confirm import ConfirmView, cluster_curl, confirm_page
from app.pages.flash import Flash
from app.pages.frame import REFUSALS, UNKNOWN, go_to, ids_text, refusal
from app.services import Admin, services_of
from app.texts import phrase
from kraft_core.protocol.uuids import uuid_from_text, uuid_to_text

router = APIRouter(include_in_schema=False, prefix="/quorum/voters/{voter_id}/{directory_id}")

VoterId = Annotated[int, Path(ge=0, le=2**31 - 1)]
Operation = Literal["add", "remove"]


def _directory_id(text: str) -> uuid.UUID:
    """Return the directory id of an address. Raises NotFoundError."""
    try:
        return uuid_from_text(text)
    except ValueError:
        raise NotFoundError(f"'{text[:40]}' is not a directory id.") from None


def change_rows(before: FaultTolerance, after: FaultTolerance) -> list[tuple[str, str, str]]:
    """Return what changes: (what, current, new)."""
    rows: list[tuple[str, str, str]] = [
        (phrase("Voters"), ids_text(before.voter_ids), ids_text(after.voter_ids)),
        (
            phrase("Majority"),
            _majority(before),
            _majority(after) if after.voter_ids else UNKNOWN,
        ),
        (phrase("Tolerated failures, all voters up"), str(before.failures_tolerated), str(after.failures_tolerated)),
    ]
    if before.behind or after.behind:
        now, then = str(before.failures_tolerated_now), str(after.failures_tolerated_now)
        rows += [
            (phrase("Voters behind or silent now"), ids_text(before.behind), ids_text(after.behind)),
            (phrase("Tolerated failures now"), now, then),
        ]
    return rows


def done_text(change: VoterChange) -> str:
    """Return what a change has done."""
    before, after = change.before, change.after
    at = {"id": change.voter_id, "offset": change.offset}
    if change.operation == "ADD":
        done = phrase("Voter %(id)s added at offset %(offset)s.", **at)
    else:
        done = phrase("Voter %(id)s removed at offset %(offset)s.", **at)
    return phrase(
        "%(done)s Voters: %(voters_before)s → %(voters)s; majority: %(majority_before)s → %(majority)s;"
        " tolerated failures: %(failures_before)s → %(failures)s.",
        done=done,
        voters_before=ids_text(before.voter_ids),
        voters=ids_text(after.voter_ids),
        majority_before=_majority(before),
        majority=_majority(after),
        failures_before=before.failures_tolerated,
        failures=after.failures_tolerated,
    )


def _majority(voters: FaultTolerance) -> str:
    return phrase("%(part)s of %(whole)s", part=voters.majority, whole=len(voters.voter_ids))


def _command(change: VoterChange, servers: str) -> str:
    where = f"--bootstrap-controller {servers}"
    if change.operation == "ADD":
        return (
            f"# on node {change.voter_id}, with its server.properties\nconclave quorum add {where} -c server.properties"
        )
    key = f"--controller-id {change.voter_id} --controller-directory-id {uuid_to_text(change.directory_id)}"
    return f"conclave quorum remove {where} \\\n  {key}"


def confirm_view(request: Request, change: VoterChange, error: str) -> ConfirmView:
    """Return the preview. An `error` removes the button."""
    is_add, node, directory = change.operation == "ADD", change.voter_id, uuid_to_text(change.directory_id)
    body: dict[str, Any] = {
        "voter_id": node,
        "directory_id": directory,
        "endpoints": [{"name": name, "host": host, "port": port} for name, host, port in change.endpoints],
    }
    title = phrase("Add voter %(id)s", id=node) if is_add else phrase("Remove voter %(id)s", id=node)
    return ConfirmView(
        title=title,
        active="/quorum",
        back=phrase("Quorum"),
        back_url="/quorum",
        action=f"/quorum/voters/{node}/{directory}/{'add' if is_add else 'remove'}",
        button=title,
        changes=change_rows(change.before, change.after),
        checks=[(check.is_met, check.detail) for check in change.checks],
        consequences=change.warnings,
        curl=cluster_curl(request, "POST", "quorum/voters", body)
        if is_add
        else cluster_curl(request, "DELETE", f"quorum/voters/{node}/{directory}"),
        command=_command(change, ",".join(services_of(request).settings.bootstrap_controllers)),
        dangerous=not is_add,
        error=error,
    )


async def _answer(
    request: Request, caller: Caller, operation: Operation, voter_id: int, directory_id: str, *, validate_only: bool
) -> Response:
    """Return the preview, or make the change and return to the quorum.

    A refused change is previewed with the quorum as it is after the refusal, which a newer change may have caused.
    """
    actions, key = services_of(request).actions, _directory_id(directory_id)

    async def make(*, validate_only: bool) -> VoterChange:
        send = actions.voters.add if operation == "add" else actions.voters.remove
        return await send(caller, voter_id, key, validate_only=validate_only)

    error: str = ""
    status = 200
    try:
        change = await make(validate_only=validate_only)
        if not validate_only:
            return go_to(request, "/quorum", Flash("good", done_text(change)))
    except VoterChangeRefused as refused:
        change, status = refused.change, 200 if validate_only else CHANGE_REFUSED
        error = phrase("Not all preconditions are met. Nothing has changed.")
    except REFUSALS as refused:
        error, status = refusal(refused)
        try:
            change = await make(validate_only=True)
        except VoterChangeRefused as still_refused:
            change = still_refused.change
        except REFUSALS:
            return go_to(request, "/quorum", Flash("bad", error))
    return confirm_page(request, confirm_view(request, change, error), status)


@router.get("/add")
async def add_form(request: Request, caller: Admin, voter_id: VoterId, directory_id: str) -> Response:
    """Return the preview of making an observer a voter."""
    return await _answer(request, caller, "add", voter_id, directory_id, validate_only=True)


@router.post("/add")
async def add(request: Request, caller: Admin, voter_id: VoterId, directory_id: str) -> Response:
    """Make an observer a voter."""
    return await _answer(request, caller, "add", voter_id, directory_id, validate_only=False)


@router.get("/remove")
async def remove_form(request: Request, caller: Admin, voter_id: VoterId, directory_id: str) -> Response:
    """Return the preview of removing a voter."""
    return await _answer(request, caller, "remove", voter_id, directory_id, validate_only=True)


@router.post("/remove")
async def remove(request: Request, caller: Admin, voter_id: VoterId, directory_id: str) -> Response:
    """Remove a voter."""
    return await _answer(request, caller, "remove", voter_id, directory_id, validate_only=False)
