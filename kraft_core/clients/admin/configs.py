"""Admin's operations on configs. Source: KafkaAdminClient, ConfigEntry, AlterConfigOp, ConfigResource, Kafka 4.3.1."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from kraft_core.clients.admin.admin_call import (
    ANY_BROKER,
    AdminCall,
    AdminCalls,
    Broker,
    RequestContext,
    Results,
    Target,
    error_of,
    single,
)
from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.configs.config_def import ConfigException, ConfigType
from kraft_core.configs.effective_config import ConfigSource, ConfigSynonym
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseDescribeConfigsResourceResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


class ConfigResourceType(IntEnum):
    """What has configs. Source: ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A topic, broker (by id as text; "" for the default of all brokers), broker's loggers, subscription or group."""

    type: ConfigResourceType
    name: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A config's value. It is None for a secret. `type` is None where the broker does not say."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool = False
    is_read_only: bool = False
    type: ConfigType | None = None
    documentation: str = ""
    synonyms: tuple[ConfigSynonym, ...] = ()


class ConfigChange(NamedTuple):
    """One change of one config; `value` is None for DELETE."""

    name: str
    operation: AlterConfigOp
    value: str | None = None


class ConfigCalls(AdminCalls):
    """Configs of topics, brokers, loggers, client metrics and groups."""

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Collection[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """Return the configs of resources, by resource and name; `names` limits which. A broker describes its own."""

        def build(context: RequestContext[ConfigResource]) -> DescribeConfigsRequest:
            return DescribeConfigsRequest(
                resources=tuple(
                    DescribeConfigsRequestDescribeConfigsResource(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configuration_keys=None if names is None else tuple(names),
                    )
                    for resource in context.keys
                ),
                include_synonyms=include_synonyms,
                include_documentation=include_documentation and context.version >= _FIRST_DOCUMENTED_VERSION,
            )

        def read(
            answer: DescribeConfigsResponse, _context: object
        ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
            return {
                _resource(each.resource_type, each.resource_name): error_of(each.error_code, each.error_message)
                or {entry.name: _entry(entry) for entry in sorted(each.configs, key=lambda entry: entry.name)}
                for each in answer.results
            }

        return await self.run(
            AdminCall(request=DescribeConfigsRequest, keys=resources, target=_target, build=build, read=read)
        )

    async def incremental_alter_configs(
        self, configs: Mapping[ConfigResource, Collection[ConfigChange]], *, validate_only: bool = False
    ) -> Results[ConfigResource, None]:
        """Change configs, by resource: all changes of a resource are made or none."""

        def build(context: RequestContext[ConfigResource]) -> IncrementalAlterConfigsRequest:
            wanted: dict[tuple[int, str], Collection[ConfigChange]] = {key: configs[key] for key in context.keys}
            return incremental_alter_configs_request(wanted, validate_only=validate_only)

        def read(answer: IncrementalAlterConfigsResponse, _context: object) -> dict[ConfigResource, KafkaError | None]:
            return {
                _resource(each.resource_type, each.resource_name): error_of(each.error_code, each.error_message)
                for each in answer.responses
            }

        return await self.run(
            AdminCall(request=IncrementalAlterConfigsRequest, keys=configs, target=_target, build=build, read=read)
        )

    async def list_config_resources(
        self, types: Collection[ConfigResourceType] = (ConfigResourceType.CLIENT_METRICS,)
    ) -> list[ConfigResource]:
        """Return the resources of these types that may have configs (KIP-1142; before it client metrics only)."""

        def build(context: RequestContext[None]) -> ListConfigResourcesRequest:
            return ListConfigResourcesRequest(resource_types=tuple(map(int, types)) if context.version else ())

        def read(answer: ListConfigResourcesResponse) -> list[ConfigResource] | KafkaError:
            return error_of(answer.error_code) or [
                _resource(each.resource_type, each.resource_name) for each in answer.config_resources
            ]

        return await self.run_single(single(ListConfigResourcesRequest(), read, build=build))


_FIRST_DOCUMENTED_VERSION = 3


def incremental_alter_configs_request(
    changes: Mapping[tuple[int, str], Collection[ConfigChange]], *, validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    """Return the request that changes configs, by (resource type, name), or only validates that."""
    return IncrementalAlterConfigsRequest(
        resources=tuple(
            IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=tuple(
                    IncrementalAlterConfigsRequestAlterableConfig(
                        name=change.name, config_operation=change.operation, value=change.value
                    )
                    for change in each
                ),
            )
            for (resource_type, name), each in changes.items()
        ),
        validate_only=validate_only,
    )


def _target(resource: ConfigResource) -> Target:
    """Return the broker itself for its configs and loggers, as KafkaAdminClient.nodeFor."""
    if resource.type is ConfigResourceType.BROKER_LOGGER or (
        resource.type is ConfigResourceType.BROKER and resource.name
    ):
        if not resource.name.isdecimal():
            raise ConfigException(f"Invalid broker id '{resource.name}': it must be a number.")
        return Broker(int(resource.name))
    return ANY_BROKER


def _resource(number: int, name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType(number), name)


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in set(ConfigSource) else ConfigSource.UNKNOWN


def _entry(found: DescribeConfigsResponseDescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        found.name,
        found.value,
        _source(found.config_source),
        found.is_sensitive,
        found.read_only,
        ConfigType(found.config_type) if found.config_type in set(ConfigType) else None,
        found.documentation or "",
        tuple(ConfigSynonym(each.name, each.value, _source(each.source)) for each in found.synonyms),
    )
