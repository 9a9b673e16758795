"""Voters added to the quorum and taken out of it: what REST v3 lacks, in its style. For admins."""

import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import Response

from app.answers import NATIVE
from app.cluster.voter_changes import Standing, VoterChange
from app.rest.common import VALIDATED, View, ViewDep, answer, no_content
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.voters import AddVoterBody, VoterChangeData
from app.services import Admin, ServicesDep
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text

router = APIRouter(prefix="/v3/clusters/{cluster_id}/quorum/voters", tags=[NATIVE, "quorum"], route_class=JsonRoute)

_REFUSED: dict[int | str, dict[str, Any]] = {
    400: {"description": "not a directory id; kraft.version is 0; no endpoint for the leader's listener"},
    503: {"description": "no leader answers"},
    504: {"description": "the leader did not commit it in time; whether it took effect is not known"},
}


def _directory_id(text: str) -> uuid.UUID:
    """Read a directory id. Raises KafkaError INVALID_VOTER_KEY."""
    try:
        found = uuid_from_text(text)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_VOTER_KEY, f"directory_id: {error}") from None
    if found == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_VOTER_KEY, "directory_id: no voter has the zero id.")
    return found


def _voter_set(standing: Standing) -> dict[str, Any]:
    return {
        "voter_ids": list(standing.voter_ids),
        "behind_voter_ids": list(standing.behind),
        "majority": standing.majority,
        "failures_tolerated": standing.failures_tolerated,
        "failures_tolerated_now": standing.failures_tolerated_now,
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
        200: {"model": VoterChangeData, "description": "what `validate_only` found"},
        201: {"model": VoterChangeData},
        409: {
            "description": "a voter already; not an observer, or not caught up; another change under way; no majority"
        },
        **_REFUSED,
    },
)
async def add_voter(
    body: AddVoterBody, view: ViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Make an observer a voter: 201 once it is one; 200 and no change with `validate_only`.

    The preconditions are checked first, whatever the leader itself would let pass; `checks` in the answer says how each
    turned out, also when the change is refused.
    """
    change = await services.actions.voters.add(
        caller,
        body.voter_id,
        _directory_id(body.directory_id),
        tuple((at.name, at.host, at.port) for at in body.endpoints),
        validate_only=validate_only,
    )
    if validate_only:
        return answer(_change_data(view, change) | VALIDATED, None)
    return answer(_change_data(view, change), change.offset, 201)


@router.delete(
    "/{voter_id}/{directory_id}",
    status_code=204,
    responses={
        200: {"model": VoterChangeData, "description": "what `validate_only` found"},
        404: {"description": "not a voter with this directory, or the last voter"},
        409: {"description": "another change under way; no majority afterwards"},
        **_REFUSED,
    },
)
async def remove_voter(
    voter_id: Annotated[int, Path(ge=0, le=2**31 - 1)],
    directory_id: str,
    view: ViewDep,
    services: ServicesDep,
    caller: Admin,
    validate_only: DryRun,
) -> Response:
    """Take a voter out of the quorum: 204 once it is none; 200 and no change with `validate_only=true`."""
    change = await services.actions.voters.remove(
        caller, voter_id, _directory_id(directory_id), validate_only=validate_only
    )
    return answer(_change_data(view, change) | VALIDATED, None) if validate_only else no_content(change.offset)
