"""Configs of topics, brokers, groups and client-metrics subscriptions, altered through the active controller."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from app.cluster.changes import Changes, raise_for
from kraft_core.clients.admin.configs import ConfigChange, incremental_alter_configs_request
from kraft_core.clients.kafka_client import KafkaConnection
from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.image.metadata_image import BrokerRegistration
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import IncrementalAlterConfigsResponse
from kraft_core.protocol.metadata_records import ConfigRecord
from kraft_core.protocol.security_protocol import SecurityProtocol

BROKER_TIMEOUT_MS: Final = 5_000
Resource = tuple[int, str]
"""Type and name of what has configs."""


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
        of_topics = {(TOPIC, name): each for name, each in changes.items()}
        offset, failures = await self.alter_several(of_topics, validate_only=validate_only)
        return offset, {name: error for (_, name), error in failures.items()}

    async def alter_several(
        self, changes: Mapping[Resource, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> tuple[int | None, dict[Resource, KafkaError]]:
        """Change configs of several resources, all or none per resource. Returns the offset and the failures."""
        before = self._history.newest_offset
        results = await self._send(changes, validate_only)
        failures = {
            resource: KafkaError(ErrorCode(code), message or None)
            for resource, (code, message) in results.items()
            if code
        }
        if validate_only or len(failures) == len(changes):
            return None, failures
        return await self._committed_configs(before, changes.keys() - failures.keys()), failures

    async def alter_on_broker(self, broker: BrokerRegistration, changes: Sequence[ConfigChange]) -> int:
        """Change configs of a broker through the broker, which validates and forwards them. Returns the offset.

        Some configs are accepted only so, such as new directories in cordoned.log.dirs. Raises KafkaError also when the
        broker refuses, and when it has no listener with this process's security protocol.
        """
        protocol = SecurityProtocol[self._client.security.security_protocol]
        at = next((each for each in broker.listeners if each.security_protocol == protocol), None)
        if at is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker {broker.id} has no listener for {protocol.name}.")
        resource = (BROKER, str(broker.id))
        before = self._history.newest_offset
        connection = await KafkaConnection.open(
            at.host, at.port, "conclave-admin", BROKER_TIMEOUT_MS, self._client.security
        )
        try:
            request = incremental_alter_configs_request({resource: changes}, validate_only=False)
            answer = cast("IncrementalAlterConfigsResponse", await connection.request(request, BROKER_TIMEOUT_MS))
        finally:
            connection.close()
        for each in answer.responses:
            raise_for(each.error_code, each.error_message)
        return await self._committed_configs(before, {resource})

    async def _send(
        self, changes: Mapping[Resource, Sequence[ConfigChange]], validate_only: bool
    ) -> dict[Resource, tuple[int, str | None]]:
        request = incremental_alter_configs_request(changes, validate_only=validate_only)
        answer = await self._ask(request, IncrementalAlterConfigsResponse)
        results = {
            (one.resource_type, one.resource_name): (one.error_code, one.error_message) for one in answer.responses
        }
        missing = (ErrorCode.UNKNOWN_SERVER_ERROR, "The controller returned no result for this resource.")
        return {resource: results.get(resource, missing) for resource in changes}

    async def _committed_configs(self, before: int, resources: set[Resource]) -> int:
        return await self._committed(
            before,
            lambda record: (
                isinstance(record, ConfigRecord) and (record.resource_type, record.resource_name) in resources
            ),
        )
