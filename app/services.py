"""The parts of a running web process, and the dependencies through which a request reaches them."""

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from app.actions.actions import Actions
from app.actions.audited import Caller
from app.cluster.cluster import Cluster
from app.config import Settings
from app.db.database import Database
from app.http.errors import ForbiddenError, NotLoggedInError
from app.reports.runner import ReportRunner
from app.reports.scheduler import ReportScheduler
from app.security.recorder import RequestInfo
from app.security.roles import Principal, Role
from app.security.service import Security


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of the web process, one of each."""

    settings: Settings
    database: Database
    security: Security
    cluster: Cluster
    actions: Actions
    reports: ReportRunner
    schedules: ReportScheduler


def services_of(request: Request) -> Services:
    """Return the services of the process."""
    return cast("Services", request.app.state.services)


def base_url_of(request: Request) -> str:
    """Return scheme and host as users see them. The guard has checked the host."""
    return services_of(request).settings.public_url or str(request.base_url).rstrip("/")


def info_of(request: Request) -> RequestInfo:
    """Return the origin of the request, for the audit."""
    return cast("RequestInfo", request.state.info)


def principal_of(request: Request) -> Principal:
    """Return the caller. Raises UnauthorizedError without one, which only open paths can reach."""
    principal: Principal | None = request.state.principal
    if principal is None:
        raise NotLoggedInError
    return principal


def visitor_of(request: Request) -> Principal | None:
    """Return the caller, None for an anonymous one."""
    return cast("Principal | None", request.state.principal)


def csrf_token_of(request: Request) -> str:
    """Return the token for the field `csrf_token` of forms on this page (htmx: header `X-CSRF-Token`)."""
    return cast("str", request.state.csrf_token)


class Requires:
    """A dependency: the caller has at least `role`, and its token has `scope`. Denials are audited."""

    def __init__(self, role: Role, scope: str) -> None:
        self.role = role
        self.scope = scope

    async def __call__(self, request: Request) -> Caller:
        """Return the caller. Raises UnauthorizedError or ForbiddenError."""
        principal = principal_of(request)
        info = info_of(request)
        request.state.stamp = services_of(request).cluster.stamp  # the answer reads a state at least as new
        if not principal.may(self.role, self.scope):
            error = f"needs role {self.role.text} and scope {self.scope}"
            action = f"{request.method} {request.scope['route'].path}"
            await services_of(request).security.record(
                principal.actor, action[:64], request.url.path, "denied", info, error=error
            )
            raise ForbiddenError(f"This needs the role {self.role.text} (scope {self.scope}).", error_code=40301)
        return Caller(principal, info)


ServicesDep = Annotated[Services, Depends(services_of)]
Reader = Annotated[Caller, Depends(Requires(Role.VIEWER, "read"))]
TopicEditor = Annotated[Caller, Depends(Requires(Role.EDITOR, "topics"))]
ConfigEditor = Annotated[Caller, Depends(Requires(Role.EDITOR, "configs"))]
BrokerConfigEditor = Annotated[Caller, Depends(Requires(Role.ADMIN, "configs"))]
ReportEditor = Annotated[Caller, Depends(Requires(Role.EDITOR, "reports"))]
Admin = Annotated[Caller, Depends(Requires(Role.ADMIN, "admin"))]
