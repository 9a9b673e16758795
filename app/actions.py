"""Changes as users make them: sent to the cluster, seen in the image, written to the audit. One call each.

REST and pages both go through here, so that no change escapes the audit. A dry run changes nothing and is not audited.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from app.cluster.admin import ConfigChange, CreatedTopic
from app.cluster.cluster import Cluster
from app.cluster.voter_changes import Endpoints, VoterChange
from app.security.recorder import RequestInfo
from app.security.roles import Principal
from app.security.service import Security
from kraft_core.configs.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.image.changes import is_secret_config
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.uuids import uuid_to_text


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a change, and from where."""

    principal: Principal
    info: RequestInfo


@dataclass(slots=True)
class _Outcome:
    """Filled in by a change: where it was committed, and what else the audit should say."""

    offset: int | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


class Audited:
    """Base of what changes the cluster. All raise KafkaError or ConnectionError, after the audit has it."""

    def __init__(self, cluster: Cluster, security: Security) -> None:
        self._cluster = cluster
        self._security = security

    @asynccontextmanager
    async def _audited(
        self, caller: Caller, action: str, resource: str, detail: dict[str, Any], dry_run: bool = False
    ) -> AsyncIterator[_Outcome]:
        """Write the change to the audit when it is over, whichever way it ended.

        While the audit cannot be written, no change begins. One that was made when the database failed keeps its answer:
        the audit's line is in the log.
        """
        if not dry_run:
            self._security.check_record()
        outcome = _Outcome()
        try:
            yield outcome
        except BaseException as error:  # also when the client goes away: the controller may have done it
            if not dry_run:
                await self._security.record_of(
                    caller.principal,
                    action,
                    resource,
                    "failed",
                    caller.info,
                    error=str(error) or type(error).__name__,
                    detail=detail,
                )
            raise
        if not dry_run:
            await self._security.record_of(
                caller.principal,
                action,
                resource,
                "failed" if outcome.error else "ok",
                caller.info,
                error=outcome.error,
                detail=detail,
                metadata_offset=outcome.offset,
            )


