"""The enums of access control: resource types, pattern types, operations, permissions; parsing their names.

The numbers are those of the wire and of the records. An unknown number becomes UNKNOWN.
Source: org.apache.kafka.common.acl and .resource, Kafka 4.3.1.
"""

from enum import IntEnum
from typing import Final

from kraft_core.protocol.errors import ErrorCode, KafkaError

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""
WILDCARD: Final = "*"
"""In an ACL: any resource name with LITERAL, or any host."""
WILDCARD_PRINCIPAL: Final = "User:*"
"""In an ACL: any principal, of any type."""


class _Code(IntEnum):
    @classmethod
    def _missing_(cls, value: object) -> "_Code":
        if isinstance(value, int):
            return cls(0)
        raise ValueError(f"{value!r} is not a {cls.__name__}")


class ResourceType(_Code):
    """What an ACL protects."""

    UNKNOWN = 0
    ANY = 1  # in filters only
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How an ACL's resource name is matched (KIP-290)."""

    UNKNOWN = 0
    ANY = 1  # in filters only: LITERAL or PREFIXED
    MATCH = 2  # in filters only: all patterns that cover the name
    LITERAL = 3  # this name, or every name if it is "*"
    PREFIXED = 4  # every name with this prefix


class AclOperation(_Code):
    """What an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1  # in filters only
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(_Code):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1  # in filters only
    DENY = 2
    ALLOW = 3


SUPPORTED_OPERATIONS: Final[dict[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""The operations that apply to a resource type, which responses list as "authorized operations". Source: AclEntry."""


def acl_words(kind: type[IntEnum], *, for_filter: bool = False) -> list[str]:
    """Return the names that an ACL may have for a resource type, pattern type, operation or permission.

    With `for_filter`, ANY and MATCH are among them.
    """
    left_out = {"UNKNOWN"} if for_filter else {"UNKNOWN", "ANY", "MATCH"}
    return [each.name for each in kind if each.name not in left_out]


def parse_acl_word(kind: type[IntEnum], text: str, field: str) -> int:
    """Return the number of a name such as TOPIC or topic; `field` is for the message.

    Raises KafkaError INVALID_REQUEST that lists the names allowed.
    """
    words = acl_words(kind)
    if text.upper() not in words:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{field} '{text[:50]}' is not one of {', '.join(words)}.")
    return kind[text.upper()]
