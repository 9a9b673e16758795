"""Changes of client quotas (KIP-546): rates of users, client ids, pairs of both, and IP addresses.

An entity is a tuple of (type, name) pairs; the name None means the default of the type. The name of an ip entity must
be an address or "localhost". Kafka accepts any name that it can resolve; the core does no I/O, so it cannot ask the
DNS.

Source: ClientQuotaControlManager, QuotaConfig, Kafka 4.3.1.
"""

from __future__ import annotations

from ipaddress import ip_address
from math import fmod, isnan
from typing import TYPE_CHECKING, Final

from kraft_core.controller.controller_result import ControllerResult
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)
from kraft_core.protocol.metadata_records import ClientQuotaRecord, ClientQuotaRecordEntityData

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.messages import (
        AlterClientQuotasRequest,
        AlterClientQuotasRequestEntryData,
    )
    from kraft_core.protocol.metadata_records import MetadataRecord

    Entity = tuple[tuple[str, str | None], ...]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
_LONG_MAX: Final = 2.0**63
_USER_AND_CLIENT_KEYS: Final[dict[str, tuple[str, float] | None]] = {
    "producer_byte_rate": ("LONG", _LONG_MAX),
    "consumer_byte_rate": ("LONG", _LONG_MAX),
    "request_percentage": None,
    CONTROLLER_MUTATION_RATE: None,
}
"""Quota key → name and maximum of its integer type; None for a key that allows fractions."""
_IP_KEYS: Final[dict[str, tuple[str, float] | None]] = {"connection_creation_rate": ("INT", 2**31 - 1)}
_FRACTION_MAX: Final = 1e-6


def alter_client_quotas(
    image: MetadataImage, request: AlterClientQuotasRequest
) -> ControllerResult[AlterClientQuotasResponse]:
    """Set and remove quotas in one atomic batch; each entity changes completely or not at all.

    Unchanged values write no record. Error of an entity, always INVALID_REQUEST:

    - it is empty, has an unknown type or an empty name, or combines an address with another type;
    - it is repeated (the first occurrence is applied);
    - a key is unknown or repeated;
    - a value is not above 0, too large, or a fraction where an integer is required.
    """
    records: list[MetadataRecord] = []
    outcomes: dict[Entity, KafkaError | None] = {}
    for entry in request.entries:
        entity = _entity_of(entry)
        keys = [op.key for op in entry.ops]
        if entity in outcomes or len(set(keys)) < len(keys):
            outcomes[entity] = _invalid(f"Ignoring duplicate entity {entity_text(entity)}")
            continue
        try:
            records.extend(_alter_entity(image, entity, {op.key: None if op.remove else op.value for op in entry.ops}))
            outcomes[entity] = None
        except KafkaError as error:
            outcomes[entity] = error
    entries = tuple(
        AlterClientQuotasResponseEntryData(
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else error.message,
            entity=tuple(
                AlterClientQuotasResponseEntityData(entity_type=kind, entity_name=name) for kind, name in entity
            ),
        )
        for entity, error in outcomes.items()
    )
    response = AlterClientQuotasResponse(entries=entries)
    return ControllerResult.atomic_of(() if request.validate_only else records, response)


def entity_text(entity: Entity) -> str:
    """Return an entity as Kafka writes it in messages."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _entity_of(entry: AlterClientQuotasRequestEntryData) -> Entity:
    """Return the entity as in the image: sorted by type; of a repeated type the last name."""
    return tuple(sorted({part.entity_type: part.entity_name for part in entry.entity}.items()))


def _alter_entity(image: MetadataImage, entity: Entity, changes: Mapping[str, float | None]) -> list[ClientQuotaRecord]:
    keys = _keys_of(entity)
    current: Mapping[str, float] = image.client_quotas.get(entity, {})
    parts = tuple(ClientQuotaRecordEntityData(entity_type=kind, entity_name=name) for kind, name in entity)
    records: list[ClientQuotaRecord] = []
    for key, value in changes.items():
        if value is None:
            if key in current:
                records.append(ClientQuotaRecord(entity=parts, key=key, remove=True))
            continue
        _check_value(keys, key, value)
        if current.get(key) != value:
            records.append(ClientQuotaRecord(entity=parts, key=key, value=value))
    return records


def _keys_of(entity: Entity) -> Mapping[str, tuple[str, float] | None]:
    """Return the quota keys that the entity may have. Raises KafkaError INVALID_REQUEST for an invalid entity."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in {USER, CLIENT_ID, IP}:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name is not None and not name:
            raise _invalid(f"Empty {kind} not supported")
    names = dict(entity)
    if IP not in names:
        return _USER_AND_CLIENT_KEYS
    if len(names) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"  # as Kafka has it
        )
    address = names[IP]
    if address is not None and not _is_address(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _is_address(text: str) -> bool:
    try:
        ip_address(text.removeprefix("[").removesuffix("]") if text.startswith("[") else text)
    except ValueError:
        return text == "localhost"
    return True


def _check_value(keys: Mapping[str, tuple[str, float] | None], key: str, value: float) -> None:
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    if value <= 0 or isnan(value):
        raise _invalid(f"Quota {key} must be greater than 0")
    whole = keys[key]
    if whole is None:
        return
    type_name, largest = whole
    if value > largest:
        raise _invalid(f"Proposed value for {key} is too large for {'an' if type_name == 'INT' else 'a'} {type_name}.")
    if fmod(value, 1.0) > _FRACTION_MAX:
        raise _invalid(f"{key} cannot be a fractional value.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
