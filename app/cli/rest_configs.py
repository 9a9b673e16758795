"""Configs of any resource over REST, as the admin client of commands has them."""

from collections.abc import AsyncIterable, Collection
from typing import Any, Final, Literal

from conclave.client.async_client import AsyncClient
from conclave.client.models import AlterEntry
from kraft_core.clients.admin.configs import ConfigChange, ConfigEntry, ConfigResource, ConfigResourceType
from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.configs.config_def import ConfigType
from kraft_core.configs.effective_config import ConfigSource, ConfigSynonym
from kraft_core.protocol.errors import ErrorCode, KafkaError

_SOURCES: Final = {"DYNAMIC_GROUP_CONFIG": "GROUP_CONFIG", "DYNAMIC_CLIENT_METRICS_CONFIG": "CLIENT_METRICS_CONFIG"}
"""The words of REST that are not the names of ConfigSource."""

_OPERATIONS: Final[dict[AlterConfigOp, Literal["SET", "DELETE", "APPEND", "SUBTRACT"]]] = {
    AlterConfigOp.SET: "SET",
    AlterConfigOp.DELETE: "DELETE",
    AlterConfigOp.APPEND: "APPEND",
    AlterConfigOp.SUBTRACT: "SUBTRACT",
}


def _refuse_loggers() -> KafkaError:
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The REST API has no log levels of brokers: give --bootstrap.")


async def described_configs(
    client: AsyncClient, resource: ConfigResource, *, include_synonyms: bool
) -> dict[str, ConfigEntry]:
    """Return the configs of a resource by name. Raises ApiError, KafkaError."""
    return {
        each.name: ConfigEntry(
            each.name,
            each.value,
            _source(each.source),
            each.is_sensitive,
            each.is_read_only,
            None if each.type is None else ConfigType[each.type],
            each.documentation or "",
            tuple(ConfigSynonym(one.name, one.value, _source(one.source)) for one in each.synonyms)
            if include_synonyms
            else (),
        )
        async for each in _listed(client, resource)
    }


def _listed(client: AsyncClient, resource: ConfigResource) -> AsyncIterable[Any]:
    match resource.type:
        case ConfigResourceType.TOPIC:
            return client.list_topic_configs(resource.name)
        case ConfigResourceType.BROKER if not resource.name:
            return client.list_cluster_configs()
        case ConfigResourceType.BROKER:
            return client.list_broker_configs(int(resource.name))
        case ConfigResourceType.GROUP:
            return client.list_group_configs(resource.name)
        case ConfigResourceType.CLIENT_METRICS:
            return client.list_client_metrics_configs(resource.name)
        case _:
            raise _refuse_loggers()


def _source(name: str) -> ConfigSource:
    return ConfigSource.__members__.get(_SOURCES.get(name, name), ConfigSource.UNKNOWN)


async def alter_configs(
    client: AsyncClient, resource: ConfigResource, changes: Collection[ConfigChange], *, validate_only: bool
) -> None:
    """Change configs of a resource, all or none. Raises ApiError, KafkaError."""
    data = [AlterEntry(name=each.name, operation=_OPERATIONS[each.operation], value=each.value) for each in changes]
    match resource.type:
        case ConfigResourceType.TOPIC:
            await client.alter_topic_configs(resource.name, data=data, validate_only=validate_only)
        case ConfigResourceType.BROKER if not resource.name:
            await client.alter_cluster_configs(data=data, validate_only=validate_only)
        case ConfigResourceType.BROKER:
            await client.alter_broker_configs(int(resource.name), data=data, validate_only=validate_only)
        case ConfigResourceType.GROUP:
            await client.alter_group_configs(resource.name, data=data, validate_only=validate_only)
        case ConfigResourceType.CLIENT_METRICS:
            await client.alter_client_metrics_configs(resource.name, data=data, validate_only=validate_only)
        case _:
            raise _refuse_loggers()
