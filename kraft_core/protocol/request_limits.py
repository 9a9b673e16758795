"""The limits of requests per API: bytes of the frame, and array elements and tagged fields.

The time and memory for a request are proportional to both, so both are limited early: the bytes when the size and the
api key have arrived, the elements during decoding. A frame or a body above its limit closes the connection, like one
above `socket.request.max.bytes`, which is Kafka's only limit.

The limits allow the largest requests of Kafka's clients, brokers and tools in a cluster with 10,000 topics; a string of
Kafka's protocol has at most 32 KiB.
"""

from typing import Final, NamedTuple

from kraft_core.protocol.api_keys import APIS, ApiKey

KIB: Final = 1024
MIB: Final = 1024 * KIB


class RequestLimit(NamedTuple):
    """The limits of one API's requests."""

    max_frame_bytes: int
    max_elements: int


SMALL: Final = RequestLimit(256 * KIB, 1_000)
"""A few names and numbers: heartbeats, votes, logins."""
MEDIUM: Final = RequestLimit(1 * MIB, 5_000)
"""Lists that administrators write: groups, ACLs, users, features."""
LARGE: Final = RequestLimit(8 * MIB, 50_000)
"""Lists of topics and partitions."""
CHANGES: Final = RequestLimit(8 * MIB, 20_000)
"""Changes of topics and their configs; the controller carries out at most 10,000 in one request, as Kafka's does."""
ISR_CHANGES: Final = RequestLimit(8 * MIB, 250_000)
"""ISR changes of all partitions that a broker leads, which it retries until it gets a response."""
WHOLE: Final = RequestLimit(2**31 - 1, 20_000)
"""Records: up to `socket.request.max.bytes`."""

REQUEST_LIMITS: Final[dict[int, RequestLimit]] = {
    **dict.fromkeys(APIS, MEDIUM),
    ApiKey.PRODUCE: WHOLE,
    ApiKey.ALTER_PARTITION: ISR_CHANGES,
    ApiKey.ENVELOPE: RequestLimit(9 * MIB, SMALL.max_elements),
    ApiKey.JOIN_GROUP: RequestLimit(2 * MIB, 1_000),
    ApiKey.SYNC_GROUP: RequestLimit(2 * MIB, 5_000),
    **dict.fromkeys(
        (
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.CREATE_PARTITIONS,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            ApiKey.ALTER_CONFIGS,
        ),
        CHANGES,
    ),
    **dict.fromkeys(
        (
            ApiKey.FETCH,
            ApiKey.LIST_OFFSETS,
            ApiKey.METADATA,
            ApiKey.OFFSET_COMMIT,
            ApiKey.OFFSET_FETCH,
            ApiKey.DELETE_RECORDS,
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            ApiKey.DESCRIBE_CONFIGS,
            ApiKey.DESCRIBE_LOG_DIRS,
            ApiKey.ELECT_LEADERS,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            ApiKey.OFFSET_DELETE,
            ApiKey.DESCRIBE_PRODUCERS,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ),
        LARGE,
    ),
    **dict.fromkeys(
        (
            ApiKey.HEARTBEAT,
            ApiKey.BROKER_HEARTBEAT,
            ApiKey.VOTE,
            ApiKey.BEGIN_QUORUM_EPOCH,
            ApiKey.END_QUORUM_EPOCH,
            ApiKey.FETCH_SNAPSHOT,
            ApiKey.DESCRIBE_QUORUM,
            ApiKey.DESCRIBE_CLUSTER,
            ApiKey.API_VERSIONS,
            ApiKey.SASL_HANDSHAKE,
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.ALLOCATE_PRODUCER_IDS,
            ApiKey.UNREGISTER_BROKER,
            ApiKey.ADD_RAFT_VOTER,
            ApiKey.REMOVE_RAFT_VOTER,
            ApiKey.UPDATE_RAFT_VOTER,
        ),
        SMALL,
    ),
}
"""The limits by api key."""


def limit_of(api_key: int) -> RequestLimit:
    """Return the limit of an API; an unknown api key has the smallest."""
    return REQUEST_LIMITS.get(api_key, SMALL)
