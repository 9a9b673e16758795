"""Changes of topics, each written to the audit."""

from collections.abc import Mapping, Sequence

from app.actions.audited import Audited, Caller
from app.actions.configs import shown_value
from app.cluster.topics import CreatedTopic
from app.http.errors import ForbiddenError
from app.security.roles import Role
from app.texts import phrase


class TopicActions(Audited):
    """Creates, deletes and grows topics."""

    async def create(
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
        """Create a topic. See TopicAdmin.create. Raises ForbiddenError for a caller without rights to this name."""
        if caller.principal.role_on(name) < Role.EDITOR:
            text = phrase("This needs the role %(role)s for topic %(name)s.", role=Role.EDITOR.text, name=name[:249])
            await self._security.record(
                caller.principal.actor, "topic.create", f"topic/{name}", "denied", caller.info, error=text
            )
            raise ForbiddenError(text, error_code=40301)
        detail = {
            "partitions_count": partitions_count,
            "replication_factor": replication_factor,
            "assignments": {str(index): list(ids) for index, ids in (assignments or {}).items()},
            "configs": {key: shown_value(key, value) for key, value in (configs or {}).items()},
        }
        async with self._audited(caller, "topic.create", f"topic/{name}", detail, validate_only) as outcome:
            created = await self._cluster.admin.topics.create(
                name,
                partitions_count=partitions_count,
                replication_factor=replication_factor,
                assignments=assignments,
                configs=configs,
                validate_only=validate_only,
            )
            outcome.offset = created.offset
        return created

    async def delete(self, caller: Caller, name: str, *, validate_only: bool = False) -> int | None:
        """Delete a topic. Returns the offset of the deletion, None for a dry run."""
        known = self._cluster.image.topics.topic(name)
        detail = {} if known is None else {"topic_id": str(known.id), "partitions_count": len(known.partitions)}
        async with self._audited(caller, "topic.delete", f"topic/{name}", detail, validate_only) as outcome:
            outcome.offset = offset = await self._cluster.admin.topics.delete(name, validate_only=validate_only)
        return offset

    async def create_partitions(
        self, caller: Caller, name: str, count: int, *, validate_only: bool = False
    ) -> int | None:
        """Grow a topic to `count` partitions. Returns the offset, None for a dry run."""
        known = self._cluster.image.topics.topic(name)
        detail = {"from": len(known.partitions) if known is not None else None, "to": count}
        async with self._audited(caller, "topic.grow", f"topic/{name}", detail, validate_only) as outcome:
            outcome.offset = offset = await self._cluster.admin.topics.create_partitions(
                name, count, validate_only=validate_only
            )
        return offset
