"""Admin's operations on client quotas. Source: KafkaAdminClient, ClientQuotaFilter of Kafka 4.3.1; KIP-546."""

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import NamedTuple

from kraft_core.clients.admin.admin_call import (
    CONTROLLER,
    AdminCall,
    AdminCalls,
    RequestContext,
    Results,
    error_of,
    single,
)
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponentData,
    DescribeClientQuotasResponse,
)

ClientQuotaEntity = tuple[tuple[str, str | None], ...]
"""(entity type, name) pairs, sorted by type; the name None is the default of the type."""


class QuotaMatch(IntEnum):
    """How a filter matches an entity type's names. Source: DescribeClientQuotasRequest."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2  # any name, or the default


class QuotaFilterComponent(NamedTuple):
    """What the name of an entity type must be; `name` is for EXACT."""

    entity_type: str
    match: QuotaMatch
    name: str | None = None


class QuotaCalls(AdminCalls):
    """Client quotas."""

    async def describe_client_quotas(
        self, components: Collection[QuotaFilterComponent] = (), *, strict: bool = False
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        """Return quotas by entity and key. Raises KafkaError.

        `strict` leaves out entities with other types than the filter's.
        """
        request = DescribeClientQuotasRequest(
            components=tuple(
                DescribeClientQuotasRequestComponentData(
                    entity_type=each.entity_type, match_type=each.match, match=each.name
                )
                for each in components
            ),
            strict=strict,
        )

        def read(answer: DescribeClientQuotasResponse) -> dict[ClientQuotaEntity, dict[str, float]] | KafkaError:
            return error_of(answer.error_code, answer.error_message) or {
                tuple(sorted((each.entity_type, each.entity_name) for each in entry.entity)): {
                    each.key: each.value for each in entry.values
                }
                for entry in answer.entries or ()
            }

        return await self.run_single(single(request, read))

    async def alter_client_quotas(
        self, entries: Mapping[ClientQuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> Results[ClientQuotaEntity, None]:
        """Set quotas, by entity; None removes a key. The changes of an entity are all made or none."""

        def build(context: RequestContext[ClientQuotaEntity]) -> AlterClientQuotasRequest:
            wanted = {entity: entries[entity] for entity in context.keys}
            return alter_client_quotas_request(wanted, validate_only=validate_only)

        def read(
            answer: AlterClientQuotasResponse, context: RequestContext[ClientQuotaEntity]
        ) -> dict[ClientQuotaEntity, KafkaError | None]:
            by_names = {frozenset(entity): entity for entity in context.keys}
            found = {
                frozenset((each.entity_type, each.entity_name) for each in entry.entity): error_of(
                    entry.error_code, entry.error_message
                )
                for entry in answer.entries
            }
            return {entity: found[names] for names, entity in by_names.items() if names in found}

        return await self.run(
            AdminCall(
                request=AlterClientQuotasRequest, keys=entries, target=lambda _: CONTROLLER, build=build, read=read
            )
        )


def alter_client_quotas_request(
    entries: Mapping[ClientQuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
) -> AlterClientQuotasRequest:
    """Return the request that sets quotas, by entity and key, or only validates that; None removes a key."""
    return AlterClientQuotasRequest(
        entries=tuple(
            AlterClientQuotasRequestEntryData(
                entity=tuple(
                    AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity
                ),
                ops=tuple(
                    AlterClientQuotasRequestOpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in quotas.items()
                ),
            )
            for entity, quotas in entries.items()
        ),
        validate_only=validate_only,
    )
