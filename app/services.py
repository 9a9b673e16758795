"""The parts of a running web process, and the dependencies through which a request reaches them."""

import datetime as dt
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final, cast

from fastapi import Depends, Request

from app.actions.actions import Actions
from app.actions.audited import Caller
from app.cluster.cluster import Cluster
from app.cluster.log_store.archive import Past, StateBeingPrepared, StateUnknown
from app.config import Settings
from app.db.database import Database
from app.http.errors import BadRequestError, ForbiddenError, GoneError, NotLoggedInError, UnavailableError
from app.http.paths import API, is_api
from app.reports.executor.driver import PlanExecutor
from app.reports.lake.keeper import LakeKeeper
from app.reports.latest import LatestReports
from app.reports.runner import ReportRunner
from app.reports.scheduler import ReportScheduler
from app.reports.upkeep import ReportUpkeep
from app.security.grants import RoleGrants
from app.security.recorder import RequestInfo
from app.security.roles import Principal, Role
from app.security.second_factors import SecondFactors
from app.security.service import Security
from app.texts import joined, phrase, sentence_of
from kraft_core.image.replay_error import ReplayError
from kraft_core.storage.files import StorageError

if TYPE_CHECKING:  # imported where it is made, since an HTTP client takes long to import
    from app.security.oidc.logins import OidcLogins

