"""Methods about client quotas. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from collections.abc import Sequence

from conclave.client.calls import Call
from conclave.client.methods import Methods
from conclave.client.models.client_quotas import ClientQuotaData, ClientQuotaDataList, QuotaEntityEntry, QuotaEntry
from conclave.client.models.shared import DryRunData
from conclave.client.pages import Pages


class ClientQuotasMethods(Methods):
    """Methods about client quotas."""

    def list_client_quotas(
        self, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> Pages[ClientQuotaDataList, ClientQuotaData]:
        """List the quotas by entity, defaults before names."""
        return Pages(
            self._send,
            Call[ClientQuotaDataList](
                "GET",
                "/v3/clusters/{cluster_id}/client-quotas",
                {200: ClientQuotaDataList},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def alter_client_quota(
        self, *, entity: Sequence[QuotaEntityEntry], data: Sequence[QuotaEntry], validate_only: bool = False
    ) -> DryRunData | None:
        """Set or remove quotas of one entity, all or none."""
        return self._send(
            Call[DryRunData | None](
                "POST",
                "/v3/clusters/{cluster_id}/client-quotas:alter",
                {200: DryRunData, 204: None},
                query={"validate_only": validate_only},
                body={"entity": entity, "data": data},
            )
        )
