"""SCRAM users of the cluster, in the style of REST v3."""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import Response

from app.error_responses import NATIVE
from app.rest.paging import PageDep
from app.rest.responses import DRY_RUN, answer, no_content, planned
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.scram import ScramName, ScramUserBody, ScramUserData, ScramUserDataList
from app.rest.view import NowViewDep, View, ViewDep
from app.services import Admin, ServicesDep
from kraft_core.image.scram_mechanism import SCRAM_MECHANISMS, SCRAM_MECHANISMS_BY_TYPE, ScramMechanism
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=[NATIVE, "scram-users"], route_class=JsonRoute)


def _mechanism(name: str) -> ScramMechanism:
    found = SCRAM_MECHANISMS.get(name.upper())
    if found is None:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"mechanism '{name[:40]}' is not one of {', '.join(SCRAM_MECHANISMS)}.",
        )
    return found


def _credentials(view: View) -> dict[str, list[dict[str, Any]]]:
    """Return by user the mechanism and iterations of each credential, and no secret."""
    users: dict[str, list[dict[str, Any]]] = {}
    for kind in sorted(view.image.scram):
        for name, credential in view.image.scram[kind].items():
            shown = {"mechanism": SCRAM_MECHANISMS_BY_TYPE[kind].name, "iterations": credential.iterations}
            users.setdefault(name, []).append(shown)
    return users


def _user_data(view: View, name: str, credentials: list[dict[str, Any]]) -> dict[str, Any]:
    path = ("scram-users", name)
    return view.resource("KafkaScramUser", path, (("scram-user", name),), user_name=name, credentials=credentials)


@router.get("/scram-users", responses={200: {"model": ScramUserDataList}})
async def list_scram_users(view: ViewDep, page: PageDep, _caller: Admin) -> Response:
    """List the users that log in to the cluster with SCRAM, without anything derived from their passwords."""
    users = sorted(_credentials(view).items())
    return page.answer("KafkaScramUserList", users, lambda item: item[0], lambda item: _user_data(view, *item))


@router.get("/scram-users/{user_name}", responses={200: {"model": ScramUserData}})
async def get_scram_user(user_name: str, view: ViewDep, _caller: Admin) -> Response:
    """Describe one SCRAM user."""
    found = _credentials(view).get(user_name)
    if found is None:
        raise view.not_found(f"SCRAM user {user_name}")
    return answer(_user_data(view, user_name, found), view.offset)


@router.put("/scram-users/{user_name}/credentials/{mechanism}", status_code=204, responses=DRY_RUN)
async def put_scram_user(
    user_name: Annotated[ScramName, Path()],
    mechanism: str,
    body: ScramUserBody,
    view: NowViewDep,
    services: ServicesDep,
    caller: Admin,
    validate_only: DryRun,
) -> Response:
    """Set a user's password for one mechanism."""
    found = _mechanism(mechanism)
    offset = await services.actions.scram.put(
        caller, user_name, found, body.password, body.iterations, validate_only=validate_only
    )
    after = {"mechanism": found.name, "iterations": body.iterations}
    return _planned(view, user_name, found, after) if validate_only else no_content(offset)


@router.delete("/scram-users/{user_name}/credentials/{mechanism}", status_code=204, responses=DRY_RUN)
async def delete_scram_user(
    user_name: str, mechanism: str, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Delete a user's password for one mechanism."""
    found = _mechanism(mechanism)
    offset = await services.actions.scram.delete(caller, user_name, found, validate_only=validate_only)
    return _planned(view, user_name, found, None) if validate_only else no_content(offset)


def _planned(view: View, name: str, mechanism: ScramMechanism, after: dict[str, Any] | None) -> Response:
    credentials = _credentials(view).get(name, [])
    before = next((each for each in credentials if each["mechanism"] == mechanism.name), None)
    return planned([(f"SCRAM user {name}", before, after)])
