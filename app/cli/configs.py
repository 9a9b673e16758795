"""`conclave configs`: configs of one topic, broker, group or subscription. Source: ConfigCommand, Kafka 4.3.1."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import typer

from app.cli.client_options import AnyAdmin, ClientOptions, pairs, print_json, print_table, report_failures, with_admin
from kraft_core.clients.admin.configs import ConfigChange, ConfigEntry, ConfigResource, ConfigResourceType
from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.configs.effective_config import ConfigSource
from kraft_core.protocol.errors import KafkaError

_HIDDEN: Final = "[hidden]"
_OWN_SOURCES: Final = {
    ConfigResourceType.TOPIC: (ConfigSource.DYNAMIC_TOPIC_CONFIG,),
    ConfigResourceType.BROKER: (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    ConfigResourceType.BROKER_LOGGER: (ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,),
    ConfigResourceType.CLIENT_METRICS: (ConfigSource.CLIENT_METRICS_CONFIG,),
    ConfigResourceType.GROUP: (ConfigSource.GROUP_CONFIG,),
}
"""Where the values come from that were set for a resource itself."""


def resource_of(
    topic: str | None,
    broker: int | None,
    broker_defaults: bool,
    broker_logger: int | None,
    group: str | None,
    client_metrics: str | None,
) -> ConfigResource:
    """Return the resource that the options name. Raises typer.BadParameter unless it is exactly one."""
    given = [
        ConfigResource(kind, str(name))
        for kind, name in (
            (ConfigResourceType.TOPIC, topic),
            (ConfigResourceType.BROKER, broker),
            (ConfigResourceType.BROKER, "" if broker_defaults else None),
            (ConfigResourceType.BROKER_LOGGER, broker_logger),
            (ConfigResourceType.GROUP, group),
            (ConfigResourceType.CLIENT_METRICS, client_metrics),
        )
        if name is not None
    ]
    if len(given) != 1:
        options = "--topic, --broker, --broker-defaults, --broker-logger, --group, --client-metrics"
        raise typer.BadParameter(f"give exactly one of {options}", param_hint="resource")
    return given[0]


def changes_of(
    set_: Collection[str], delete: Collection[str], append: Collection[str], subtract: Collection[str]
) -> list[ConfigChange]:
    """Return the changes that the options name. Raises typer.BadParameter without any, or for two of one config."""
    changes = [
        *(ConfigChange(name, AlterConfigOp.SET, value) for name, value in pairs("--set", set_).items()),
        *(ConfigChange(name, AlterConfigOp.DELETE) for name in delete),
        *(ConfigChange(name, AlterConfigOp.APPEND, value) for name, value in pairs("--append", append).items()),
        *(ConfigChange(name, AlterConfigOp.SUBTRACT, value) for name, value in pairs("--subtract", subtract).items()),
    ]
    names = [change.name for change in changes]
    if not changes:
        raise typer.BadParameter("give at least one of --set, --delete, --append, --subtract", param_hint="change")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise typer.BadParameter(f"more than one change of {', '.join(twice)}", param_hint="change")
    return changes


def describe_configs(options: ClientOptions, resource: ConfigResource, *, everything: bool) -> int:
    """Print the configs that were set for a resource, or all with `everything`. Return the exit code."""

    async def work(admin: AnyAdmin) -> int:
        described = await admin.describe_configs([resource], include_synonyms=True)
        if described.failed:
            return _report(described.failed)
        found = described.get_or_raise(resource)
        own = _OWN_SOURCES[resource.type]
        shown = [entry for entry in found.values() if everything or entry.source in own]
        if options.as_json:
            print_json([_state(entry) for entry in shown])
        else:
            print_table(
                ("NAME", "VALUE", "SOURCE", "READ-ONLY"),
                [
                    (entry.name, _value(entry), entry.source.name, "yes" if entry.is_read_only else "no")
                    for entry in shown
                ],
            )
        return 0

    return with_admin(options, work)


def _report(failed: Mapping[ConfigResource, KafkaError]) -> int:
    return report_failures("configs of", {f"{key.type.name} '{key.name}'": error for key, error in failed.items()})


def _value(entry: ConfigEntry | None) -> str | None:
    if entry is None:
        return None
    return _HIDDEN if entry.is_sensitive else entry.value


def _state(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "type": None if entry.type is None else entry.type.name,
        "isSensitive": entry.is_sensitive,
        "isReadOnly": entry.is_read_only,
        "synonyms": [{"name": each.name, "value": each.value, "source": each.source.name} for each in entry.synonyms],
    }


def alter_configs(options: ClientOptions, resource: ConfigResource, changes: Collection[ConfigChange]) -> int:
    """Change configs of a resource, or check whether that can be done, and return the exit code."""

    async def work(admin: AnyAdmin) -> int:
        names = [change.name for change in changes]
        described = await admin.describe_configs([resource], names=names)
        if described.failed:
            return _report(described.failed)
        results = await admin.incremental_alter_configs({resource: changes}, validate_only=options.dry_run)
        if results.failed:
            return _report(results.failed)
        before = described.get_or_raise(resource)
        secret = {name for name, entry in before.items() if entry.is_sensitive}
        rows = [
            (
                change.name,
                change.operation.name,
                _value(before.get(change.name)),
                _HIDDEN if change.name in secret and change.value is not None else change.value,
            )
            for change in changes
        ]
        if options.as_json:
            keys = ("name", "operation", "before", "value")
            print_json({"done": not options.dry_run, "changes": [dict(zip(keys, row, strict=True)) for row in rows]})
            return 0
        print_table(("NAME", "OPERATION", "BEFORE", "VALUE"), rows)
        print("Dry run: nothing was changed." if options.dry_run else "Changed.")
        return 0

    return with_admin(options, work)
