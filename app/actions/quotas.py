"""Changes of client quotas, each written to the audit."""

from collections.abc import Mapping

from app.actions.audited import Audited, Caller
from kraft_core.clients.admin.quotas import ClientQuotaEntity


class QuotaActions(Audited):
    """Sets and removes client quotas."""

    async def alter(
        self,
        caller: Caller,
        entity: ClientQuotaEntity,
        changes: Mapping[str, float | None],
        *,
        validate_only: bool = False,
    ) -> int | None:
        """Set or remove quotas of one entity. Returns the offset, None for a dry run."""
        resource = "quota/" + ",".join(f"{kind}={'<default>' if name is None else name}" for kind, name in entity)
        async with self._audited(caller, "quota.alter", resource, dict(changes), validate_only) as outcome:
            outcome.offset = offset = await self._cluster.admin.quotas.alter(
                entity, changes, validate_only=validate_only
            )
        return offset
