"""Configs of a topic, a broker or all brokers: value, source, default and description; set and reset with a preview."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from app.actions.audited import Caller
from app.http.errors import FORM_REFUSED, UnprocessableError
from app.pages.brokers import known_broker
from app.pages.config_form import SET_PREFIX, ConfigForm, config_form, given_value, shown
from app.pages.config_values import Unit, in_words, unit_of_entry
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import UNKNOWN, page_of, render
from app.pages.topic import known_topic
from app.security.roles import Role
from app.services import BrokerConfigEditor, ConfigEditor, PastReader, Services, services_of
from app.texts import joined, phrase, phrases
from kraft_core.clients.admin.configs import ConfigChange
from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.configs.config_def import ConfigKey, ConfigType, UpdateMode
from kraft_core.configs.effective_config import ConfigEntry, ConfigSource, topic_fallback
from kraft_core.image.changes import is_secret_config

router = APIRouter(include_in_schema=False)

NO_STATIC_CONFIGS: Final = phrase(
    "This broker has not answered with its server.properties yet: only dynamic configs and defaults are shown."
)
NO_DEFAULTS: Final = phrase("No broker has answered with its server.properties yet: inherited values may be others.")
CLUSTER_WIDE_NOTE: Final = phrase(
    "These values apply to all brokers, unless a broker has another. They override server.properties, not shown here."
)
SOURCES: Final[Mapping[ConfigSource, str]] = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: phrase("topic"),
    ConfigSource.DYNAMIC_BROKER_CONFIG: phrase("broker"),
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: phrase("cluster-wide"),
    ConfigSource.STATIC_BROKER_CONFIG: "server.properties",
    ConfigSource.DEFAULT_CONFIG: phrase("default"),
}


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One config. `is_own`: set on this resource, so that it can be reset.

    `words` is the value with a unit, as 7 d. A value of `choices`, if there are any, is selected; otherwise it is
    typed, and `hint` says how. `given` is what the field holds, `is_reset` whether the reset is selected.
    """

    name: str
    value: str
    words: str
    source: str
    default: str
    choices: Sequence[str]
    hint: str
    given: str
    type: str
    allowed: str
    documentation: str
    is_own: bool
    is_sensitive: bool
    is_read_only: bool
    is_reset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsView:
    """Model of configs.html: of `total` configs those that contain `search`, with `only_set` only the overrides."""

    parents: str
    parents_url: str
    parent: str
    tabs: Literal["topic", "broker", ""]
    action: str
    note: str
    error: str
    may_edit: bool
    search: str
    only_set: bool
    total: int
    rows: Sequence[ConfigRow]


def choices_of(key: ConfigKey | None) -> Sequence[str]:
    """Return the values of a config that has few, () for any other."""
    if key is None:
        return ()
    if key.type is ConfigType.BOOLEAN:
        return ("true", "false")
    if key.type is ConfigType.STRING and key.valid_values.startswith("[") and key.valid_values.endswith("]"):
        return tuple(each.strip() for each in key.valid_values[1:-1].split(","))
    return ()


