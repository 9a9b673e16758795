"""Configs of a topic, a broker or all brokers: value, source, default and description; set and reset with a preview."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import Response

from app.cluster.configs import ConfigChange
from app.http.errors import UnprocessableError
from app.pages.brokers import known_broker
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import UNKNOWN, page_of, render
from app.pages.topic import known_topic
from app.security.roles import Role
from app.services import BrokerConfigEditor, ConfigEditor, Reader, services_of
from kraft_core.configs.config_def import UpdateMode
from kraft_core.configs.effective_config import ConfigEntry, ConfigSource, topic_fallback
from kraft_core.image.changes import is_secret_config

router = APIRouter(include_in_schema=False)

NO_STATIC_CONFIGS: Final = (
    "This broker has not answered with its server.properties yet: only dynamic configs and defaults are shown."
)
CLUSTER_WIDE_NOTE: Final = (
    "These values apply to all brokers, unless a broker has another. They override server.properties, not shown here."
)
SOURCES: Final = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "cluster-wide",
    ConfigSource.STATIC_BROKER_CONFIG: "server.properties",
    ConfigSource.DEFAULT_CONFIG: "default",
}


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One config. `is_own`: set on this resource, so that it can be reset."""

    name: str
    value: str
    source: str
    default: str
    type: str
    allowed: str
    documentation: str
    is_own: bool
    is_sensitive: bool
    is_read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsView:
    """Model of configs.html: of `total` configs those that contain `search`, with `only_set` only the overrides."""

    parents: str
    parents_url: str
    parent: str
    parent_url: str
    action: str
    note: str = ""
    may_edit: bool
    search: str
    only_set: bool
    total: int
    rows: Sequence[ConfigRow]


def shown(value: str | None) -> str:
    """Return a value as text; null and the empty text differ."""
    if value is None:
        return "null"
    return value or '""'


def config_row(entry: ConfigEntry, own: ConfigSource) -> ConfigRow:
    """Return one row; a config that brokers read only at start cannot be edited."""
    key = entry.key
    default = UNKNOWN if key is None else shown(key.default)
    return ConfigRow(
        name=entry.name,
        value=shown(entry.value),
        source=SOURCES.get(entry.source, entry.source.name.lower()),
        default="hidden" if entry.is_sensitive and default != UNKNOWN else default,
        type="" if key is None else key.type.name.lower(),
        allowed="" if key is None else key.valid_values,
        documentation=entry.documentation,
        is_own=entry.source == own,
        is_sensitive=entry.is_sensitive,
        is_read_only=entry.is_read_only,
    )


class Query:
    """The search of a page of configs, from its address."""

    def __init__(self, q: str = "", only_set: str = "") -> None:
        self.search = q
        self.only_set = bool(only_set)

    def matches(self, row: ConfigRow) -> bool:
        """Whether the row is listed."""
        return self.search.strip().lower() in row.name.lower() and (row.is_own or not self.only_set)


QueryDep = Annotated[Query, Depends()]


def _page(
    request: Request, title: str, query: Query, rows: Sequence[ConfigRow], role: Role, *, note: str = "", **parents: str
) -> Response:
    """Return the page; `parents` are the fields of ConfigsView about the resource, `role` is needed to edit."""
    page = page_of(request, title, parents["parents_url"])
    view = ConfigsView(
        action=request.url.path,
        note=note,
        may_edit=page.user is not None and page.user.role >= role,
        search=query.search,
        only_set=query.only_set,
        total=len(rows),
        rows=[row for row in rows if query.matches(row)],
        **parents,
    )
    return render(request, "configs.html", page=page, view=view)


@router.get("/topics/{name}/configs")
async def topic_configs(request: Request, _caller: Reader, name: str, query: QueryDep) -> Response:
    """Return the configs of a topic."""
    cluster = services_of(request).cluster
    known_topic(cluster, name)
    return _page(
        request,
        f"Configs of {name}",
        query,
        [config_row(each, ConfigSource.DYNAMIC_TOPIC_CONFIG) for each in cluster.topic_configs(name)],
        Role.EDITOR,
        parents="Topics",
        parents_url="/topics",
        parent=name,
        parent_url=f"/topics/{name}",
    )


@router.get("/brokers/{broker_id}/configs")
async def broker_configs(request: Request, _caller: Reader, broker_id: int, query: QueryDep) -> Response:
    """Return the configs of a broker."""
    cluster = services_of(request).cluster
    known_broker(cluster.image, broker_id)
    return _page(
        request,
        f"Configs of broker {broker_id}",
        query,
        [config_row(each, ConfigSource.DYNAMIC_BROKER_CONFIG) for each in cluster.broker_configs(broker_id)],
        Role.ADMIN,
        note="" if cluster.static_configs.of(broker_id) else NO_STATIC_CONFIGS,
        parents="Brokers",
        parents_url="/brokers",
        parent=str(broker_id),
        parent_url=f"/brokers/{broker_id}",
    )


