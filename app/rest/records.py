"""Metadata records as JSON. What could let somebody in (keys, salts, token ids, secret configs) is left out."""

import uuid
from typing import Any, Final

import msgspec

from kraft_core.image.changes import is_secret_config
from kraft_core.protocol.metadata_records import (
    ConfigRecord,
    DelegationTokenRecord,
    MetadataRecord,
    RemoveDelegationTokenRecord,
    UserScramCredentialRecord,
)
from kraft_core.protocol.uuids import uuid_to_text

HIDDEN: Final = "[hidden]"
_SECRET_FIELDS: Final[dict[type, frozenset[str]]] = {
    UserScramCredentialRecord: frozenset({"salt", "stored_key", "server_key"}),
    DelegationTokenRecord: frozenset({"token_id"}),
    RemoveDelegationTokenRecord: frozenset({"token_id"}),
}


def record_data(offset: int, record: MetadataRecord) -> dict[str, Any]:
    """Return one record: its offset, Kafka's name for its type, and its fields."""
    secret = _SECRET_FIELDS.get(type(record), frozenset())
    if isinstance(record, ConfigRecord) and is_secret_config(record.name):
        secret = frozenset({"value"})
    data = {name: HIDDEN if name in secret else _plain(getattr(record, name)) for name in record.__struct_fields__}
    return {"offset": offset, "type": type(record).__name__, "data": data}


def _plain(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return uuid_to_text(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    return value
