"""Client quotas (KIP-546).

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated

from kraft_core.protocol.wire import Message, wire


class DescribeClientQuotasRequestComponentData(Message):
    """An element of DescribeClientQuotasRequest.components."""

    entity_type: Annotated[str, wire("string")] = ""
    match_type: Annotated[int, wire("int8")] = 0
    match: Annotated[str | None, wire("string", nullable_since=0)] = ""


class DescribeClientQuotasRequest(Message):
    """Ask for the quotas that match a filter; apiKey 48, v0-1. Source: DescribeClientQuotasRequest.json."""

    API_KEY = 48
    VERSIONS = (0, 1)
    FLEXIBLE = 1

    components: Annotated[tuple[DescribeClientQuotasRequestComponentData, ...], wire("[]ComponentData")] = ()
    strict: Annotated[bool, wire("bool")] = False


class DescribeClientQuotasResponseEntityData(Message):
    """An element of DescribeClientQuotasResponse.entries[].entity."""

    entity_type: Annotated[str, wire("string")] = ""
    entity_name: Annotated[str | None, wire("string", nullable_since=0)] = ""


class DescribeClientQuotasResponseValueData(Message):
    """An element of DescribeClientQuotasResponse.entries[].values."""

    key: Annotated[str, wire("string")] = ""
    value: Annotated[float, wire("float64")] = 0.0


class DescribeClientQuotasResponseEntryData(Message):
    """An element of DescribeClientQuotasResponse.entries."""

    entity: Annotated[tuple[DescribeClientQuotasResponseEntityData, ...], wire("[]EntityData")] = ()
    values: Annotated[tuple[DescribeClientQuotasResponseValueData, ...], wire("[]ValueData")] = ()


class DescribeClientQuotasResponse(Message):
    """Quotas by entity; apiKey 48, v0-1. Source: DescribeClientQuotasResponse.json."""

    API_KEY = 48
    VERSIONS = (0, 1)
    FLEXIBLE = 1

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    entries: Annotated[
        tuple[DescribeClientQuotasResponseEntryData, ...] | None, wire("[]EntryData", nullable_since=0)
    ] = ()


class AlterClientQuotasRequestEntityData(Message):
    """An element of AlterClientQuotasRequest.entries[].entity."""

    entity_type: Annotated[str, wire("string")] = ""
    entity_name: Annotated[str | None, wire("string", nullable_since=0)] = ""


class AlterClientQuotasRequestOpData(Message):
    """An element of AlterClientQuotasRequest.entries[].ops."""

    key: Annotated[str, wire("string")] = ""
    value: Annotated[float, wire("float64")] = 0.0
    remove: Annotated[bool, wire("bool")] = False


class AlterClientQuotasRequestEntryData(Message):
    """An element of AlterClientQuotasRequest.entries."""

    entity: Annotated[tuple[AlterClientQuotasRequestEntityData, ...], wire("[]EntityData")] = ()
    ops: Annotated[tuple[AlterClientQuotasRequestOpData, ...], wire("[]OpData")] = ()


class AlterClientQuotasRequest(Message):
    """Set or remove quotas; apiKey 49, v0-1. Source: AlterClientQuotasRequest.json."""

    API_KEY = 49
    VERSIONS = (0, 1)
    FLEXIBLE = 1

    entries: Annotated[tuple[AlterClientQuotasRequestEntryData, ...], wire("[]EntryData")] = ()
    validate_only: Annotated[bool, wire("bool")] = False


class AlterClientQuotasResponseEntityData(Message):
    """An element of AlterClientQuotasResponse.entries[].entity."""

    entity_type: Annotated[str, wire("string")] = ""
    entity_name: Annotated[str | None, wire("string", nullable_since=0)] = ""


class AlterClientQuotasResponseEntryData(Message):
    """An element of AlterClientQuotasResponse.entries."""

    error_code: Annotated[int, wire("int16")] = 0
    error_message: Annotated[str | None, wire("string", nullable_since=0)] = ""
    entity: Annotated[tuple[AlterClientQuotasResponseEntityData, ...], wire("[]EntityData")] = ()


class AlterClientQuotasResponse(Message):
    """The entities changed, one by one; apiKey 49, v0-1. Source: AlterClientQuotasResponse.json."""

    API_KEY = 49
    VERSIONS = (0, 1)
    FLEXIBLE = 1

    throttle_time_ms: Annotated[int, wire("int32")] = 0
    entries: Annotated[tuple[AlterClientQuotasResponseEntryData, ...], wire("[]EntryData")] = ()
