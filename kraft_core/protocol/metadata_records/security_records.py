"""Records of ACLs, quotas, SCRAM credentials and delegation tokens.

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class DelegationTokenRecord(Message):
    """A delegation token was created or renewed; apiKey 10, v0. Source: DelegationTokenRecord.json."""

    API_KEY = 10
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    owner: Annotated[str, wire("string")] = ""
    requester: Annotated[str, wire("string")] = ""
    renewers: Annotated[tuple[str, ...], wire("[]string")] = ()
    issue_timestamp: Annotated[int, wire("int64")] = 0
    max_timestamp: Annotated[int, wire("int64")] = 0
    expiration_timestamp: Annotated[int, wire("int64")] = 0
    token_id: Annotated[str, wire("string")] = ""


class UserScramCredentialRecord(Message):
    """A SCRAM credential was set; apiKey 11, v0. Source: UserScramCredentialRecord.json."""

    API_KEY = 11
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    name: Annotated[str, wire("string")] = ""
    mechanism: Annotated[int, wire("int8")] = 0
    salt: Annotated[bytes, wire("bytes")] = b""
    stored_key: Annotated[bytes, wire("bytes")] = b""
    server_key: Annotated[bytes, wire("bytes")] = b""
    iterations: Annotated[int, wire("int32")] = 0


class ClientQuotaRecordEntityData(Message):
    """An element of ClientQuotaRecord.entity."""

    entity_type: Annotated[str, wire("string")] = ""
    entity_name: Annotated[str | None, wire("string", nullable_since=0)] = ""


class ClientQuotaRecord(Message):
    """A client quota was set or removed; apiKey 14, v0. Source: ClientQuotaRecord.json."""

    API_KEY = 14
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    entity: Annotated[tuple[ClientQuotaRecordEntityData, ...], wire("[]EntityData")] = ()
    key: Annotated[str, wire("string")] = ""
    value: Annotated[float, wire("float64")] = 0.0
    remove: Annotated[bool, wire("bool")] = False


class AccessControlEntryRecord(Message):
    """An ACL was added; apiKey 18, v0. Source: AccessControlEntryRecord.json."""

    API_KEY = 18
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    resource_type: Annotated[int, wire("int8")] = 0
    resource_name: Annotated[str, wire("string")] = ""
    pattern_type: Annotated[int, wire("int8")] = 0
    principal: Annotated[str, wire("string")] = ""
    host: Annotated[str, wire("string")] = ""
    operation: Annotated[int, wire("int8")] = 0
    permission_type: Annotated[int, wire("int8")] = 0


class RemoveAccessControlEntryRecord(Message):
    """An ACL was removed; apiKey 19, v0. Source: RemoveAccessControlEntryRecord.json."""

    API_KEY = 19
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    id: Annotated[UUID, wire("uuid")] = ZERO_UUID


class RemoveUserScramCredentialRecord(Message):
    """A SCRAM credential was deleted; apiKey 22, v0. Source: RemoveUserScramCredentialRecord.json."""

    API_KEY = 22
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    name: Annotated[str, wire("string")] = ""
    mechanism: Annotated[int, wire("int8")] = 0


class RemoveDelegationTokenRecord(Message):
    """A delegation token was deleted; apiKey 26, v0. Source: RemoveDelegationTokenRecord.json."""

    API_KEY = 26
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    token_id: Annotated[str, wire("string")] = ""
