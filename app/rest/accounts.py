"""Users, sessions, API tokens and audit events of this process. Admins only."""

import datetime as dt
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from starlette.datastructures import URL

from app.clusters import clusters_of
from app.db.models import ApiToken, AuditEvent, User
from app.error_responses import NATIVE
from app.rest.responses import DRY_RUN, answer, checked, created, list_body, location_of, no_content, planned
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.accounts import (
    AuditEventDataList,
    CreateTokenBody,
    CreateUserBody,
    GrantBody,
    GrantDataList,
    LoginLinkData,
    SessionDataList,
    TokenData,
    TokenDataList,
    UpdateUserBody,
    UserData,
    UserDataList,
)
from app.security import audit
from app.security.accounts import OpenSession
from app.security.api_tokens import NewToken
from app.security.grants import place_of
from app.security.roles import Grant, Role
from app.services import Owner, ServicesDep, api_url_of, base_url_of

router = APIRouter(prefix="/v3", tags=[NATIVE, "accounts"], route_class=JsonRoute)

AccountPath = Annotated[str, Path(max_length=100)]
SessionPath = Annotated[int, Path(ge=1, le=2**63 - 1)]


def _at(moment: dt.datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _metadata(request: Request, *path: str) -> dict[str, Any]:
    quoted = (quote(part, safe="") for part in path)
    return {"self": "/".join((api_url_of(request), "v3", *quoted)), "resource_name": None}


def _user(request: Request, user: User) -> dict[str, Any]:
    return {
        "kind": "ConclaveUser",
        "metadata": _metadata(request, "users", user.name),
        "name": user.name,
        "role": user.role,
        "issuer": user.issuer,
        "has_password": user.password_hash is not None,
        "has_second_factor": user.totp_secret is not None,
        "disabled": user.disabled_at is not None,
        "created_at": _at(user.created_at),
        "last_login_at": _at(user.last_login_at),
    }


def _list(request: Request, kind: str, path: str, data: list[dict[str, Any]], following: str | None = None) -> Response:
    return answer(list_body(kind, f"{api_url_of(request)}/v3/{path}", data, following), None)


def _removed(what: str, name: str, *, validate_only: bool) -> Response:
    """Return 204, or what a dry run would remove."""
    return planned([(what, {"name": name}, None)]) if validate_only else no_content()


@router.get("/users", responses={200: {"model": UserDataList}})
async def list_users(request: Request, services: ServicesDep, _caller: Owner) -> Response:
    """List the users by name."""
    return _list(
        request, "ConclaveUserList", "users", [_user(request, user) for user in await services.security.users()]
    )


@router.post("/users", status_code=201, responses={201: {"model": UserData}})
async def create_user(
    request: Request, body: CreateUserBody, services: ServicesDep, caller: Owner, validate_only: DryRun
) -> Response:
    """Add a user."""
    user = await services.security.add_user(
        caller.principal, body.name, body.role, body.password, caller.info, validate_only=validate_only
    )
    data = _user(request, user)
    return created(data, validate_only=validate_only, headers=location_of(data))


@router.patch("/users/{name}", responses={200: {"model": UserData}})
async def update_user(
    request: Request,
    name: AccountPath,
    body: UpdateUserBody,
    services: ServicesDep,
    caller: Owner,
    validate_only: DryRun,
) -> Response:
    """Change the role, state or password of a user. Its sessions end, except the one that changes its own password."""
    security, principal, info = services.security, caller.principal, caller.info
    if body.password is not None and principal.session_id is not None and principal.name == name:
        await security.set_own_password(
            principal, body.present_password, body.password, info, validate_only=validate_only
        )
    elif body.password is not None:
        await security.set_password(principal, name, body.password, info, validate_only=validate_only)
    if body.role is not None or body.disabled is not None:
        user = await security.change_user(principal, name, body.role, body.disabled, info, validate_only=validate_only)
    else:
        user = await security.user(name)
    return answer(checked(_user(request, user), validate_only=validate_only), None)


@router.delete("/users/{name}", status_code=204, responses=DRY_RUN)
async def delete_user(name: AccountPath, services: ServicesDep, caller: Owner, validate_only: DryRun) -> Response:
    """Remove a user."""
    await services.security.remove_user(caller.principal, name, caller.info, validate_only=validate_only)
    return _removed(f"user {name}", name, validate_only=validate_only)


def _grants(request: Request, name: str, grants: Sequence[Grant]) -> dict[str, Any]:
    data = [
        {
            "kind": "ConclaveGrant",
            "cluster": each.cluster,
            "topic_prefix": each.topic_prefix,
            "role": each.role.text,
            "from_group": each.from_group or None,
        }
        for each in grants
    ]
    url = f"{api_url_of(request)}/v3/users/{quote(name, safe='')}/grants"
    return list_body("ConclaveGrantList", url, data)


@router.get("/users/{name}/grants", responses={200: {"model": GrantDataList}})
async def list_grants(request: Request, name: AccountPath, services: ServicesDep, _caller: Owner) -> Response:
    """List a user's roles in single clusters and for prefixes of topics."""
    return answer(_grants(request, name, await services.grants.of(name)), None)


@router.put("/users/{name}/grants", responses={200: {"model": GrantDataList}})
async def put_grant(
    request: Request,
    name: AccountPath,
    body: GrantBody,
    services: ServicesDep,
    caller: Owner,
    validate_only: DryRun,
) -> Response:
    """Give a user a role in a cluster, beside the others. It replaces the one given before for the same prefix."""
    grant = Grant(body.cluster, body.topic_prefix, Role.of(body.role))
    keys = clusters_of(request).names(caller.principal)
    found = await services.grants.put(caller.principal, name, grant, keys, caller.info, validate_only=validate_only)
    return answer(checked(_grants(request, name, found), validate_only=validate_only), None)


@router.delete("/users/{name}/grants", status_code=204, responses=DRY_RUN)
async def delete_grant(
    name: AccountPath,
    services: ServicesDep,
    caller: Owner,
    validate_only: DryRun,
    cluster: Annotated[str, Query(max_length=32)] = "",
    topic_prefix: Annotated[str, Query(max_length=249)] = "",
) -> Response:
    """Take a role in a cluster from a user. Those of groups end at the issuer."""
    await services.grants.remove(
        caller.principal, name, cluster, topic_prefix, caller.info, validate_only=validate_only
    )
    return _removed(f"grant of {name}", name, validate_only=validate_only)


def _session(request: Request, name: str, session: OpenSession) -> dict[str, Any]:
    return {
        "kind": "ConclaveSession",
        "metadata": _metadata(request, "users", name, "sessions", str(session.id)),
        "id": session.id,
        "created_at": _at(session.created_at),
        "last_seen_at": _at(session.last_seen_at),
        "ends_at": _at(session.ends_at),
        "source": session.source,
        "user_agent": session.user_agent,
        "opened_by": session.opened_by,
        "is_present": session.is_present,
    }


@router.get("/users/{name}/sessions", responses={200: {"model": SessionDataList}})
async def list_sessions(request: Request, name: AccountPath, services: ServicesDep, caller: Owner) -> Response:
    """List a user's open sessions, the most recently used first."""
    found = await services.security.sessions_of(name, caller.principal.session_id)
    path = f"users/{quote(name, safe='')}/sessions"
    return _list(request, "ConclaveSessionList", path, [_session(request, name, each) for each in found])


@router.delete("/users/{name}/sessions", status_code=204, responses=DRY_RUN)
async def end_sessions(name: AccountPath, services: ServicesDep, caller: Owner, validate_only: DryRun) -> Response:
    """End all of a user's sessions, except the caller's."""
    await services.security.end_sessions(caller.principal, name, caller.info, validate_only=validate_only)
    return _removed(f"sessions of {name}", name, validate_only=validate_only)


@router.delete("/users/{name}/second-factor", status_code=204, responses=DRY_RUN)
async def reset_second_factor(
    name: AccountPath, services: ServicesDep, caller: Owner, validate_only: DryRun
) -> Response:
    """Turn off the second factor of a user who has lost it. The user's sessions end."""
    await services.second_factors.reset(caller.principal, name, caller.info, validate_only=validate_only)
    return _removed(f"second factor of {name}", name, validate_only=validate_only)


@router.delete("/users/{name}/sessions/{session_id}", status_code=204, responses=DRY_RUN)
async def end_session(
    name: AccountPath, session_id: SessionPath, services: ServicesDep, caller: Owner, validate_only: DryRun
) -> Response:
    """End one of a user's sessions."""
    security = services.security
    await security.end_session(caller.principal, name, session_id, caller.info, validate_only=validate_only)
    return _removed(f"session {session_id} of {name}", name, validate_only=validate_only)


@router.post("/users/{name}/login-link", status_code=201, responses={201: {"model": LoginLinkData}})
async def create_login_link(
    request: Request, name: AccountPath, services: ServicesDep, caller: Owner, validate_only: DryRun
) -> Response:
    """Create a link that logs the user in once within a day. Earlier links of the user expire."""
    url = await services.security.login_link(
        caller.principal, name, base_url_of(request), caller.info, validate_only=validate_only
    )
    data = {"kind": "ConclaveLoginLink", "name": name, "url": None if validate_only else url}
    return created(data, validate_only=validate_only)


def _token(request: Request, token: ApiToken, text: str | None = None) -> dict[str, Any]:
    shown = {} if text is None else {"token": text}
    return {
        "kind": "ConclaveToken",
        "metadata": _metadata(request, "tokens", token.name),
        "name": token.name,
        "hint": token.hint,
        "role": token.role,
        "scopes": list(token.scopes),
        "cluster": token.cluster,
        "topic_prefix": token.topic_prefix,
        "created_by": token.created_by,
        "created_at": _at(token.created_at),
        "expires_at": _at(token.expires_at),
        "last_used_at": _at(token.last_used_at),
        "revoked_at": _at(token.revoked_at),
        **shown,
    }


@router.get("/tokens", responses={200: {"model": TokenDataList}})
async def list_tokens(request: Request, services: ServicesDep, _caller: Owner) -> Response:
    """List the API tokens by name, including revoked ones, without their secrets."""
    tokens = [_token(request, token) for token in await services.security.tokens()]
    return _list(request, "ConclaveTokenList", "tokens", tokens)


@router.post("/tokens", status_code=201, responses={201: {"model": TokenData}})
async def create_token(
    request: Request, body: CreateTokenBody, services: ServicesDep, caller: Owner, validate_only: DryRun
) -> Response:
    """Create an API token. `token`, its secret, is in this answer only."""
    expires_at = None
    if body.expires_in_days is not None:
        expires_at = dt.datetime.now(dt.UTC) + dt.timedelta(days=body.expires_in_days)
    place = place_of(body.cluster, body.topic_prefix, clusters_of(request).names(caller.principal))
    wanted = NewToken(name=body.name, role=body.role, scopes=body.scopes, expires_at=expires_at, place=place)
    token, text = await services.security.add_token(caller.principal, wanted, caller.info, validate_only=validate_only)
    data = _token(request, token, None if validate_only else text)
    return created(data, validate_only=validate_only, headers=location_of(data))


@router.delete("/tokens/{name}", status_code=204, responses=DRY_RUN)
async def revoke_token(name: AccountPath, services: ServicesDep, caller: Owner, validate_only: DryRun) -> Response:
    """Revoke an API token. It cannot be restored."""
    await services.security.revoke_token(caller.principal, name, caller.info, validate_only=validate_only)
    return _removed(f"token {name}", name, validate_only=validate_only)


def _event(event: AuditEvent) -> dict[str, Any]:
    return {
        "kind": "ConclaveAuditEvent",
        "id": event.id,
        "at": _at(event.at),
        "actor": event.actor,
        "actor_kind": event.actor_kind,
        "source": event.source,
        "action": event.action,
        "resource": event.resource,
        "result": event.result,
        "count": event.count,
        "error": event.error,
        "detail": event.detail,
        "request_id": event.request_id,
        "cluster": event.cluster,
        "metadata_offset": event.metadata_offset,
    }


@router.get("/audit", responses={200: {"model": AuditEventDataList}})
async def list_audit(
    request: Request,
    services: ServicesDep,
    _caller: Owner,
    actor: Annotated[str, Query(max_length=255)] = "",
    action: Annotated[str, Query(max_length=64)] = "",
    resource: Annotated[str, Query(max_length=512, description="prefix of the resource's name")] = "",
    result: Annotated[str, Query(pattern="^(ok|denied|failed)?$")] = "",
    cluster: Annotated[
        str | None, Query(max_length=32, description="key of a cluster, empty for that of the settings")
    ] = None,
    before_id: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
    page_size: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Response:
    """List logins, denials and changes in all clusters, newest first."""
    wanted = audit.AuditFilter(
        actor=actor, action=action, resource=resource, result=result, before_id=before_id, cluster=cluster
    )
    events = await services.security.events(wanted, page_size)
    following = None
    if len(events) == page_size:
        following = str(
            URL(f"{api_url_of(request)}{request.url.path}?{request.url.query}").include_query_params(
                before_id=events[-1].id
            )
        )
    return _list(request, "ConclaveAuditEventList", "audit", [_event(event) for event in events], following)