class Actions(Audited):
    """The changes of topics, configs and voters.

    A change of the voters raises VoterChangeRefused when its preconditions do not hold.
    """

    async def create_topic(
        self,
        caller: Caller,
        name: str,
        *,
        partitions_count: int = -1,
        replication_factor: int = -1,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic; see ClusterAdmin.create_topic."""
        detail = {
            "partitions_count": partitions_count,
            "replication_factor": replication_factor,
            "assignments": {str(index): list(ids) for index, ids in (assignments or {}).items()},
            "configs": {key: _shown(key, value) for key, value in (configs or {}).items()},
        }
        async with self._audited(caller, "topic.create", f"topic/{name}", detail, validate_only) as outcome:
            created = await self._cluster.admin.create_topic(
                name,
                partitions_count=partitions_count,
                replication_factor=replication_factor,
                assignments=assignments,
                configs=configs,
                validate_only=validate_only,
            )
            outcome.offset = created.offset
        return created

    async def delete_topic(self, caller: Caller, name: str, *, validate_only: bool = False) -> int | None:
        """Delete a topic; returns the offset of the deletion, None for a dry run."""
        known = self._cluster.image.topics.topic(name)
        detail = {} if known is None else {"topic_id": str(known.id), "partitions_count": len(known.partitions)}
        async with self._audited(caller, "topic.delete", f"topic/{name}", detail, validate_only) as outcome:
            outcome.offset = offset = await self._cluster.admin.delete_topic(name, validate_only=validate_only)
        return offset

    async def create_partitions(
        self, caller: Caller, name: str, count: int, *, validate_only: bool = False
    ) -> int | None:
        """Grow a topic to `count` partitions; returns the offset, None for a dry run."""
        known = self._cluster.image.topics.topic(name)
        detail = {"from": len(known.partitions) if known is not None else None, "to": count}
        async with self._audited(caller, "topic.grow", f"topic/{name}", detail, validate_only) as outcome:
            outcome.offset = offset = await self._cluster.admin.create_partitions(
                name, count, validate_only=validate_only
            )
        return offset

    async def alter_topic_configs(
        self, caller: Caller, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> int | None:
        """Change configs of a topic; returns the offset, None for a dry run."""
        return await self._alter(caller, TOPIC, name, f"topic/{name}", changes, validate_only)

    async def alter_broker_configs(
        self, caller: Caller, broker_id: int | None, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> int | None:
        """Change configs of a broker, or of all brokers with None; returns the offset, None for a dry run."""
        name = "" if broker_id is None else str(broker_id)
        return await self._alter(caller, BROKER, name, f"broker/{name or 'default'}", changes, validate_only)

    async def alter_group_configs(
        self, caller: Caller, group_id: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> int | None:
        """Change configs of a consumer group; returns the offset, None for a dry run."""
        return await self._alter(caller, GROUP, group_id, f"group/{group_id}", changes, validate_only)

    async def alter_client_metrics_configs(
        self, caller: Caller, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> int | None:
        """Change configs of a client-metrics subscription; returns the offset, None for a dry run."""
        return await self._alter(caller, CLIENT_METRICS, name, f"client-metrics/{name}", changes, validate_only)

    async def alter_topics_configs(
        self, caller: Caller, changes: Mapping[str, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> tuple[int | None, dict[str, KafkaError]]:
        """Change configs of several topics, each for itself; returns the last offset and the failures by topic."""
        detail = {name: _shown_changes(each) for name, each in changes.items()}
        async with self._audited(caller, "topics.configs", "topic/*", detail, validate_only) as outcome:
            outcome.offset, failures = await self._cluster.admin.alter_topics_configs(
                changes, validate_only=validate_only
            )
            if failures:
                outcome.error = "; ".join(f"{name}: {error.message}" for name, error in failures.items())
        return outcome.offset, failures

    async def add_voter(
        self,
        caller: Caller,
        voter_id: int,
        directory_id: UUID,
        endpoints: Endpoints = (),
        *,
        validate_only: bool = False,
    ) -> VoterChange:
        """Make an observer a voter; returns what changed, with its offset unless it is a dry run."""
        detail: dict[str, Any] = {
            "directory_id": uuid_to_text(directory_id),
            "endpoints": [f"{name}://{host}:{port}" for name, host, port in endpoints],
        }
        async with self._audited(caller, "voter.add", f"voter/{voter_id}", detail, validate_only) as outcome:
            change = await self._cluster.voters.add(
                voter_id,
                directory_id,
                endpoints,
                cluster_id=self._cluster.cluster_id,
                validate_only=validate_only,
            )
            outcome.offset = change.offset
            detail["voters"] = list(change.after.voter_ids)
        return change

    async def remove_voter(
        self, caller: Caller, voter_id: int, directory_id: UUID, *, validate_only: bool = False
    ) -> VoterChange:
        """Take a voter out of the quorum; returns what changed, with its offset unless it is a dry run."""
        detail: dict[str, Any] = {"directory_id": uuid_to_text(directory_id)}
        async with self._audited(caller, "voter.remove", f"voter/{voter_id}", detail, validate_only) as outcome:
            change = await self._cluster.voters.remove(
                voter_id, directory_id, cluster_id=self._cluster.cluster_id, validate_only=validate_only
            )
            outcome.offset = change.offset
            detail["voters"] = list(change.after.voter_ids)
        return change

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
            outcome.offset = offset = await self._cluster.admin.alter_configs(
                resource_type, name, changes, validate_only=validate_only
            )
        return offset


def _shown(name: str, value: str | None) -> str | None:
    """A config value as the audit may keep it."""
    return "[hidden]" if value is not None and is_secret_config(name) else value


def _shown_changes(changes: Sequence[ConfigChange]) -> dict[str, Any]:
    return {
        change.name: {"operation": change.operation, "value": _shown(change.name, change.value)} for change in changes
    }
