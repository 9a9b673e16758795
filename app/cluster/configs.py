"""Configs of topics, brokers, groups and client-metrics subscriptions, altered through the active controller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.cluster.changes import Changes, raise_for
from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.configs.config_resource import TOPIC
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from kraft_core.protocol.metadata_records import ConfigRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One change of one config. APPEND and SUBTRACT apply to lists. `value` is None for DELETE."""

    name: str
    value: str | None = None
    operation: Literal["SET", "DELETE", "APPEND", "SUBTRACT"] = "SET"


class ConfigAdmin(Changes):
    """Changes of configs. Each returns the offset at which it was committed."""

    async def alter(
        self, resource_type: int, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> int | None:
        """Change configs of one resource, all or none of them. Returns the offset, None when only validated.

        `name` is a topic, a broker id as text, "" for the default of all brokers, a group or a client-metrics
        subscription. Raises KafkaError INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, BROKER_ID_NOT_REGISTERED,
        INVALID_REQUEST.
        """
        before = self._history.newest_offset
        results = await self._send({(resource_type, name): changes}, validate_only)
        code, message = results[resource_type, name]
        raise_for(code, message)
        if validate_only:
            return None
        return await self._committed_configs(before, {(resource_type, name)})

    async def alter_topics(
        self, changes: Mapping[str, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> tuple[int | None, dict[str, KafkaError]]:
        """Change configs of several topics, all or none per topic. Returns the offset and the failures by topic."""
        before = self._history.newest_offset
        results = await self._send({(TOPIC, name): each for name, each in changes.items()}, validate_only)
        failures = {
            name: KafkaError(ErrorCode(code), message or None) for (_, name), (code, message) in results.items() if code
        }
        if validate_only or len(failures) == len(changes):
            return None, failures
        done = {(TOPIC, name) for name in changes if name not in failures}
        return await self._committed_configs(before, done), failures

    async def _send(
        self, changes: Mapping[tuple[int, str], Sequence[ConfigChange]], validate_only: bool
    ) -> dict[tuple[int, str], tuple[int, str | None]]:
        request = IncrementalAlterConfigsRequest(
            resources=tuple(
                IncrementalAlterConfigsRequestAlterConfigsResource(
                    resource_type=resource_type,
                    resource_name=name,
                    configs=tuple(
                        IncrementalAlterConfigsRequestAlterableConfig(
                            name=change.name, config_operation=AlterConfigOp[change.operation], value=change.value
                        )
                        for change in each
                    ),
                )
                for (resource_type, name), each in changes.items()
            ),
            validate_only=validate_only,
        )
        answer = await self._ask(request, IncrementalAlterConfigsResponse)
        results = {
            (one.resource_type, one.resource_name): (one.error_code, one.error_message) for one in answer.responses
        }
        missing = (ErrorCode.UNKNOWN_SERVER_ERROR, "The controller returned no result for this resource.")
        return {resource: results.get(resource, missing) for resource in changes}

    async def _committed_configs(self, before: int, resources: set[tuple[int, str]]) -> int:
        return await self._committed(
            before,
            lambda record: (
                isinstance(record, ConfigRecord) and (record.resource_type, record.resource_name) in resources
            ),
        )
