"""SCRAM users of the cluster: setting a password, and deleting a credential with a preview."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.http.errors import FORM_REFUSED
from app.pages.access_control import DEFAULT_ITERATIONS, TITLE, scram_page
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import REFUSALS, go_to, refusal, whole_number
from app.services import Admin, services_of
from app.texts import phrase
from kraft_core.image.scram_mechanism import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(include_in_schema=False, prefix="/rights/scram")


def _unknown(mechanism: str) -> str:
    allowed = ", ".join(SCRAM_MECHANISMS)
    return phrase("'%(text)s' is not one of %(allowed)s.", text=mechanism[:40], allowed=allowed)


@router.post("")
async def put_scram_user(
    request: Request,
    caller: Admin,
    name: Annotated[str, Form()] = "",
    mechanism: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
    iterations: Annotated[str, Form()] = str(DEFAULT_ITERATIONS),
) -> Response:
    """Set a user's password. There is no preview, so that the password travels once."""
    services, name = services_of(request), name.strip()
    found = SCRAM_MECHANISMS.get(mechanism)
    count = whole_number(iterations, MIN_ITERATIONS, MAX_ITERATIONS)
    wrong = {
        phrase("The user name is empty."): not name,
        _unknown(mechanism): found is None,
        phrase("The password is empty."): not password,
        phrase(
            "Iterations must be a whole number from %(least)s to %(most)s.", least=MIN_ITERATIONS, most=MAX_ITERATIONS
        ): count is None,
    }
    given = {"scram-name": name, "scram-mechanism": mechanism, "scram-iterations": iterations}
    if any(wrong.values()) or found is None or count is None:
        return scram_page(request, next(text for text, holds in wrong.items() if holds), FORM_REFUSED, given)
    existed = name in services.cluster.image.scram.get(found.type, {})
    try:
        offset = await services.actions.scram.put(caller, name, found, password, count)
    except REFUSALS as refused:
        return scram_page(request, *refusal(refused), given)
    given = {"mechanism": found.name, "name": name, "offset": str(offset)}
    changed = phrase("%(mechanism)s credential of %(name)s changed at offset %(offset)s.", **given)
    created = phrase("%(mechanism)s credential of %(name)s created at offset %(offset)s.", **given)
    return go_to(request, "/rights/scram", Flash("good", changed if existed else created))


@router.post("/delete")
async def delete_scram_user(
    request: Request,
    caller: Admin,
    name: Annotated[str, Form()] = "",
    mechanism: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview the deletion of a credential; with confirmed=yes delete it."""
    found = SCRAM_MECHANISMS.get(mechanism)
    if found is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _unknown(mechanism))

    async def apply() -> Flash:
        offset = await services_of(request).actions.scram.delete(caller, name, found)
        given = {"mechanism": found.name, "name": name, "offset": str(offset)}
        return Flash("good", phrase("%(mechanism)s credential of %(name)s deleted at offset %(offset)s.", **given))

    view = ConfirmView(
        title=phrase("Delete SCRAM credential of %(name)s", name=name),
        active="/rights",
        back=TITLE,
        back_url="/rights/scram",
        action="/rights/scram/delete",
        button=phrase("Delete credential"),
        changes=[
            (
                phrase("%(mechanism)s credential of %(name)s", mechanism=found.name, name=name),
                phrase("exists"),
                phrase("deleted"),
            )
        ],
        consequences=[phrase("Open connections stay until they must authenticate again.")],
        curl=cluster_curl(request, "DELETE", f"scram-users/{name}/credentials/{found.name}"),
        fields=[("name", name), ("mechanism", found.name)],
        dangerous=True,
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply)
