"""Changes of feature levels, each written to the audit."""

from collections.abc import Sequence

from app.actions.audited import Audited, Caller
from app.cluster.features import FeatureUpdate


class FeatureActions(Audited):
    """Upgrades and downgrades features."""

    async def update(
        self, caller: Caller, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> int | None:
        """Change feature levels. Returns the offset, None for a dry run."""
        levels = self._cluster.image.features
        detail = {
            update.name: {"from": levels.level(update.name), "to": update.level, "upgrade_type": update.upgrade_type}
            for update in updates
        }
        resource = "feature/" + (updates[0].name if len(updates) == 1 else "*")
        async with self._audited(caller, "features.update", resource, detail, validate_only) as outcome:
            outcome.offset = offset = await self._cluster.admin.features.update(updates, validate_only=validate_only)
        return offset
