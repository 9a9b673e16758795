"""Client quotas, altered through the active controller."""

from collections.abc import Mapping

from app.cluster.changes import Changes, only, raise_for
from kraft_core.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
    AlterClientQuotasResponse,
)
from kraft_core.protocol.metadata_records import ClientQuotaRecord

QuotaEntity = tuple[tuple[str, str | None], ...]
"""(entity type, name) pairs sorted by type; the name None is the default of the type."""


class QuotaAdmin(Changes):
    """Changes of client quotas."""

    async def alter(
        self, entity: QuotaEntity, changes: Mapping[str, float | None], *, validate_only: bool = False
    ) -> int | None:
        """Set quotas of one entity, None removes one; all or none. Returns the offset, None when only validated.

        Raises KafkaError INVALID_REQUEST for an entity, a key or a value that Kafka does not know.
        """
        entry = AlterClientQuotasRequestEntryData(
            entity=tuple(
                AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity
            ),
            ops=tuple(
                AlterClientQuotasRequestOpData(key=key, value=value or 0.0, remove=value is None)
                for key, value in changes.items()
            ),
        )
        request = AlterClientQuotasRequest(entries=(entry,), validate_only=validate_only)
        before = self._history.newest_offset
        result = only((await self._ask(request, AlterClientQuotasResponse)).entries)
        raise_for(result.error_code, result.error_message)
        if validate_only:
            return None
        return await self._committed(before, lambda record: isinstance(record, ClientQuotaRecord))
