"""The shape that all raft messages share: one topic, one partition, the leader and its endpoint."""

from collections.abc import Iterable
from typing import Any

from kraft_core.protocol.internal_topics import METADATA_PARTITION, METADATA_TOPIC
from kraft_core.protocol.uuids import METADATA_TOPIC_ID
from kraft_core.raft.voter_set import Endpoint


def only_partition(topics: Iterable[Any]) -> Any | None:
    """Return the partition entry if the message contains exactly __cluster_metadata-0, else None.

    Works for every raft message except Fetch: their structs share the field names.
    """
    match topics:
        case (topic,) if getattr(topic, "topic_name", None) == METADATA_TOPIC and len(topic.partitions) == 1:
            partition = topic.partitions[0]
            return partition if partition.partition_index == METADATA_PARTITION else None
    return None


def only_fetch_partition(topics: Iterable[Any]) -> Any | None:
    """Do the same for a FetchRequest, which identifies the topic by id."""
    match topics:
        case (topic,) if topic.topic_id == METADATA_TOPIC_ID and len(topic.partitions) == 1:
            partition = topic.partitions[0]
            return partition if partition.partition == METADATA_PARTITION else None
    return None


def only_fetched_partition(responses: Iterable[Any]) -> Any | None:
    """Do the same for a FetchResponse."""
    match responses:
        case (topic,) if topic.topic_id == METADATA_TOPIC_ID and len(topic.partitions) == 1:
            partition = topic.partitions[0]
            return partition if partition.partition_index == METADATA_PARTITION else None
    return None


def endpoint_of(node_endpoints: Iterable[Any], node_id: int, listener: str) -> Endpoint | None:
    """Return a node's endpoint from a response."""
    return next((Endpoint(listener, each.host, each.port) for each in node_endpoints if each.node_id == node_id), None)


def listener_endpoint(listeners: Iterable[Any], listener: str) -> Endpoint | None:
    """Return the endpoint of this listener (case-insensitive) from a request."""
    wanted = listener.upper()
    return next(
        (Endpoint(each.name, each.host, each.port) for each in listeners if each.name.upper() == wanted),
        None,
    )
