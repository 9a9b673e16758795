"""Feature levels, changed through the active controller."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.cluster.changes import Changes, raise_for
from kraft_core.clients.admin.cluster import UpgradeType
from kraft_core.protocol.messages import (
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeatureUpdateKey,
    UpdateFeaturesResponse,
)
from kraft_core.protocol.metadata_records import FeatureLevelRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """A feature and its new level; 0 disables the feature."""

    name: str
    level: int
    upgrade_type: Literal["UPGRADE", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE"] = "UPGRADE"


class FeatureAdmin(Changes):
    """Changes of feature levels."""

    async def update(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> int | None:
        """Change feature levels, all or none. Returns the offset, None when only validated.

        Raises KafkaError INVALID_UPDATE_VERSION, INVALID_REQUEST.
        """
        request = UpdateFeaturesRequest(
            timeout_ms=self._timeout_ms,
            feature_updates=tuple(
                UpdateFeaturesRequestFeatureUpdateKey(
                    feature=update.name,
                    max_version_level=update.level,
                    upgrade_type=UpgradeType[update.upgrade_type],
                )
                for update in updates
            ),
            validate_only=validate_only,
        )
        before = self._history.newest_offset
        answer = await self._ask(request, UpdateFeaturesResponse)
        raise_for(answer.error_code, answer.error_message)
        if validate_only:
            return None
        names = {update.name for update in updates}
        return await self._committed(
            before, lambda record: isinstance(record, FeatureLevelRecord) and record.name in names
        )
