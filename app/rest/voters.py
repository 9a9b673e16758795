"""Changes of the quorum's voter set, in the style of REST v3."""

import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import Response

from app.cluster.voter_changes import FaultTolerance, VoterChange
from app.error_responses import NATIVE
from app.rest.responses import answer, checked, created, no_content
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.voters import AddVoterBody, VoterChangeData
from app.rest.view import NowViewDep, View
from app.services import Admin, ServicesDep
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text

router = APIRouter(prefix="/v3/clusters/{cluster_id}/quorum/voters", tags=[NATIVE, "quorum"], route_class=JsonRoute)

_REFUSED: dict[int | str, dict[str, Any]] = {
    400: {"description": "malformed directory id; kraft.version is 0; no endpoint for the leader's listener"},
    503: {"description": "no leader responds"},
    504: {"description": "the leader did not commit the change in time; whether it took effect is unknown"},
}


def _directory_id(text: str) -> uuid.UUID:
    """Return the directory id that a text spells. Raises KafkaError INVALID_VOTER_KEY."""
    try:
        found = uuid_from_text(text)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_VOTER_KEY, f"directory_id: {error}") from None
    if found == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_VOTER_KEY, f"directory_id {text} is the zero id, which no voter has.")
    return found


def _voter_set(tolerance: FaultTolerance) -> dict[str, Any]:
    return {
        "voter_ids": list(tolerance.voter_ids),
        "behind_voter_ids": list(tolerance.behind),
        "majority": tolerance.majority,
        "failures_tolerated": tolerance.failures_tolerated,
        "failures_tolerated_now": tolerance.failures_tolerated_now,
    }


def _change_data(view: View, change: VoterChange) -> dict[str, Any]:
    return view.resource(
        "KafkaQuorumVoterChange",
        ("quorum",),
        (("quorum", ""),),
        operation=change.operation,
        voter_id=change.voter_id,
        directory_id=uuid_to_text(change.directory_id),
        endpoints=[{"name": name, "host": host, "port": port} for name, host, port in change.endpoints],
        before=_voter_set(change.before),
        after=_voter_set(change.after),
        checks=[{"name": each.name, "is_met": each.is_met, "detail": each.detail} for each in change.checks],
        warnings=list(change.warnings),
        offset=change.offset,
    )


@router.post(
    "",
    status_code=201,
    responses={
        200: {"model": VoterChangeData, "description": "result of `validate_only`"},
        201: {"model": VoterChangeData},
        409: {"description": "already a voter; not an observer, or not caught up; another change pending; no majority"},
        **_REFUSED,
    },
)
async def add_voter(
    body: AddVoterBody, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Add an observer to the voters: 201 once the change is committed; 200 and no change with `validate_only`.

    This process checks the preconditions first, and is stricter than the leader. `checks` in the answer has the result
    of each, also when the change is refused.
    """
    change = await services.actions.voters.add(
        caller,
        body.voter_id,
        _directory_id(body.directory_id),
        tuple((at.name, at.host, at.port) for at in body.endpoints),
        validate_only=validate_only,
    )
    return created(_change_data(view, change), change.offset, validate_only=validate_only)


@router.delete(
    "/{voter_id}/{directory_id}",
    status_code=204,
    responses={
        200: {"model": VoterChangeData, "description": "result of `validate_only`"},
        404: {"description": "not a voter with this directory id, or the last voter"},
        409: {"description": "another change pending; no majority afterwards"},
        **_REFUSED,
    },
)
async def remove_voter(
    voter_id: Annotated[int, Path(ge=0, le=2**31 - 1)],
    directory_id: str,
    view: NowViewDep,
    services: ServicesDep,
    caller: Admin,
    validate_only: DryRun,
) -> Response:
    """Remove a voter: 204 once the change is committed; 200 and no change with `validate_only=true`."""
    change = await services.actions.voters.remove(
        caller, voter_id, _directory_id(directory_id), validate_only=validate_only
    )
    if validate_only:
        return answer(checked(_change_data(view, change), validate_only=True), None)
    return no_content(change.offset)
