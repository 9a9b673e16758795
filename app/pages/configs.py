"""Configs of a topic, a broker, or all brokers: value, source, default, meaning; set and reset with a preview."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.admin import ConfigChange
from app.errors import ApiError
from app.flash import Flash
from app.pages.brokers import known_broker
from app.pages.confirm import ConfirmView
from app.pages.frame import UNKNOWN, go_to, page_of, refusal, render
from app.pages.topic import curl, known_topic
from app.security.roles import Role
from app.services import BrokerConfigEditor, ConfigEditor, Reader, services_of, visitor_of
from kraft_core.controller.effective_config import ConfigEntry, ConfigSource
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
    """What configs.html shows."""

    parents: str
    parents_url: str
    parent: str
    parent_url: str
    action: str
    note: str
    may_edit: bool
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


def _may(request: Request, role: Role) -> bool:
    user = visitor_of(request)
    return user is not None and user.role >= role


@router.get("/topics/{name}/configs")
async def topic_configs(request: Request, _caller: Reader, name: str) -> Response:
    """All configs of a topic."""
    services = services_of(request)
    known_topic(services.cluster, name)
    view = ConfigsView(
        parents="Topics",
        parents_url="/topics",
        parent=name,
        parent_url=f"/topics/{name}",
        action=f"/topics/{name}/configs",
        note="",
        may_edit=_may(request, Role.EDITOR),
        rows=[config_row(each, ConfigSource.DYNAMIC_TOPIC_CONFIG) for each in services.cluster.topic_configs(name)],
    )
    return render(request, "configs.html", page=page_of(request, f"Configs of {name}", "/topics"), view=view)


@router.get("/brokers/{broker_id}/configs")
async def broker_configs(request: Request, _caller: Reader, broker_id: int) -> Response:
    """All settings of a broker."""
    services = services_of(request)
    known_broker(services.cluster.image, broker_id)
    known = bool(services.cluster.statics.of(broker_id))
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
        rows=[
            config_row(each, ConfigSource.DYNAMIC_BROKER_CONFIG) for each in services.cluster.broker_configs(broker_id)
        ],
    )
    page = page_of(request, f"Settings of broker {broker_id}", "/brokers")
    return render(request, "configs.html", page=page, view=view)


@dataclass(frozen=True, slots=True)
class ConfigWish:
    """One key to set or reset."""

    name: str
    value: str
    operation: Literal["set", "delete"]

    @property
    def change(self) -> ConfigChange:
        """As the cluster wants it."""
        if self.operation == "delete":
            return ConfigChange(name=self.name, operation="DELETE")
        return ConfigChange(name=self.name, value=self.value)

    def after(self, entry: ConfigEntry | None, own: ConfigSource) -> str:
        """What the key will be worth."""
        if self.operation == "set":
            return shown(self.value)
        fallback = next((each for each in entry.synonyms if each.source != own), None) if entry else None
        return shown(fallback.value) if fallback else "default"


def _wish(name: str, value: str, operation: str) -> ConfigWish:
    if operation not in {"set", "delete"}:
        raise ApiError(422, f"'{operation[:40]}' is not an operation: set or delete.")
    return ConfigWish(name.strip(), value, "delete" if operation == "delete" else "set")


def _confirm(
    request: Request, wish: ConfigWish, entry: ConfigEntry | None, own: ConfigSource, back: str, path: str, error: str
) -> ConfirmView:
    services = services_of(request)
    now = "unknown" if entry is None else "hidden" if entry.is_sensitive else shown(entry.value)
    body = {"value": wish.value} if wish.operation == "set" else None
    method = "PUT" if wish.operation == "set" else "DELETE"
    return ConfirmView(
        back=f"{back} / configs",
        back_url=f"/{path}/configs",
        action=f"/{path}/configs",
        button="Set config" if wish.operation == "set" else "Reset config",
        changes=[(wish.name, now, wish.after(entry, own))],
        consequences=[entry.documentation] if entry is not None and entry.documentation else [],
        curl=curl(request, services, method, f"{path}/configs/{wish.name}", body),
        fields=[("name", wish.name), ("value", wish.value), ("operation", wish.operation)],
        verdict="" if error else "The controller would accept this. Nothing has changed yet.",
        error=error,
    )


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
    """Show what changing a config does; with confirmed=yes do it."""
    services = services_of(request)
    known_topic(services.cluster, name)
    wish = _wish(key, value, operation)
    entry = _entry(services.cluster.topic_configs(name), wish.name)
    error, status = "", 200
    try:
        offset = await services.actions.alter_topic_configs(caller, name, [wish.change], validate_only=not confirmed)
    except (KafkaError, ConnectionError) as refused:
        error, status = refusal(refused)
    else:
        if confirmed:
            return go_to(request, f"/topics/{name}/configs", _done(wish, offset))
    view = _confirm(request, wish, entry, ConfigSource.DYNAMIC_TOPIC_CONFIG, name, f"topics/{name}", error)
    page = page_of(request, f"Change a config of {name}", "/topics")
    return render(request, "confirm.html", status, page=page, view=view)


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
    """The same for one broker."""
    services = services_of(request)
    known_broker(services.cluster.image, broker_id)
    wish = _wish(key, value, operation)
    entry = _entry(services.cluster.broker_configs(broker_id), wish.name)
    error, status = "", 200
    try:
        offset = await services.actions.alter_broker_configs(
            caller, broker_id, [wish.change], validate_only=not confirmed
        )
    except (KafkaError, ConnectionError) as refused:
        error, status = refusal(refused)
    else:
        if confirmed:
            return go_to(request, f"/brokers/{broker_id}/configs", _done(wish, offset))
    own, back = ConfigSource.DYNAMIC_BROKER_CONFIG, f"broker {broker_id}"
    view = _confirm(request, wish, entry, own, back, f"brokers/{broker_id}", error)
    page = page_of(request, f"Change a setting of broker {broker_id}", "/brokers")
    return render(request, "confirm.html", status, page=page, view=view)


def _entry(entries: Sequence[ConfigEntry], name: str) -> ConfigEntry | None:
    return next((entry for entry in entries if entry.name == name), None)


def _done(wish: ConfigWish, offset: int | None) -> Flash:
    what = "reset" if wish.operation == "delete" else f"set to {shown(wish.value)}"
    return Flash("good", f"{wish.name} was {what} at offset {offset}.")
