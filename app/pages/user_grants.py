"""The roles of a user in single clusters and for prefixes of topics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.clusters import clusters_of
from app.db.models import ROLES
from app.http.cluster_paths import HOME, key_of
from app.http.errors import FORM_REFUSED
from app.pages.accounts import TITLE
from app.pages.confirm import ConfirmView, curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import page_of, render
from app.security.accounts import AccountError
from app.security.roles import Grant, Role
from app.services import Owner, principal_of, services_of
from app.texts import phrase, sentence_of

router = APIRouter(include_in_schema=False, prefix="/access/users/{name}/grants")


@dataclass(frozen=True, slots=True)
class GrantsView:
    """Model of user_grants.html. `clusters` are names by key; `given` are the fields of a refused form."""

    name: str
    own_role: str
    is_at_issuer: bool
    grants: Sequence[Grant]
    clusters: Mapping[str, str]
    roles: Sequence[str] = ROLES
    refused: str = ""
    given: Mapping[str, str] | None = None


async def _page(request: Request, name: str, refused: str = "", given: Mapping[str, str] | None = None) -> Response:
    services = services_of(request)
    user = await services.security.user(name)
    view = GrantsView(
        name,
        user.role,
        user.issuer is not None,
        await services.grants.of(name),
        clusters_of(request).names(principal_of(request)),
        refused=refused,
        given=given,
    )
    page = page_of(request, phrase("Roles of %(name)s", name=name), "/access")
    return render(request, "user_grants.html", FORM_REFUSED if refused else 200, page=page, view=view)


@router.get("")
async def grants_page(request: Request, _caller: Owner, name: str) -> Response:
    """Return the page."""
    return await _page(request, name)


def _path(name: str) -> str:
    return f"users/{quote(name, safe='')}/grants"


def _scope_text(request: Request, grant: Grant) -> str:
    found = clusters_of(request).get(grant.cluster)
    cluster = grant.cluster if found is None else found.settings.cluster_name
    if not grant.topic_prefix:
        return phrase("Role in cluster %(cluster)s", cluster=cluster)
    return phrase("Role in cluster %(cluster)s for topics %(prefix)s…", cluster=cluster, prefix=grant.topic_prefix)


async def _present_role(request: Request, name: str, grant: Grant) -> str:
    for each in await services_of(request).grants.of(name):
        if not each.from_group and (each.cluster, each.topic_prefix) == (grant.cluster, grant.topic_prefix):
            return each.role.text
    return phrase("none")


@router.post("")
async def put_grant(
    request: Request,
    caller: Owner,
    name: str,
    cluster: Annotated[str, Form()] = HOME,
    topic_prefix: Annotated[str, Form()] = "",
    role: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview a grant; with confirmed=yes give it."""
    services = services_of(request)
    given = {"cluster": cluster, "topic_prefix": topic_prefix.strip(), "role": role}
    keys = clusters_of(request).names(caller.principal)
    key = key_of(cluster)
    try:
        grant = Grant(key, given["topic_prefix"], Role.of(role))
        await services.grants.put(caller.principal, name, grant, keys, caller.info, validate_only=True)
    except (AccountError, ValueError) as refused:
        return await _page(request, name, sentence_of(refused), given)

    async def apply() -> Flash:
        await services.grants.put(caller.principal, name, grant, keys, caller.info)
        return Flash("good", phrase("%(name)s has the role.", name=name))

    view = ConfirmView(
        title=phrase("Give %(name)s a role", name=name),
        active="/access",
        back=TITLE,
        back_url=f"/access/{_path(name)}",
        action=f"/access/{_path(name)}",
        button=phrase("Give role"),
        changes=[(_scope_text(request, grant), await _present_role(request, name, grant), role)],
        consequences=[phrase("It adds to the user's own role, and to what tokens of the user may do.")],
        fields=list(given.items()),
        curl=curl(request, "PUT", _path(name), given | {"cluster": key}),
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply)


@router.post("/remove")
async def remove_grant(
    request: Request,
    caller: Owner,
    name: str,
    cluster: Annotated[str, Form()] = HOME,
    topic_prefix: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview that a grant is taken; with confirmed=yes take it."""
    services = services_of(request)
    grant = Grant(key_of(cluster), topic_prefix, Role.VIEWER)
    try:
        await services.grants.remove(
            caller.principal, name, grant.cluster, topic_prefix, caller.info, validate_only=True
        )
    except AccountError as refused:
        return await _page(request, name, refused.message)

    async def apply() -> Flash:
        await services.grants.remove(caller.principal, name, grant.cluster, topic_prefix, caller.info)
        return Flash("good", phrase("The role is taken from %(name)s.", name=name))

    query = f"cluster={quote(grant.cluster)}&topic_prefix={quote(topic_prefix)}"
    view = ConfirmView(
        title=phrase("Take a role from %(name)s", name=name),
        active="/access",
        back=TITLE,
        back_url=f"/access/{_path(name)}",
        action=f"/access/{_path(name)}/remove",
        button=phrase("Take role"),
        changes=[(_scope_text(request, grant), await _present_role(request, name, grant), phrase("none"))],
        consequences=[phrase("What remains is the user's own role. Open pages of the user end at once.")],
        fields=[("cluster", cluster), ("topic_prefix", topic_prefix)],
        curl=curl(request, "DELETE", f"{_path(name)}?{query}"),
        dangerous=True,
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply)
