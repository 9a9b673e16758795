"""Configs of a topic, a broker, or all brokers: value, source, default, meaning; set and reset with a preview."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.configs import ConfigChange
from app.http.errors import ApiError
from app.pages.brokers import known_broker
from app.pages.confirm import ConfirmView
from app.pages.flash import Flash
from app.pages.frame import UNKNOWN, go_to, page_of, refusal, render
from app.pages.topic import curl, known_topic
from app.security.roles import Role
from app.services import BrokerConfigEditor, ConfigEditor, Reader, services_of, visitor_of
from kraft_core.configs.config_def import UpdateMode
from kraft_core.configs.effective_config import ConfigEntry, ConfigSource, topic_fallback
from kraft_core.image.changes import is_secret_config
from kraft_core.protocol.errors import KafkaError

router = APIRouter(include_in_schema=False)

SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
    ConfigSource.STATIC_BROKER_CONFIG: "server.properties",
    ConfigSource.DEFAULT_CONFIG: "default",
}


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One key. `is_own`: set on this very resource, so that it can be reset."""

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
    read_only_why: str


@dataclass(frozen=True, slots=True)
class ConfigsView:
    """What configs.html shows: of `total` keys those that contain `search`, or with `only_set` those with a value of their own."""

    parents: str
    parents_url: str
    parent: str
    parent_url: str
    action: str
    note: str
    may_edit: bool
    search: str
    only_set: bool
    total: int
    rows: Sequence[ConfigRow]


def shown(value: str | None) -> str:
    """A value as text; null and nothing are told apart."""
    if value is None:
        return "null"
    return value or '""'


def config_row(entry: ConfigEntry, own: ConfigSource) -> ConfigRow:
    """One row; a key that Kafka reads only at start says so instead of offering a form."""
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
        read_only_why="only in server.properties, read at start" if entry.is_read_only else "",
    )


def _wanted(rows: Sequence[ConfigRow], search: str, only_set: str) -> list[ConfigRow]:
    needle = search.strip().lower()
    return [row for row in rows if needle in row.name.lower() and (row.is_own or not only_set)]


def _may(request: Request, role: Role) -> bool:
    user = visitor_of(request)
    return user is not None and user.role >= role


@router.get("/topics/{name}/configs")
async def topic_configs(request: Request, _caller: Reader, name: str, q: str = "", only_set: str = "") -> Response:
    """All configs of a topic, or those that are looked for."""
    services = services_of(request)
    known_topic(services.cluster, name)
    rows = [config_row(each, ConfigSource.DYNAMIC_TOPIC_CONFIG) for each in services.cluster.topic_configs(name)]
    view = ConfigsView(
        parents="Topics",
        parents_url="/topics",
        parent=name,
        parent_url=f"/topics/{name}",
        action=f"/topics/{name}/configs",
        note="",
        may_edit=_may(request, Role.EDITOR),
        search=q,
        only_set=bool(only_set),
        total=len(rows),
        rows=_wanted(rows, q, only_set),
    )
    return render(request, "configs.html", page=page_of(request, f"Configs of {name}", "/topics"), view=view)


@router.get("/brokers/{broker_id}/configs")
async def broker_configs(
    request: Request, _caller: Reader, broker_id: int, q: str = "", only_set: str = ""
) -> Response:
    """All settings of a broker, or those that are looked for."""
    services = services_of(request)
    known_broker(services.cluster.image, broker_id)
    known = bool(services.cluster.statics.of(broker_id))
    entries = services.cluster.broker_configs(broker_id)
    rows = [config_row(each, ConfigSource.DYNAMIC_BROKER_CONFIG) for each in entries]
    view = ConfigsView(
        parents="Brokers",
        parents_url="/brokers",
        parent=str(broker_id),
        parent_url=f"/brokers/{broker_id}",
        action=f"/brokers/{broker_id}/configs",
        note=""
        if known
        else "This broker has not told its server.properties yet; only dynamic configs and defaults are shown.",
        may_edit=_may(request, Role.ADMIN),
        search=q,
        only_set=bool(only_set),
        total=len(rows),
        rows=_wanted(rows, q, only_set),
    )
    page = page_of(request, f"Settings of broker {broker_id}", "/brokers")
    return render(request, "configs.html", page=page, view=view)


