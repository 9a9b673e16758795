"""Kafka's API keys, the supported versions of each, and the listeners that serve them.

Source: ApiKeys.java and the "listeners" of the message schemas, Kafka 4.3.1.
"""

from enum import IntEnum
from functools import cache
from typing import Final, Literal, NamedTuple

from kraft_core.protocol import messages
from kraft_core.protocol.wire import NEVER, Message

Listener = Literal["controller", "broker"]


class ApiKey(IntEnum):
    """All API keys of 4.3.1, including the few without messages in this package."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class Api(NamedTuple):
    """The versions of one API, both ends included; `flexible_version` is the first with compact lengths and tags."""

    min_version: int
    max_version: int
    flexible_version: int
    listeners: frozenset[Listener]


CONTROLLER: Final[frozenset[Listener]] = frozenset({"controller"})
BROKER: Final[frozenset[Listener]] = frozenset({"broker"})
BOTH: Final = CONTROLLER | BROKER

APIS: Final[dict[ApiKey, Api]] = {
    ApiKey.PRODUCE: Api(3, 13, 9, BROKER),
    ApiKey.FETCH: Api(4, 18, 12, BOTH),
    ApiKey.LIST_OFFSETS: Api(1, 11, 6, BROKER),
    ApiKey.METADATA: Api(0, 13, 9, BROKER),
    ApiKey.OFFSET_COMMIT: Api(2, 10, 8, BROKER),
    ApiKey.OFFSET_FETCH: Api(1, 10, 6, BROKER),
    ApiKey.FIND_COORDINATOR: Api(0, 6, 3, BROKER),
    ApiKey.JOIN_GROUP: Api(0, 9, 6, BROKER),
    ApiKey.HEARTBEAT: Api(0, 4, 4, BROKER),
    ApiKey.LEAVE_GROUP: Api(0, 5, 4, BROKER),
    ApiKey.SYNC_GROUP: Api(0, 5, 4, BROKER),
    ApiKey.DESCRIBE_GROUPS: Api(0, 6, 5, BROKER),
    ApiKey.LIST_GROUPS: Api(0, 5, 3, BROKER),
    ApiKey.SASL_HANDSHAKE: Api(0, 1, NEVER, BOTH),
    ApiKey.API_VERSIONS: Api(0, 4, 3, BOTH),
    ApiKey.CREATE_TOPICS: Api(2, 7, 5, BOTH),
    ApiKey.DELETE_TOPICS: Api(1, 6, 4, BOTH),
    ApiKey.DELETE_RECORDS: Api(0, 2, 2, BROKER),
    ApiKey.INIT_PRODUCER_ID: Api(0, 5, 2, BROKER),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Api(2, 4, 4, BROKER),
    ApiKey.ADD_PARTITIONS_TO_TXN: Api(0, 5, 3, BROKER),
    ApiKey.ADD_OFFSETS_TO_TXN: Api(0, 4, 3, BROKER),
    ApiKey.END_TXN: Api(0, 5, 3, BROKER),
    ApiKey.WRITE_TXN_MARKERS: Api(1, 2, 1, BROKER),
    ApiKey.TXN_OFFSET_COMMIT: Api(0, 5, 3, BROKER),
    ApiKey.DESCRIBE_ACLS: Api(1, 3, 2, BOTH),
    ApiKey.CREATE_ACLS: Api(1, 3, 2, BOTH),
    ApiKey.DELETE_ACLS: Api(1, 3, 2, BOTH),
    ApiKey.DESCRIBE_CONFIGS: Api(1, 4, 4, BOTH),
    ApiKey.ALTER_CONFIGS: Api(0, 2, 2, BOTH),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Api(1, 2, 2, BROKER),
    ApiKey.DESCRIBE_LOG_DIRS: Api(1, 5, 2, BROKER),
    ApiKey.SASL_AUTHENTICATE: Api(0, 2, 2, BOTH),
    ApiKey.CREATE_PARTITIONS: Api(0, 3, 2, BOTH),
    ApiKey.CREATE_DELEGATION_TOKEN: Api(1, 3, 2, BOTH),
    ApiKey.RENEW_DELEGATION_TOKEN: Api(1, 2, 2, BOTH),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Api(1, 2, 2, BOTH),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Api(1, 3, 2, BOTH),
    ApiKey.DELETE_GROUPS: Api(0, 2, 2, BROKER),
    ApiKey.ELECT_LEADERS: Api(0, 2, 2, BOTH),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Api(0, 1, 1, BOTH),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Api(0, 1, 0, BOTH),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Api(0, 0, 0, BOTH),
    ApiKey.OFFSET_DELETE: Api(0, 0, NEVER, BROKER),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Api(0, 1, 1, BROKER),
    ApiKey.ALTER_CLIENT_QUOTAS: Api(0, 1, 1, BOTH),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Api(0, 0, 0, BOTH),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Api(0, 0, 0, BOTH),
    ApiKey.VOTE: Api(0, 2, 0, CONTROLLER),
    ApiKey.BEGIN_QUORUM_EPOCH: Api(0, 1, 1, CONTROLLER),
    ApiKey.END_QUORUM_EPOCH: Api(0, 1, 1, CONTROLLER),
    ApiKey.DESCRIBE_QUORUM: Api(0, 2, 0, BOTH),
    ApiKey.ALTER_PARTITION: Api(2, 3, 0, CONTROLLER),
    ApiKey.UPDATE_FEATURES: Api(0, 2, 0, BOTH),
    ApiKey.ENVELOPE: Api(0, 0, 0, CONTROLLER),
    ApiKey.FETCH_SNAPSHOT: Api(0, 1, 0, CONTROLLER),
    ApiKey.DESCRIBE_CLUSTER: Api(0, 2, 0, BOTH),
    ApiKey.DESCRIBE_PRODUCERS: Api(0, 0, 0, BROKER),
    ApiKey.BROKER_REGISTRATION: Api(0, 4, 0, CONTROLLER),
    ApiKey.BROKER_HEARTBEAT: Api(0, 2, 0, CONTROLLER),
    ApiKey.UNREGISTER_BROKER: Api(0, 0, 0, BOTH),
    ApiKey.DESCRIBE_TRANSACTIONS: Api(0, 0, 0, BROKER),
    ApiKey.LIST_TRANSACTIONS: Api(0, 2, 0, BROKER),
    ApiKey.ALLOCATE_PRODUCER_IDS: Api(0, 0, 0, CONTROLLER),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Api(0, 1, 0, BROKER),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Api(0, 1, 0, BROKER),
    ApiKey.CONTROLLER_REGISTRATION: Api(0, 0, 0, CONTROLLER),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Api(0, 0, 0, BROKER),
    ApiKey.PUSH_TELEMETRY: Api(0, 0, 0, BROKER),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Api(0, 0, 0, CONTROLLER),
    ApiKey.LIST_CONFIG_RESOURCES: Api(0, 1, 0, BROKER),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Api(0, 0, 0, BROKER),
    ApiKey.SHARE_GROUP_DESCRIBE: Api(1, 1, 0, BROKER),
    ApiKey.ADD_RAFT_VOTER: Api(0, 1, 0, BOTH),
    ApiKey.REMOVE_RAFT_VOTER: Api(0, 0, 0, BOTH),
    ApiKey.UPDATE_RAFT_VOTER: Api(0, 0, 0, CONTROLLER),
    ApiKey.STREAMS_GROUP_DESCRIBE: Api(0, 0, 0, BROKER),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Api(0, 1, 0, BROKER),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Api(0, 0, 0, BROKER),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Api(0, 0, 0, BROKER),
}
"""The APIs with messages in this package, ordered by key."""


def apis_of(listener: Listener) -> dict[ApiKey, Api]:
    """Return the APIs that Kafka serves on a type of listener, ordered by key."""
    return {key: api for key, api in APIS.items() if listener in api.listeners}


def is_flexible(api_key: ApiKey, version: int) -> bool:
    """Return whether the version has compact lengths, tags and the matching headers."""
    return version >= APIS[api_key].flexible_version


def _base_name(api_key: int) -> str:
    return ApiKey(api_key).name.title().replace("_", "")


@cache
def request_class(api_key: int) -> type[Message]:
    """Return the request class of an API, loading its module.

    Raises ValueError for a key that Kafka does not have, AttributeError for one without messages.
    """
    found: type[Message] = getattr(messages, _base_name(api_key) + "Request")
    return found


@cache
def response_class(api_key: int) -> type[Message]:
    """Return the response class of an API. Raises as `request_class`."""
    found: type[Message] = getattr(messages, _base_name(api_key) + "Response")
    return found