def config_row(entry: ConfigEntry, own: ConfigSource) -> ConfigRow:
    """Return one row; a config that brokers read only at start cannot be edited."""
    key = entry.key
    unit = unit_of_entry(entry)
    default = UNKNOWN if key is None else shown(key.default)
    return ConfigRow(
        name=entry.name,
        value=shown(entry.value),
        words="" if entry.is_sensitive else in_words(entry.value, unit),
        choices=choices_of(key),
        hint=unit.example if unit else "",
        given=given_value(entry, own),
        source=SOURCES.get(entry.source, entry.source.name.lower()),
        default=phrase("hidden") if entry.is_sensitive and default != UNKNOWN else default,
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
        self.only_set = only_set

    def matches(self, row: ConfigRow) -> bool:
        """Whether the row is listed."""
        return self.search.strip().lower() in row.name.lower() and (row.is_own or not self.only_set)


QueryDep = Annotated[Query, Depends()]
FormDep = Annotated[ConfigForm, Depends(config_form)]
Alter = Callable[[Caller, Sequence[ConfigChange], bool], Awaitable[int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigTarget:
    """The configs of a topic, a broker or all brokers: their page, and what a form changes.

    `path` is the address of the page and of the configs in REST, `own` the source of the values that are set here, and
    `role` is needed to set them. `fallback` returns the value after a reset.
    """

    title: str
    parent: str
    parents: str
    parents_url: str
    tabs: Literal["topic", "broker", ""] = ""
    note: str = ""
    path: str
    own: ConfigSource
    role: Role
    entries: Sequence[ConfigEntry]
    fallback: Callable[[ConfigEntry], str | None]
    alter: Alter

    def page(self, request: Request, query: Query, form: ConfigForm | None = None, error: str = "") -> Response:
        """Return the page, after an `error` with what was typed into the form."""
        page = page_of(request, self.title, self.parents_url)
        rows = [config_row(entry, self.own) for entry in self.entries]
        if form is not None:
            rows = [
                replace(
                    row,
                    given="" if row.is_sensitive else form.values.get(row.name, row.given),
                    is_reset=row.name in form.resets,
                )
                for row in rows
            ]
        view = ConfigsView(
            parents=self.parents,
            parents_url=self.parents_url,
            parent=self.parent,
            tabs=self.tabs,
            action=f"/{self.path}",
            note=self.note,
            error=error,
            may_edit=page.past is None and page.role >= self.role,
            search=query.search,
            only_set=bool(query.only_set),
            total=len(rows),
            rows=[row for row in rows if query.matches(row)],
        )
        return render(request, "configs.html", FORM_REFUSED if error else 200, page=page, view=view)

    def confirm_view(self, request: Request, form: ConfigForm, changes: Sequence[ConfigChange]) -> ConfirmView:
        """Return the preview. A secret stays in the form and is shown nowhere."""
        entries = {entry.name: entry for entry in self.entries}
        query = urlencode({key: text for key, text in (("q", form.search), ("only_set", form.only_set)) if text})
        body = [
            {"name": each.name, "operation": "DELETE"}
            if each.operation is AlterConfigOp.DELETE
            else {"name": each.name, "value": "…" if is_secret(entries[each.name]) else each.value}
            for each in changes
        ]
        resets = sum(each.operation is AlterConfigOp.DELETE for each in changes)
        count = len(changes)
        if resets == count:
            title = phrases("Reset config", "Reset configs", count)
        elif not resets:
            title = phrases("Set config", "Set configs", count)
        else:
            title = phrases("Change config", "Change configs", count)
        return ConfirmView(
            title=title,
            active=self.parents_url,
            back=phrase("%(of)s / configs", of=self.title),
            back_url=f"/{self.path}{'?' if query else ''}{query}",
            action=f"/{self.path}",
            button=title,
            changes=[self._row(entries[each.name], each) for each in changes],
            consequences=[
                f"`{each.name}`: {entries[each.name].documentation}"
                for each in changes
                if entries[each.name].documentation
            ],
            curl=cluster_curl(request, "POST", f"{self.path}:alter", {"data": body}),
            fields=[
                *((f"{SET_PREFIX}{name}", value) for name, value in form.values.items() if value),
                *(("reset", name) for name in sorted(form.resets)),
                ("q", form.search),
                ("only_set", form.only_set),
            ],
        )

    def _row(self, entry: ConfigEntry, change: ConfigChange) -> tuple[str, str, str]:
        is_reset = change.operation is AlterConfigOp.DELETE
        if is_secret(entry):
            return entry.name, phrase("hidden"), phrase("default") if is_reset else phrase("hidden")
        unit = unit_of_entry(entry)
        after = self.fallback(entry) if is_reset else change.value
        return entry.name, _with_words(entry.value, unit), _with_words(after, unit)


def _with_words(value: str | None, unit: Unit | None) -> str:
    words = in_words(value, unit)
    return f"{shown(value)} ({words})" if words else shown(value)


def is_secret(entry: ConfigEntry) -> bool:
    """Whether the value of a config is shown nowhere."""
    return entry.is_sensitive or is_secret_config(entry.name)


def done_text(changes: Sequence[ConfigChange], offset: int | None) -> str:
    """Return what a change has done, without secrets."""
    if len(changes) > 1:
        return phrase(
            "%(count)s configs were changed at offset %(offset)s: %(names)s.",
            count=len(changes),
            offset=offset,
            names=joined(", ", [each.name for each in changes]),
        )
    (one,) = changes
    if one.operation is AlterConfigOp.DELETE:
        return phrase("%(name)s was reset at offset %(offset)s.", name=one.name, offset=offset)
    if is_secret_config(one.name):
        return phrase("%(name)s was set at offset %(offset)s.", name=one.name, offset=offset)
    value = shown(one.value)
    return phrase("%(name)s was set to %(value)s at offset %(offset)s.", name=one.name, value=value, offset=offset)


def topic_target(services: Services, name: str) -> ConfigTarget:
    """Return the configs of a topic. Raises NotFoundError."""
    cluster, actions = services.cluster, services.actions.configs
    known_topic(cluster, name)
    defaults = cluster.topic_defaults()
    return ConfigTarget(
        title=name,
        parent=name,
        parents=phrase("Topics"),
        parents_url="/topics",
        tabs="topic",
        note="" if cluster.static_configs.of_any() else NO_DEFAULTS,
        path=f"topics/{name}/configs",
        own=ConfigSource.DYNAMIC_TOPIC_CONFIG,
        role=Role.EDITOR,
        entries=cluster.topic_configs(name),
        fallback=lambda entry: topic_fallback(entry.name, defaults)[0] if entry.key is not None else None,
        alter=lambda caller, changes, dry: actions.alter_topic(caller, name, changes, validate_only=dry),
    )


def broker_target(services: Services, broker_id: int) -> ConfigTarget:
    """Return the configs of a broker. Raises NotFoundError."""
    cluster, actions = services.cluster, services.actions.configs
    known_broker(cluster.image, broker_id)
    return ConfigTarget(
        title=phrase("Broker %(id)s", id=broker_id),
        parent=str(broker_id),
        parents=phrase("Brokers"),
        parents_url="/brokers",
        tabs="broker",
        note="" if cluster.static_configs.of(broker_id) else NO_STATIC_CONFIGS,
        path=f"brokers/{broker_id}/configs",
        own=ConfigSource.DYNAMIC_BROKER_CONFIG,
        role=Role.ADMIN,
        entries=cluster.broker_configs(broker_id),
        fallback=_broker_fallback,
        alter=lambda caller, changes, dry: actions.alter_broker(caller, broker_id, changes, validate_only=dry),
    )


def _broker_fallback(entry: ConfigEntry) -> str | None:
    return next((each.value for each in entry.synonyms if each.source != ConfigSource.DYNAMIC_BROKER_CONFIG), None)


def all_brokers_target(services: Services) -> ConfigTarget:
    """Return the configs that can be set for all brokers at once."""
    own, actions = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, services.actions.configs
    return ConfigTarget(
        title=phrase("Cluster-wide broker configs"),
        parent="all",
        parents=phrase("Brokers"),
        parents_url="/brokers",
        note=CLUSTER_WIDE_NOTE,
        path="broker-configs",
        own=own,
        role=Role.ADMIN,
        entries=[
            each
            for each in services.cluster.configs_of_all_brokers()
            if each.source == own or (each.key is not None and each.key.update_mode is UpdateMode.CLUSTER_WIDE)
        ],
        fallback=lambda entry: None if entry.key is None else entry.key.default,
        alter=lambda caller, changes, dry: actions.alter_broker(caller, None, changes, validate_only=dry),
    )


async def _alter(request: Request, caller: Caller, target: ConfigTarget, form: ConfigForm) -> Response:
    """Preview the changes as the controller validates them; if confirmed, make them, all or none."""
    try:
        changes = form.changes(target.entries, target.own)
    except UnprocessableError as error:
        return target.page(request, Query(form.search, form.only_set), form, error.message)

    async def alter(*, validate_only: bool) -> Flash:
        return Flash("good", done_text(changes, await target.alter(caller, changes, validate_only)))

    return await preview_or_apply(
        request,
        target.confirm_view(request, form, changes),
        confirmed=form.confirmed,
        apply=lambda: alter(validate_only=False),
        dry_run=lambda: alter(validate_only=True),
    )


@router.get("/topics/{name}/configs")
async def topic_configs(request: Request, _caller: PastReader, name: str, query: QueryDep) -> Response:
    """Return the configs of a topic."""
    return topic_target(services_of(request), name).page(request, query)


@router.post("/topics/{name}/configs")
async def alter_topic_configs(request: Request, caller: ConfigEditor, name: str, form: FormDep) -> Response:
    """Change configs of a topic."""
    return await _alter(request, caller, topic_target(services_of(request), name), form)


@router.get("/brokers/{broker_id}/configs")
async def broker_configs(request: Request, _caller: PastReader, broker_id: int, query: QueryDep) -> Response:
    """Return the configs of a broker."""
    return broker_target(services_of(request), broker_id).page(request, query)


@router.post("/brokers/{broker_id}/configs")
async def alter_broker_configs(request: Request, caller: BrokerConfigEditor, broker_id: int, form: FormDep) -> Response:
    """Change configs of a broker."""
    return await _alter(request, caller, broker_target(services_of(request), broker_id), form)


@router.get("/broker-configs")
async def configs_of_all_brokers(request: Request, _caller: PastReader, query: QueryDep) -> Response:
    """Return the configs that can be set for all brokers at once."""
    return all_brokers_target(services_of(request)).page(request, query)


@router.post("/broker-configs")
async def alter_configs_of_all_brokers(request: Request, caller: BrokerConfigEditor, form: FormDep) -> Response:
    """Change configs of all brokers."""
    return await _alter(request, caller, all_brokers_target(services_of(request)), form)
