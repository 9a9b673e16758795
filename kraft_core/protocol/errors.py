"""Kafka's error codes and the exceptions that carry them.

    KafkaError                  any error that has a Kafka code
    ├── NotController           41, from every controller that is not active
    ├── InvalidRequest          42
    ├── RequestTimedOut         7
    │   └── BufferExhausted     too much is waiting already; nothing was accepted
    ├── RecordBatchTooLarge     18
    ├── UnsupportedVersion      35
    └── WireError               bytes or messages that break the format
        ├── DecodeError
        ├── EncodeError
        ├── MetadataRecordError
        ├── CorruptBatch
        │   └── OversizedBatch
        └── InvalidFrame

Source: Errors.java, Kafka 4.3.1 (codes -1 to 133).
"""
# ruff: noqa: N818  Kafka's own names of errors, as in Errors.java, have no suffix

from enum import IntEnum
from typing import ClassVar, Self


class ErrorCode(IntEnum):
    """Kafka's error codes, with a default message and whether the error is retriable.

    A number that 4.3.1 does not define becomes UNKNOWN_SERVER_ERROR, as in Kafka's clients.
    """

    _value_: int
    default_message: str
    retriable: bool

    def __new__(cls, code: int, default_message: str = "", retriable: bool = False) -> Self:
        """Create a member with the number `code`."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.default_message = default_message
        member.retriable = retriable
        return member

    @classmethod
    def _missing_(cls, value: object) -> "ErrorCode":
        if isinstance(value, int):
            return cls.UNKNOWN_SERVER_ERROR
        raise ValueError(f"{value!r} is not a Kafka error code")

    UNKNOWN_SERVER_ERROR = -1, "The server met an unexpected error."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = 1, "The offset is outside the range the server keeps."
    CORRUPT_MESSAGE = 2, "The record batch is corrupt, too large, or lacks a key on a compacted topic.", True
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This server does not host this topic-partition.", True
    INVALID_FETCH_SIZE = 4, "The fetch size is not valid."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment.", True
    NOT_LEADER_OR_FOLLOWER = 6, "This node is not the leader of the partition, or not one of its replicas.", True
    REQUEST_TIMED_OUT = 7, "The request timed out.", True
    BROKER_NOT_AVAILABLE = 8, "The node is not available."
    REPLICA_NOT_AVAILABLE = 9, "The replica is not available.", True
    MESSAGE_TOO_LARGE = 10, "The message is larger than the server accepts."
    STALE_CONTROLLER_EPOCH = 11, "The controller has moved to another node."
    OFFSET_METADATA_TOO_LARGE = 12, "The metadata of the committed offset is too long."
    NETWORK_EXCEPTION = 13, "The server disconnected before it answered.", True
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still loading.", True
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available.", True
    NOT_COORDINATOR = 16, "This node is not the coordinator.", True
    INVALID_TOPIC_EXCEPTION = 17, "The topic name is not valid."
    RECORD_LIST_TOO_LARGE = 18, "The record batch is larger than a segment may be."
    NOT_ENOUGH_REPLICAS = 19, "Fewer replicas are in sync than required; nothing was written.", True
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "Written, but to fewer in-sync replicas than required.", True
    INVALID_REQUIRED_ACKS = 21, "The value of acks is not valid."
    ILLEGAL_GENERATION = 22, "The generation id of the group is not valid."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The member's protocols do not fit those of the group."
    INVALID_GROUP_ID = 24, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, "The coordinator does not know this member."
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside the range the broker allows."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing; join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The committed offset data has an invalid size."
    TOPIC_AUTHORIZATION_FAILED = 29, "Not authorized to access the topic."
    GROUP_AUTHORIZATION_FAILED = 30, "Not authorized to access the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Not authorized on the cluster."
    INVALID_TIMESTAMP = 32, "The timestamp of the record is out of range."
    UNSUPPORTED_SASL_MECHANISM = 33, "The SASL mechanism is not supported."
    ILLEGAL_SASL_STATE = 34, "The request does not fit the state of SASL authentication."
    UNSUPPORTED_VERSION = 35, "The version of the API is not supported."
    TOPIC_ALREADY_EXISTS = 36, "A topic of this name exists already."
    INVALID_PARTITIONS = 37, "The number of partitions is not valid."
    INVALID_REPLICATION_FACTOR = 38, "The replication factor is not valid, or there are too few brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, "The replica assignment is not valid."
    INVALID_CONFIG = 40, "The configuration is not valid."
    NOT_CONTROLLER = 41, "This node is not the active controller.", True
    INVALID_REQUEST = 42, "The request is malformed, or sent to a server of another version."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The message format on the broker does not allow the request."
    POLICY_VIOLATION = 44, "The request breaks a policy of the cluster."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The producer's sequence number is out of order."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The producer's sequence number was used before."
    INVALID_PRODUCER_EPOCH = 47, "The producer's epoch is too old."
    INVALID_TXN_STATE = 48, "The transaction is in a state that does not allow this."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id is not assigned to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is longer than the broker allows."
    CONCURRENT_TRANSACTIONS = 51, "Another operation on the same transaction is still running.", True
    TRANSACTION_COORDINATOR_FENCED = 52, "The transaction coordinator has been replaced."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Not authorized to use the transactional id."
    SECURITY_DISABLED = 54, "Security features are switched off."
    OPERATION_NOT_ATTEMPTED = 55, "The operation was not tried, because another one of the request failed."
    KAFKA_STORAGE_ERROR = 56, "A disk failed on the server.", True
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, "The broker does not know the producer id."
    REASSIGNMENT_IN_PROGRESS = 60, "The partition is being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, "The server does not know this delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The principal is neither owner nor renewer of the token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "Delegation tokens need a connection authenticated by other means."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Not authorized to use this delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The principal type is not supported."
    NON_EMPTY_GROUP = 68, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "The group does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The fetch session does not exist.", True
    INVALID_FETCH_SESSION_EPOCH = 71, "The fetch session epoch is not valid.", True
    LISTENER_NOT_FOUND = 72, "The leader has no listener of this name.", True
    TOPIC_DELETION_DISABLED = 73, "Deleting topics is switched off."
    FENCED_LEADER_EPOCH = 74, "The leader epoch is older than the server's.", True
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch is newer than the server's.", True
    UNSUPPORTED_COMPRESSION_TYPE = 76, "The client does not support the compression of the partition."
    STALE_BROKER_EPOCH = 77, "The broker epoch is not the current one."
    OFFSET_NOT_AVAILABLE = 78, "The new leader has not caught up with the high watermark yet.", True
    MEMBER_ID_REQUIRED = 79, "The member must join again with the member id it was given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader was not available.", True
    GROUP_MAX_SIZE_REACHED = 81, "The group is full."
    FENCED_INSTANCE_ID = 82, "Another member has registered with the same group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "Eligible topic partition leaders are not available.", True
    ELECTION_NOT_NEEDED = 84, "Leader election not needed for topic partition.", True
    NO_REASSIGNMENT_IN_PROGRESS = 85, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "The group is still subscribed to the topic."
    INVALID_RECORD = 87, "The broker refused the record."
    UNSTABLE_OFFSET_COMMIT = 88, "Some offsets are part of a transaction that is still open.", True
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota is used up; try later.", True
    PRODUCER_FENCED = 90, "A newer producer uses the same transactional id."
    RESOURCE_NOT_FOUND = 91, "The request names a resource that does not exist."
    DUPLICATE_RESOURCE = 92, "The request names the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not meet the rules."
    INCONSISTENT_VOTER_SET = 94, "Sender or receiver is not one of the expected voters."
    INVALID_UPDATE_VERSION = 95, "The version of the update is not valid."
    FEATURE_UPDATE_FAILED = 96, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The forwarded principal could not be read."
    SNAPSHOT_NOT_FOUND = 98, "The snapshot does not exist."
    POSITION_OUT_OF_RANGE = 99, "The position is outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This server does not host this topic ID.", True
    DUPLICATE_BROKER_REGISTRATION = 101, "The broker id is in use by another process."
    BROKER_ID_NOT_REGISTERED = 102, "The broker id is not registered."
    INCONSISTENT_TOPIC_ID = 103, "The topic id is not the one of the log.", True
    INCONSISTENT_CLUSTER_ID = 104, "The cluster id is not the server's."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "The transactional id does not exist."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "The fetch session mixes requests with and without topic ids.", True
    INELIGIBLE_REPLICA = 107, "The new ISR names a replica that may not join it."
    NEW_LEADER_ELECTED = 108, "The change was made and gave the partition another leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset has moved to tiered storage."
    FENCED_MEMBER_EPOCH = 110, "The member epoch is fenced; give up all partitions and join again."
    UNRELEASED_INSTANCE_ID = 111, "Another member still uses the instance id."
    UNSUPPORTED_ASSIGNOR = 112, "The group does not support the assignor."
    STALE_MEMBER_EPOCH = 113, "The member epoch is old; try again with the current one."
    MISMATCHED_ENDPOINT_TYPE = 114, "The request went to an endpoint of the wrong type."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "The endpoint type is not supported."
    UNKNOWN_CONTROLLER_ID = 116, "The controller id is not known."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription id is not valid any more."
    TELEMETRY_TOO_LARGE = 118, "The telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, "The registration is not valid."
    TRANSACTION_ABORTABLE = 120, "The transaction failed; it can be aborted and started again."
    INVALID_RECORD_STATE = 121, "The record is in a state that does not allow its acknowledgement."
    SHARE_SESSION_NOT_FOUND = 122, "The share session does not exist.", True
    INVALID_SHARE_SESSION_EPOCH = 123, "The share session epoch is not valid.", True
    FENCED_STATE_EPOCH = 124, "The state epoch of the share group does not match."
    INVALID_VOTER_KEY = 125, "The voter key is not the receiver's."
    DUPLICATE_VOTER = 126, "The voter is in the voter set already."
    VOTER_NOT_FOUND = 127, "The voter is not in the voter set."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, "The client's metadata is stale; start again from the bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The topology epoch is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, "The topology epoch is out of date."
    SHARE_SESSION_LIMIT_REACHED = 133, "The broker has no room for another share session.", True


class KafkaError(Exception):
    """An expected failure, sent to the peer as `code` and, where the response has a field for it, `message`."""

    code: ErrorCode
    message: str

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = code.default_message if message is None else message
        super().__init__(self.message)

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed when retried."""
        return self.code.retriable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code.name}, {self.message!r})"


