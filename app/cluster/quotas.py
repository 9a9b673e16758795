"""Client quotas, altered through the active controller."""

from collections.abc import Mapping

from app.cluster.changes import Changes, only, raise_for
from kraft_core.clients.admin.quotas import ClientQuotaEntity, alter_client_quotas_request
from kraft_core.protocol.messages import AlterClientQuotasResponse
from kraft_core.protocol.metadata_records import ClientQuotaRecord


class QuotaAdmin(Changes):
    """Changes of client quotas."""

    async def alter(
        self, entity: ClientQuotaEntity, changes: Mapping[str, float | None], *, validate_only: bool = False
    ) -> int | None:
        """Set quotas of one entity, None removes one; all or none. Returns the offset, None when only validated.

        Raises KafkaError INVALID_REQUEST for an entity, a key or a value that Kafka does not know.
        """
        request = alter_client_quotas_request({entity: changes}, validate_only=validate_only)
        before = self._history.newest_offset
        result = only((await self._ask(request, AlterClientQuotasResponse)).entries)
        raise_for(result.error_code, result.error_message)
        if validate_only:
            return None
        return await self._committed(before, lambda record: isinstance(record, ClientQuotaRecord))
