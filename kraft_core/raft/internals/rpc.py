"""The shape that all raft requests share: one topic, one partition, who leads and where."""

from collections.abc import Iterable
from typing import Any

from kraft_core.protocol.internal_topics import METADATA_PARTITION, METADATA_TOPIC
from kraft_core.protocol.uuids import METADATA_TOPIC_ID
from kraft_core.raft.voter_set import Endpoint


def only_partition(topics: Iterable[Any]) -> Any | None:
    """Return the partition entry if the message names exactly __cluster_metadata-0, else None.

    Works on every raft message but Fetch: their structs share the field names.
    """
    match topics:
        case (topic,) if getattr(topic, "topic_name", None) == METADATA_TOPIC and len(topic.partitions) == 1:
            partition = topic.partitions[0]
            return partition if partition.partition_index == METADATA_PARTITION else None
    return None


def only_fetch_partition(topics: Iterable[Any]) -> Any | None:
    """Return the same of a FetchRequest, which names the topic by id."""
    match topics:
        case (topic,) if topic.topic_id == METADATA_TOPIC_ID and len(topic.partitions) == 1:
            partition = topic.partitions[0]
            return partition if partition.partition == METADATA_PARTITION else None
    return None


def only_fetched_partition(responses: Iterable[Any]) -> Any | None:
    """Return the same of a FetchResponse."""
    match responses:
        case (topic,) if topic.topic_id == METADATA_TOPIC_ID and len(topic.partitions) == 1:
            partition = topic.partitions[0]
            return partition if partition.partition_index == METADATA_PARTITION else None
    return None


def endpoint_of(node_endpoints: Iterable[Any], node_id: int, listener: str) -> Endpoint | None:
    """Return where a response says that this node listens."""
    return next((Endpoint(listener, each.host, each.port) for each in node_endpoints if each.node_id == node_id), None)


def listener_endpoint(listeners: Iterable[Any], listener: str) -> Endpoint | None:
    """Return the endpoint under this name (without case) out of the listeners in a request."""
    wanted = listener.upper()
    return next(
        (Endpoint(each.name, each.host, each.port) for each in listeners if each.name.upper() == wanted),
        None,
    )