class _CodedError(KafkaError):
    """Base of the classes with a fixed code."""

    CODE: ClassVar[ErrorCode]

    def __init__(self, message: str | None = None) -> None:
        super().__init__(self.CODE, message)


class NotController(_CodedError):
    """This node is not the active controller."""

    CODE = ErrorCode.NOT_CONTROLLER


class InvalidRequest(_CodedError):
    """The request contradicts itself or the protocol."""

    CODE = ErrorCode.INVALID_REQUEST


class RequestTimedOut(_CodedError):
    """The request's deadline expired before it was carried out."""

    CODE = ErrorCode.REQUEST_TIMED_OUT


class BufferExhausted(RequestTimedOut):
    """The buffer of records to be written is full; nothing was accepted. Source: BufferAllocationException."""


class RecordBatchTooLarge(_CodedError):
    """Records that must be in one batch exceed its maximum size; none was accepted."""

    CODE = ErrorCode.RECORD_LIST_TOO_LARGE


class UnsupportedVersion(_CodedError):
    """An API, record or feature version is not supported."""

    CODE = ErrorCode.UNSUPPORTED_VERSION


class WireError(KafkaError):
    """Bytes, or a message to be encoded, violate the format."""


class DecodeError(WireError):
    """Bytes are not a valid message; the error contains the message, the field and the position in the input."""

    def __init__(self, message_name: str, field: str, position: int, reason: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, f"{message_name}.{field} at byte {position}: {reason}")
        self.message_name = message_name
        self.field = field
        self.position = position
        self.reason = reason


class EncodeError(WireError):
    """A message cannot be encoded: a value is out of range, or null where null is not allowed."""

    def __init__(self, message_name: str, field: str, reason: str, code: ErrorCode | None = None) -> None:
        super().__init__(code or ErrorCode.UNKNOWN_SERVER_ERROR, f"{message_name}.{field}: {reason}")
        self.message_name = message_name
        self.field = field
        self.reason = reason


class MetadataRecordError(WireError):
    """A value in the metadata log is not a known record: the node must stop."""

    def __init__(self, reason: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, reason)


class CorruptBatch(WireError):
    """A record batch is invalid at byte `position` of the input."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, f"Corrupt record batch at byte {position}: {reason}")
        self.position = position
        self.reason = reason


class OversizedBatch(CorruptBatch):
    """A record batch contains more than its size allows; a producer splits it (MESSAGE_TOO_LARGE)."""

    def __init__(self, reason: str) -> None:
        super().__init__(0, reason)
        self.code = ErrorCode.MESSAGE_TOO_LARGE


class InvalidFrame(WireError):
    """A frame's size or header is invalid: the connection must be closed without a response."""

    def __init__(self, reason: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, reason)
