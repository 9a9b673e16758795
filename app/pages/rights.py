"""The cluster's own access control, as brokers and controllers check it: ACLs, SCRAM users, quotas, delegation tokens."""

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import Response

from app.cluster.quotas import QuotaEntity
from app.pages.confirm import ConfirmView
from app.pages.flash import Flash
from app.pages.frame import amount, go_to, page_of, refusal, render, whole_number
from app.pages.rights_view import (
    DEFAULT_ITERATIONS,
    ENTITY_TYPES,
    NOTHING_GIVEN,
    acl_row,
    entity_text,
    rights_view,
)
from app.pages.topic import curl
from app.services import Admin, services_of
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.image.scram_mechanism import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS
from kraft_core.protocol.acl import AclOperation, AclPermissionType, PatternType, ResourceType, parse_acl_word
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(include_in_schema=False, prefix="/rights")


def rights_page(
    request: Request, error: str = "", status: int = 200, given: Mapping[str, str] = NOTHING_GIVEN
) -> Response:
    """The page; `error` and `given` when a form of it was refused."""
    view = rights_view(services_of(request).cluster.image, error, given)
    return render(request, "rights.html", status, page=page_of(request, "Access control", "/rights"), view=view)


@router.get("")
async def rights(request: Request, _caller: Admin) -> Response:
    """The page."""
    return rights_page(request)


# ACLs


class AclForm:
    """The seven fields of an ACL, from a form."""

    def __init__(
        self,
        resource_type: Annotated[str, Form()] = "",
        resource_name: Annotated[str, Form()] = "",
        pattern_type: Annotated[str, Form()] = "LITERAL",
        principal: Annotated[str, Form()] = "",
        host: Annotated[str, Form()] = "*",
        operation: Annotated[str, Form()] = "",
        permission: Annotated[str, Form()] = "ALLOW",
    ) -> None:
        self.fields = (
            ("resource_type", resource_type),
            ("resource_name", resource_name.strip()),
            ("pattern_type", pattern_type),
            ("principal", principal.strip()),
            ("host", host.strip() or "*"),
            ("operation", operation),
            ("permission", permission),
        )

    def acl(self) -> StandardAcl:
        """Read it. Raises KafkaError INVALID_REQUEST."""
        given = dict(self.fields)
        return StandardAcl(
            resource_type=parse_acl_word(ResourceType, given["resource_type"], "resource_type"),
            resource_name=given["resource_name"],
            pattern_type=parse_acl_word(PatternType, given["pattern_type"], "pattern_type"),
            principal=given["principal"],
            host=given["host"],
            operation=parse_acl_word(AclOperation, given["operation"], "operation"),
            permission_type=parse_acl_word(AclPermissionType, given["permission"], "permission"),
        )


FormDep = Annotated[AclForm, Depends()]


def _acl_confirm(request: Request, form: AclForm, acl: StandardAcl, *, is_new: bool, error: str) -> ConfirmView:
    services = services_of(request)
    row = acl_row(acl)
    there = services.cluster.image.acls.contains(acl)
    what = f"{row.permission} {row.operation} on {row.resource} ({row.pattern}) to {row.principal} from {row.host}"
    given = dict(form.fields)
    query = urlencode({**given, "resource_name": acl.resource_name})
    return ConfirmView(
        back="Access control",
        back_url="/rights",
        action=f"/rights/acls{'' if is_new else '/delete'}",
        button="Create the ACL" if is_new else "Delete the ACL",
        changes=[(what, "there" if there else "absent", "there" if is_new else "absent")],
        consequences=[
            "What the ACL says counts at once, on open connections too.",
            *(["A denial wins over every ACL that allows."] if row.permission == "DENY" and is_new else []),
        ],
        curl=curl(request, services, "POST", "acls", given)
        if is_new
        else curl(request, services, "DELETE", f"acls?{query}"),
        fields=form.fields,
        dangerous=not is_new,
        error=error,
    )