@router.get("/broker-configs")
async def configs_of_all_brokers(request: Request, _caller: Reader, query: QueryDep) -> Response:
    """Return the configs that can be set for all brokers at once."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    entries = services_of(request).cluster.configs_of_all_brokers()
    return _page(
        request,
        "Cluster-wide broker configs",
        query,
        [config_row(each, source) for each in entries if each.source == source or _is_cluster_wide(each)],
        Role.ADMIN,
        note=CLUSTER_WIDE_NOTE,
        parents="Brokers",
        parents_url="/brokers",
        parent="all",
        parent_url="/brokers",
    )


def _is_cluster_wide(entry: ConfigEntry) -> bool:
    return entry.key is not None and entry.key.update_mode is UpdateMode.CLUSTER_WIDE


class ConfigForm:
    """One config to set or reset, from a form. Raises UnprocessableError for another operation."""

    def __init__(
        self,
        key: Annotated[str, Form(alias="name")] = "",
        value: Annotated[str, Form()] = "",
        operation: Annotated[str, Form()] = "set",
        confirmed: Annotated[str, Form()] = "",
    ) -> None:
        if operation not in {"set", "delete"}:
            raise UnprocessableError(f"'{operation[:40]}' is not an operation: set or delete.")
        self.key = key.strip()
        self.value = value
        self.operation = operation
        self.is_set = operation == "set"
        self.confirmed = bool(confirmed)

    @property
    def change(self) -> ConfigChange:
        """The change as the controller takes it."""
        return (
            ConfigChange(name=self.key, value=self.value)
            if self.is_set
            else ConfigChange(name=self.key, operation="DELETE")
        )

    @property
    def done(self) -> str:
        """What the change has done, without a secret."""
        if not self.is_set:
            return "reset"
        return "set" if is_secret_config(self.key) else f"set to {shown(self.value)}"


FormDep = Annotated[ConfigForm, Depends()]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigTarget:
    """What a form changes: the configs of a topic, a broker or all brokers.

    `path` is the address of the page and of the configs in REST. `fallback` returns the value after a reset.
    """

    title: str
    active: str
    back: str
    path: str
    entries: Sequence[ConfigEntry]
    fallback: Callable[[ConfigEntry], str | None]
    alter: Callable[[ConfigChange, bool], Awaitable[int | None]]

    def confirm_view(self, request: Request, form: ConfigForm) -> ConfirmView:
        """Return the preview. A secret stays in the form and is shown nowhere."""
        entry = next((each for each in self.entries if each.name == form.key), None)
        is_secret = is_secret_config(form.key) or (entry is not None and entry.is_sensitive)
        now = "unknown" if entry is None else "hidden" if is_secret else shown(entry.value)
        after = shown(form.value) if form.is_set else "default" if entry is None else shown(self.fallback(entry))
        body = {"value": "…" if is_secret else form.value} if form.is_set else None
        return ConfirmView(
            title=self.title,
            active=self.active,
            back=self.back,
            back_url=f"/{self.path}",
            action=f"/{self.path}",
            button="Set config" if form.is_set else "Reset config",
            changes=[(form.key, now, "hidden" if is_secret else after)],
            consequences=[entry.documentation] if entry is not None and entry.documentation else [],
            curl=cluster_curl(request, "PUT" if form.is_set else "DELETE", f"{self.path}/{form.key}", body),
            fields=[("name", form.key), ("value", form.value), ("operation", form.operation)],
        )


async def _alter(request: Request, target: ConfigTarget, form: ConfigForm) -> Response:
    """Preview the change as the controller validates it; with confirmed=yes make it."""

    async def alter(*, validate_only: bool) -> Flash:
        offset = await target.alter(form.change, validate_only)
        return Flash("good", f"{form.key} was {form.done} at offset {offset}.")

    return await preview_or_apply(
        request,
        target.confirm_view(request, form),
        confirmed=form.confirmed,
        apply=lambda: alter(validate_only=False),
        dry_run=lambda: alter(validate_only=True),
    )


@router.post("/topics/{name}/configs")
async def alter_topic_config(request: Request, caller: ConfigEditor, name: str, form: FormDep) -> Response:
    """Change a config of a topic."""
    services = services_of(request)
    known_topic(services.cluster, name)
    defaults = services.cluster.topic_defaults()
    target = ConfigTarget(
        title=f"Change config of {name}",
        active="/topics",
        back=f"{name} / configs",
        path=f"topics/{name}/configs",
        entries=services.cluster.topic_configs(name),
        fallback=lambda entry: topic_fallback(entry.name, defaults)[0] if entry.key is not None else None,
        alter=lambda change, dry: services.actions.configs.alter_topic(caller, name, [change], validate_only=dry),
    )
    return await _alter(request, target, form)


@router.post("/brokers/{broker_id}/configs")
async def alter_broker_config(request: Request, caller: BrokerConfigEditor, broker_id: int, form: FormDep) -> Response:
    """Change a config of a broker."""
    services = services_of(request)
    known_broker(services.cluster.image, broker_id)
    target = ConfigTarget(
        title=f"Change config of broker {broker_id}",
        active="/brokers",
        back=f"Broker {broker_id} / configs",
        path=f"brokers/{broker_id}/configs",
        entries=services.cluster.broker_configs(broker_id),
        fallback=_broker_fallback,
        alter=lambda change, dry: services.actions.configs.alter_broker(caller, broker_id, [change], validate_only=dry),
    )
    return await _alter(request, target, form)


def _broker_fallback(entry: ConfigEntry) -> str | None:
    return next((each.value for each in entry.synonyms if each.source != ConfigSource.DYNAMIC_BROKER_CONFIG), None)


@router.post("/broker-configs")
async def alter_config_of_all_brokers(request: Request, caller: BrokerConfigEditor, form: FormDep) -> Response:
    """Change a config of all brokers."""
    services = services_of(request)
    target = ConfigTarget(
        title="Change cluster-wide broker config",
        active="/brokers",
        back="Cluster-wide broker configs",
        path="broker-configs",
        entries=services.cluster.configs_of_all_brokers(),
        fallback=lambda entry: None if entry.key is None else entry.key.default,
        alter=lambda change, dry: services.actions.configs.alter_broker(caller, None, [change], validate_only=dry),
    )
    return await _alter(request, target, form)