@router.get("/broker-configs")
async def configs_of_all_brokers(request: Request, _caller: Reader, q: str = "", only_set: str = "") -> Response:
    """The settings that all brokers can be given at once, or those that are looked for."""
    rows = [
        config_row(each, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        for each in services_of(request).cluster.configs_of_all_brokers()
        if each.source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG or _is_cluster_wide(each)
    ]
    view = ConfigsView(
        parents="Brokers",
        parents_url="/brokers",
        parent="all",
        parent_url="/brokers",
        action="/broker-configs",
        note="What is set here counts for every broker that does not say otherwise itself. What stands in a broker's "
        "server.properties is overruled by it, and is not shown here.",
        may_edit=_may(request, Role.ADMIN),
        search=q,
        only_set=bool(only_set),
        total=len(rows),
        rows=_wanted(rows, q, only_set),
    )
    return render(request, "configs.html", page=page_of(request, "Settings of all brokers", "/brokers"), view=view)


def _is_cluster_wide(entry: ConfigEntry) -> bool:
    return entry.key is not None and entry.key.update_mode is UpdateMode.CLUSTER_WIDE


@dataclass(frozen=True, slots=True)
class ConfigWish:
    """One key to set or reset."""

    name: str
    value: str
    operation: Literal["set", "delete"]

    @classmethod
    def read(cls, name: str, value: str, operation: str) -> "ConfigWish":
        """From a form. Raises ApiError 422 for another operation."""
        if operation not in {"set", "delete"}:
            raise ApiError(422, f"'{operation[:40]}' is not an operation: set or delete.")
        return cls(name.strip(), value, "delete" if operation == "delete" else "set")

    @property
    def change(self) -> ConfigChange:
        """As the cluster wants it."""
        if self.operation == "delete":
            return ConfigChange(name=self.name, operation="DELETE")
        return ConfigChange(name=self.name, value=self.value)


@dataclass(frozen=True, slots=True)
class ConfigTarget:
    """What a form changes: the configs of a topic, a broker or all brokers.

    `path` is the address of the page, and of the configs in REST. `otherwise` says what a key is worth once it is reset.
    """

    title: str
    active: str
    back: str
    path: str
    entries: Sequence[ConfigEntry]
    otherwise: Callable[[ConfigEntry], str | None]
    alter: Callable[[ConfigWish, bool], Awaitable[int | None]]

    def confirm_view(self, request: Request, wish: ConfigWish, error: str) -> ConfirmView:
        """What the change does. A secret stays in the form and is shown nowhere."""
        entry = next((each for each in self.entries if each.name == wish.name), None)
        is_secret = is_secret_config(wish.name) or (entry is not None and entry.is_sensitive)
        is_set = wish.operation == "set"
        now = "unknown" if entry is None else "hidden" if is_secret else shown(entry.value)
        after = shown(wish.value) if is_set else "default" if entry is None else shown(self.otherwise(entry))
        body = {"value": "…" if is_secret else wish.value} if is_set else None
        address = f"{self.path}/{wish.name}"
        return ConfirmView(
            back=self.back,
            back_url=f"/{self.path}",
            action=f"/{self.path}",
            button="Set config" if is_set else "Reset config",
            changes=[(wish.name, now, "hidden" if is_secret else after)],
            consequences=[entry.documentation] if entry is not None and entry.documentation else [],
            curl=curl(request, services_of(request), "PUT" if is_set else "DELETE", address, body),
            fields=[("name", wish.name), ("value", wish.value), ("operation", wish.operation)],
            verdict="" if error else "The controller would accept this. Nothing has changed yet.",
            error=error,
        )


async def _alter(request: Request, target: ConfigTarget, wish: ConfigWish, confirmed: str) -> Response:
    """Show what the change does; once it is confirmed, do it."""
    error, status = "", 200
    try:
        offset = await target.alter(wish, not confirmed)
    except (KafkaError, ConnectionError) as refused:
        error, status = refusal(refused)
    else:
        if confirmed:
            what = "reset" if wish.operation == "delete" else "set"
            if wish.operation == "set" and not is_secret_config(wish.name):
                what += f" to {shown(wish.value)}"
            return go_to(request, f"/{target.path}", Flash("good", f"{wish.name} was {what} at offset {offset}."))
    view = target.confirm_view(request, wish, error)
    return render(request, "confirm.html", status, page=page_of(request, target.title, target.active), view=view)


@router.post("/topics/{name}/configs")
async def alter_topic_config(
    request: Request,
    caller: ConfigEditor,
    name: str,
    key: Annotated[str, Form(alias="name")] = "",
    value: Annotated[str, Form()] = "",
    operation: Annotated[str, Form()] = "set",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Change a config of a topic."""
    services = services_of(request)
    known_topic(services.cluster, name)
    defaults = services.cluster.topic_defaults()

    async def alter(wish: ConfigWish, validate_only: bool) -> int | None:
        return await services.actions.configs.alter_topic(caller, name, [wish.change], validate_only=validate_only)

    target = ConfigTarget(
        title=f"Change a config of {name}",
        active="/topics",
        back=f"{name} / configs",
        path=f"topics/{name}/configs",
        entries=services.cluster.topic_configs(name),
        otherwise=lambda entry: topic_fallback(entry.name, defaults)[0] if entry.key is not None else None,
        alter=alter,
    )
    return await _alter(request, target, ConfigWish.read(key, value, operation), confirmed)


@router.post("/brokers/{broker_id}/configs")
async def alter_broker_config(
    request: Request,
    caller: BrokerConfigEditor,
    broker_id: int,
    key: Annotated[str, Form(alias="name")] = "",
    value: Annotated[str, Form()] = "",
    operation: Annotated[str, Form()] = "set",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Change a setting of a broker."""
    services = services_of(request)
    known_broker(services.cluster.image, broker_id)

    async def alter(wish: ConfigWish, validate_only: bool) -> int | None:
        return await services.actions.configs.alter_broker(
            caller, broker_id, [wish.change], validate_only=validate_only
        )

    target = ConfigTarget(
        title=f"Change a setting of broker {broker_id}",
        active="/brokers",
        back=f"broker {broker_id} / configs",
        path=f"brokers/{broker_id}/configs",
        entries=services.cluster.broker_configs(broker_id),
        otherwise=_broker_fallback,
        alter=alter,
    )
    return await _alter(request, target, ConfigWish.read(key, value, operation), confirmed)


def _broker_fallback(entry: ConfigEntry) -> str | None:
    return next((each.value for each in entry.synonyms if each.source != ConfigSource.DYNAMIC_BROKER_CONFIG), None)


@router.post("/broker-configs")
async def alter_config_of_all_brokers(
    request: Request,
    caller: BrokerConfigEditor,
    key: Annotated[str, Form(alias="name")] = "",
    value: Annotated[str, Form()] = "",
    operation: Annotated[str, Form()] = "set",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Change a setting of all brokers."""
    services = services_of(request)

    async def alter(wish: ConfigWish, validate_only: bool) -> int | None:
        return await services.actions.configs.alter_broker(caller, None, [wish.change], validate_only=validate_only)

    target = ConfigTarget(
        title="Change a setting of all brokers",
        active="/brokers",
        back="settings of all brokers",
        path="broker-configs",
        entries=services.cluster.configs_of_all_brokers(),
        otherwise=lambda entry: None if entry.key is None else entry.key.default,
        alter=alter,
    )
    return await _alter(request, target, ConfigWish.read(key, value, operation), confirmed)