@router.post("/acls")
async def create_acl(
    request: Request, caller: Admin, form: FormDep, confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Show what an ACL says; with confirmed=yes create it."""
    error, status = "", 200
    acl = form.acl()
    if confirmed:
        try:
            offset = await services_of(request).actions.acls.create(caller, [acl])
        except (KafkaError, ConnectionError) as refused:
            error, status = refusal(refused)
        else:
            return go_to(request, "/rights", Flash("good", f"The ACL counts since offset {offset}."))
    view = _acl_confirm(request, form, acl, is_new=True, error=error)
    return render(request, "confirm.html", status, page=page_of(request, "Create an ACL", "/rights"), view=view)


@router.post("/acls/delete")
async def delete_acl(
    request: Request, caller: Admin, form: FormDep, confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Show which ACL goes; with confirmed=yes delete it."""
    error, status = "", 200
    acl = form.acl()
    if confirmed:
        wanted = AclFilter(
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission_type,
        )
        try:
            offset, deleted = await services_of(request).actions.acls.delete(caller, wanted)
        except (KafkaError, ConnectionError) as refused:
            error, status = refusal(refused)
        else:
            note = f"The ACL is gone since offset {offset}." if deleted else "There was no such ACL any more."
            return go_to(request, "/rights", Flash("good", note))
    view = _acl_confirm(request, form, acl, is_new=False, error=error)
    return render(request, "confirm.html", status, page=page_of(request, "Delete an ACL", "/rights"), view=view)


# SCRAM users


@router.post("/scram")
async def put_scram_user(
    request: Request,
    caller: Admin,
    name: Annotated[str, Form()] = "",
    mechanism: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
    iterations: Annotated[str, Form()] = str(DEFAULT_ITERATIONS),
) -> Response:
    """Set a user's password. There is no preview, so that the password travels once."""
    name = name.strip()
    found = SCRAM_MECHANISMS.get(mechanism)
    count = whole_number(iterations, MIN_ITERATIONS, MAX_ITERATIONS)
    wrong = {
        "A user needs a name.": not name,
        f"'{mechanism[:40]}' is none of {', '.join(SCRAM_MECHANISMS)}.": found is None,
        "The password is empty.": not password,
        f"Iterations must be a whole number from {MIN_ITERATIONS} to {MAX_ITERATIONS}.": count is None,
    }
    given = {"scram-name": name, "scram-mechanism": mechanism, "scram-iterations": iterations}
    if any(wrong.values()) or found is None or count is None:
        return rights_page(request, next(text for text, holds in wrong.items() if holds), 422, given)
    was = name in services_of(request).cluster.image.scram.get(found.type, {})
    try:
        offset = await services_of(request).actions.scram.put(caller, name, found, password, count)
    except (KafkaError, ConnectionError) as refused:
        return rights_page(request, *refusal(refused), given)
    done = "has a new password" if was else "can log in"
    return go_to(request, "/rights", Flash("good", f"{name} {done} by {found.name} since offset {offset}."))


@router.post("/scram/delete")
async def delete_scram_user(
    request: Request,
    caller: Admin,
    name: Annotated[str, Form()] = "",
    mechanism: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Show what a user loses; with confirmed=yes take it."""
    services = services_of(request)
    found = SCRAM_MECHANISMS.get(mechanism)
    if found is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"'{mechanism[:40]}' is none of {', '.join(SCRAM_MECHANISMS)}.")
    error, status = "", 200
    if confirmed:
        try:
            offset = await services.actions.scram.delete(caller, name, found)
        except (KafkaError, ConnectionError) as refused:
            error, status = refusal(refused)
        else:
            note = f"{name} has no password for {found.name} since offset {offset}."
            return go_to(request, "/rights", Flash("good", note))
    view = ConfirmView(
        back="Access control",
        back_url="/rights",
        action="/rights/scram/delete",
        button="Take the password away",
        changes=[(f"{name} by {found.name}", "can log in", "cannot")],
        consequences=["Connections that are open stay so until they must log in again."],
        curl=curl(request, services, "DELETE", f"scram-users/{name}/credentials/{found.name}"),
        fields=[("name", name), ("mechanism", found.name)],
        dangerous=True,
        error=error,
    )
    return render(request, "confirm.html", status, page=page_of(request, f"Remove {name}", "/rights"), view=view)


# quotas


def read_entity(fields: Mapping[str, str]) -> QuotaEntity:
    """Read whom a quota is for: a name or the default for each type that is given. Raises ValueError in words."""
    entity = []
    for kind in sorted(ENTITY_TYPES):
        name, is_default = fields.get(kind, "").strip(), bool(fields.get(f"{kind}-default"))
        if name and is_default:
            raise ValueError(f"Either a name or the default of {kind}, not both.")
        if name or is_default:
            entity.append((kind, name or None))
    if not entity:
        raise ValueError(f"Say whom it is for: {', '.join(ENTITY_TYPES)}, by name or the default.")
    return tuple(entity)


@router.post("/quotas")
async def alter_quota(request: Request, caller: Admin) -> Response:
    """Show what a quota becomes, as the controller judges it; with confirmed=yes set it, or remove it without a value."""
    services = services_of(request)
    form = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    key, text, confirmed = form.get("key", ""), form.get("value", "").strip(), form.get("confirmed", "")
    try:
        entity = read_entity(form)
        value = float(text) if text else None
        if value is not None and not 0 < value < float("inf"):
            raise ValueError(f"'{text[:40]}' is not a number above 0.")
    except ValueError as error:
        said = str(error) if not str(error).startswith("could not") else f"'{text[:40]}' is not a number."
        return rights_page(request, said, 422, {f"quota-{name}": given for name, given in form.items()})
    refused_text, verdict, status = "", "", 200
    try:
        offset = await services.actions.quotas.alter(caller, entity, {key: value}, validate_only=not confirmed)
    except (KafkaError, ConnectionError) as refused:
        refused_text, status = refusal(refused)
    else:
        if confirmed:
            done = "removed" if value is None else amount(value)
            return go_to(
                request, "/rights", Flash("good", f"{key} of {entity_text(entity)}: {done} at offset {offset}.")
            )
        verdict = "The controller would accept this. Nothing has changed yet."
    quotas = services.cluster.image.client_quotas.get(entity)
    now = None if quotas is None else quotas.get(key)
    body = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "data": [{"key": key, "value": value}],
    }
    view = ConfirmView(
        back="Access control",
        back_url="/rights",
        action="/rights/quotas",
        button="Set the quota" if value is not None else "Remove the quota",
        changes=[
            (
                f"{key} of {entity_text(entity)}",
                "none" if now is None else amount(now),
                "none" if value is None else amount(value),
            )
        ],
        curl=curl(request, services, "POST", "client-quotas:alter", body),
        fields=[(name, given) for name, given in form.items() if name not in {"csrf_token", "confirmed"}],
        dangerous=value is None,
        verdict=verdict,
        error=refused_text,
    )
    return render(request, "confirm.html", status, page=page_of(request, "Change a quota", "/rights"), view=view)
