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
from kraft_core.image.scram_mechanism import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(include_in_schema=False, prefix="/rights/scram")


def _unknown(mechanism: str) -> str:
    return f"'{mechanism[:40]}' is not one of {', '.join(SCRAM_MECHANISMS)}."


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
        "The user name is empty.": not name,
        _unknown(mechanism): found is None,
        "The password is empty.": not password,
        f"Iterations must be a whole number from {MIN_ITERATIONS} to {MAX_ITERATIONS}.": count is None,
    }
    given = {"scram-name": name, "scram-mechanism": mechanism, "scram-iterations": iterations}
    if any(wrong.values()) or found is None or count is None:
        return scram_page(request, next(text for text, holds in wrong.items() if holds), FORM_REFUSED, given)
    existed = name in services.cluster.image.scram.get(found.type, {})
    try:
        offset = await services.actions.scram.put(caller, name, found, password, count)
    except REFUSALS as refused:
        return scram_page(request, *refusal(refused), given)
    done = "changed" if existed else "created"
    return go_to(
        request, "/rights/scram", Flash("good", f"{found.name} credential of {name} {done} at offset {offset}.")
    )


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
        return Flash("good", f"{found.name} credential of {name} deleted at offset {offset}.")

    view = ConfirmView(
        title=f"Delete SCRAM credential of {name}",
        active="/rights",
        back=TITLE,
        back_url="/rights/scram",
        action="/rights/scram/delete",
        button="Delete credential",
        changes=[(f"{found.name} credential of {name}", "exists", "deleted")],
        consequences=["Open connections stay until they must authenticate again."],
        curl=cluster_curl(request, "DELETE", f"scram-users/{name}/credentials/{found.name}"),
        fields=[("name", name), ("mechanism", found.name)],
        dangerous=True,
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply)
