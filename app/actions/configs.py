"""Changes of configs of all resource types, each written to the audit."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.actions.audited import Audited, Caller
from kraft_core.clients.admin.configs import ConfigChange
from kraft_core.configs.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.image.changes import is_secret_config
from kraft_core.protocol.errors import KafkaError


class ConfigActions(Audited):
    """Alters configs of topics, brokers, groups and client-metrics subscriptions."""

    async def alter_topic(
        self, caller: Caller, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> int | None:
        """Change configs of a topic. Returns the offset, None for a dry run."""
        return await self._alter(caller, TOPIC, name, f"topic/{name}", changes, validate_only)

    async def alter_broker(
        self, caller: Caller, broker_id: int | None, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> int | None:
        """Change configs of a broker, or the default of all brokers (None). Returns the offset, None for a dry run."""
        name = "" if broker_id is None else str(broker_id)
        return await self._alter(caller, BROKER, name, f"broker/{name or 'default'}", changes, validate_only)

    async def alter_group(
        self, caller: Caller, group_id: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> int | None:
        """Change configs of a consumer group. Returns the offset, None for a dry run."""
        return await self._alter(caller, GROUP, group_id, f"group/{group_id}", changes, validate_only)

    async def alter_client_metrics(
        self, caller: Caller, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> int | None:
        """Change configs of a client-metrics subscription. Returns the offset, None for a dry run."""
        return await self._alter(caller, CLIENT_METRICS, name, f"client-metrics/{name}", changes, validate_only)

    async def alter_topics(
        self, caller: Caller, changes: Mapping[str, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> tuple[int | None, dict[str, KafkaError]]:
        """Change configs of several topics. Topics fail individually. Returns the last offset and failures by topic."""
        detail = {name: _shown_changes(each) for name, each in changes.items()}
        async with self._audited(caller, "topics.configs", "topic/*", detail, validate_only) as outcome:
            outcome.offset, failures = await self._cluster.admin.configs.alter_topics(
                changes, validate_only=validate_only
            )
            if failures:
                outcome.error = "; ".join(f"{name}: {error.message}" for name, error in failures.items())
        return outcome.offset, failures

    async def _alter(
        self,
        caller: Caller,
        resource_type: int,
        name: str,
        resource: str,
        changes: Sequence[ConfigChange],
        validate_only: bool,
    ) -> int | None:
        action = f"{resource.partition('/')[0]}.configs"
        async with self._audited(caller, action, resource, _shown_changes(changes), validate_only) as outcome:
            outcome.offset = offset = await self._cluster.admin.configs.alter(
                resource_type, name, changes, validate_only=validate_only
            )
        return offset


def shown_value(name: str, value: str | None) -> str | None:
    """Return a config value as the audit stores it: "[hidden]" for a secret."""
    return "[hidden]" if value is not None and is_secret_config(name) else value


def _shown_changes(changes: Sequence[ConfigChange]) -> dict[str, Any]:
    return {
        change.name: {"operation": change.operation.name, "value": shown_value(change.name, change.value)}
        for change in changes
    }