_TOPIC_ROUTES: Final = (
    ("/topics/{name}", "name"),
    (f"{API}/clusters/{{cluster_id}}/topics/{{topic_name}}", "topic_name"),
)
PAST_PARAMETERS: Final = ("at_offset", "at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of the web process for one cluster. Settings of the process and security are those of all clusters.

    `key` names the cluster in addresses and in the database, "" is the cluster of the settings. Through `database` only
    its own rows are seen.
    """

    key: str
    settings: Settings
    database: Database
    security: Security
    second_factors: SecondFactors
    grants: RoleGrants
    oidc: "OidcLogins | None"
    cluster: Cluster
    actions: Actions
    reports: ReportRunner
    schedules: ReportScheduler
    upkeep: ReportUpkeep
    plans: PlanExecutor
    latest_reports: LatestReports
    lake: LakeKeeper | None


def services_of(request: Request) -> Services:
    """Return the services of the request's cluster; in a request for a past state, with the cluster as it was."""
    past: Services | None = getattr(request.state, "past_services", None)
    return past or cast("Services", request.state.services)


def root_of(request: Request) -> str:
    """Return what stands before the addresses of the request's cluster, "" for the cluster of the settings."""
    return cast("str", request.state.root)


def base_url_of(request: Request) -> str:
    """Return scheme and host as users see them. The guard has checked the host."""
    scope = request.scope
    return services_of(request).settings.public_url or f"{scope['scheme']}://{request.headers['host']}"


def api_url_of(request: Request) -> str:
    """Return the address below which the caller found `/v3`, so that the links of an answer keep its prefix."""
    return f"{base_url_of(request)}{request.state.prefix}"


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


async def show_past(request: Request, at_offset: str | None, at: str | None) -> None:
    """Let the rest of the request read the state at an offset or a time. Does nothing without either.

    Raises BadRequestError for other texts, both parameters, and a state that is not committed yet; else as `past_at`.
    """
    if at_offset is None and at is None:
        return
    if at_offset is not None and at is not None:
        raise BadRequestError(phrase("Bad Request: at_offset and at exclude each other."))
    services = services_of(request)
    archive = services.cluster.archive
    past = await past_at(
        archive.at_time(_time_of(at or "")) if at_offset is None else archive.at_offset(_offset_of(at_offset))
    )
    request.state.past_services = replace(services, cluster=services.cluster.at(past))


async def past_at(state: Awaitable[Past]) -> Past:
    """Await a state of the archive.

    Raises BadRequestError for a state that is not committed yet; GoneError for one that is not kept; UnavailableError
    while it is read from disk, or when the disk fails.
    """
    try:
        return await state
    except StateUnknown as unknown:
        if unknown.is_future:
            raise BadRequestError(
                phrase("Bad Request: %(problem)s", problem=sentence_of(unknown)), code="offset-not-committed"
            ) from None
        raise GoneError(sentence_of(unknown), code="offset-gone") from None
    except StateBeingPrepared as wait:
        raise UnavailableError(
            sentence_of(wait), code="state-being-prepared", headers={"Retry-After": "1", "Refresh": "1"}
        ) from None
    except (StorageError, ReplayError) as broken:
        raise UnavailableError(
            phrase("The history cannot be read: %(problem)s", problem=str(broken)), code="history-unreadable"
        ) from broken


def _offset_of(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadRequestError(
            phrase(
                "Bad Request: at_offset must be an offset of the log, 0 or more (was %(text)s).", text=f"{text[:40]!r}"
            )
        )
    return int(text)


def _time_of(text: str) -> int:
    """Return a time in ISO 8601 as ms since 1970; without a zone it is UTC."""
    try:
        found = dt.datetime.fromisoformat(text)
        found = found if found.tzinfo else found.replace(tzinfo=dt.UTC)
        return int(found.timestamp() * 1000)
    except (ValueError, OverflowError):
        example = "2026-03-01T12:00:00Z"
        raise BadRequestError(
            phrase(
                "Bad Request: at must be a time such as %(example)s (was %(text)s).",
                example=example,
                text=f"{text[:40]!r}",
            )
        ) from None


def role_here(request: Request) -> Role:
    """Return the caller's role at this address: for the topic that it names, if it names one; NONE for strangers."""
    visitor = visitor_of(request)
    if visitor is None:
        return Role.NONE
    topic = topic_of(request)
    return visitor.role if topic is None else visitor.role_on(topic)


def topic_of(request: Request) -> str | None:
    """Return the topic whose address this is, None for any other address."""
    template: str = getattr(request.scope.get("route"), "path", "")
    for start, name in _TOPIC_ROUTES:
        if template == start or template.startswith(f"{start}/"):
            return cast("str", request.path_params[name])
    return None


class Requires:
    """A dependency: the caller has at least `role` here, and its token has `scope`. Denials are audited.

    The role may be that of a setting, or None: then nobody is allowed. A page that `shows_past` takes at_offset and at;
    every other page refuses them. What belongs to no cluster, such as users, requires the caller's `own` role; a topic
    may be created by who has `some_topics`, if the action allows its name.
    """

    def __init__(
        self,
        role: Role | Callable[[Settings], Role | None],
        scope: str,
        *,
        shows_past: bool = False,
        own: bool = False,
        some_topics: bool = False,
    ) -> None:
        self.role = role
        self.scope = scope
        self.shows_past = shows_past
        self.own = own
        self.some_topics = some_topics

    def allows(self, request: Request, role: Role) -> bool:
        """Return whether the caller may do this."""
        principal = principal_of(request)
        has = principal.own_role if self.own else role_here(request)
        return (has >= role or (self.some_topics and principal.has_topics)) and principal.has_scope(self.scope)

    async def __call__(self, request: Request) -> Caller:
        """Return the caller. Raises UnauthorizedError or ForbiddenError."""
        principal = principal_of(request)
        info = info_of(request)
        services = services_of(request)
        request.state.stamp = services.cluster.stamp  # the answer reads a state at least as new
        role = self.role if isinstance(self.role, Role) else self.role(services.settings)
        if role is None or not self.allows(request, role):
            text = phrase("This is off in the settings.")
            if role is not None:
                text = phrase("This needs the role %(role)s (scope %(scope)s).", role=role.text, scope=self.scope)
            action = f"{request.method} {request.scope['route'].path}"
            await services.security.record(
                principal.actor,
                action[:64],
                request.url.path,
                "denied",
                info,
                error=text.removeprefix("This ").removesuffix("."),
            )
            raise ForbiddenError(text, error_code=40301)
        if not is_api(request.url.path):  # REST declares the parameters in its routes
            await self._travel(request)
        return Caller(principal, info)

    async def _travel(self, request: Request) -> None:
        asked = [name for name in PAST_PARAMETERS if name in request.query_params]
        if asked and not self.shows_past:
            names = joined(" and ", asked)
            text = phrase("Bad Request: this page shows the present only; leave out %(names)s.", names=names)
            raise BadRequestError(text)
        await show_past(request, *(request.query_params.get(name) for name in PAST_PARAMETERS))


def record_reader_role(settings: Settings) -> Role | None:
    """Return the role that may read records, None if nobody may."""
    return None if settings.records_read == "nobody" else Role.of(settings.records_read)


def record_writer_role(settings: Settings) -> Role | None:
    """Return the role that may write records, None if nobody may."""
    return None if settings.records_write == "nobody" else Role.of(settings.records_write)


def may_read_records(request: Request) -> bool:
    """Return whether the caller may read records."""
    return _may(request, record_reader_role)


def may_write_records(request: Request) -> bool:
    """Return whether the caller may write records."""
    return _may(request, record_writer_role)


def _may(request: Request, role_of: Callable[[Settings], Role | None]) -> bool:
    visitor, role = visitor_of(request), role_of(services_of(request).settings)
    return visitor is not None and role is not None and role_here(request) >= role and visitor.has_scope("records")


async def _services(request: Request) -> Services:
    """Return what `services_of` does. FastAPI would run a plain function on a thread."""
    return services_of(request)


ServicesDep = Annotated[Services, Depends(_services)]
Reader = Annotated[Caller, Depends(Requires(Role.VIEWER, "read"))]
Anyone = Annotated[Caller, Depends(Requires(Role.NONE, "read"))]
Owner = Annotated[Caller, Depends(Requires(Role.ADMIN, "admin", own=True))]
PastReader = Annotated[Caller, Depends(Requires(Role.VIEWER, "read", shows_past=True))]
PastAdmin = Annotated[Caller, Depends(Requires(Role.ADMIN, "admin", shows_past=True))]
TopicEditor = Annotated[Caller, Depends(Requires(Role.EDITOR, "topics"))]
TopicCreator = Annotated[Caller, Depends(Requires(Role.EDITOR, "topics", some_topics=True))]
GroupEditor = Annotated[Caller, Depends(Requires(Role.EDITOR, "groups"))]
RecordReader = Annotated[Caller, Depends(Requires(record_reader_role, "records"))]
RecordWriter = Annotated[Caller, Depends(Requires(record_writer_role, "records"))]
ConfigEditor = Annotated[Caller, Depends(Requires(Role.EDITOR, "configs"))]
BrokerConfigEditor = Annotated[Caller, Depends(Requires(Role.ADMIN, "configs"))]
ReportEditor = Annotated[Caller, Depends(Requires(Role.EDITOR, "reports"))]
Admin = Annotated[Caller, Depends(Requires(Role.ADMIN, "admin"))]
