"""The image that a request reads, and the links and lookups that its answer needs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import Depends, Query, Request

from app.cluster.cluster import Cluster
from app.http.errors import ApiError, GatewayTimeoutError, NotFoundError, UnavailableError
from app.http.paths import segment_of
from app.services import Services, api_url_of, services_of, show_past
from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage, PartitionRegistration, TopicImage
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import METADATA_TOPIC
from kraft_core.protocol.topic_names import validate_topic_name

MIN_OFFSET_WAIT_MS: Final = 5_000
_UNKNOWN_PARTITION: Final = "This server does not host this topic-partition."

MinOffset = Annotated[
    int, Query(ge=-1, le=2**63 - 1, description="wait up to 5 s until the answer can reflect this offset")
]


@dataclass(frozen=True)
class View:
    """One image, with its cluster id and offset: an answer never mixes two states."""

    cluster: Cluster
    image: MetadataImage
    cluster_id: str
    offset: int
    base_url: str

    @cached_property
    def root_url(self) -> str:
        """The address of the cluster."""
        return f"{self.base_url}/v3/clusters/{quote(self.cluster_id)}"

    def url(self, *parts: str | int) -> str:
        """Return the address of a resource of this cluster. Parts are percent-encoded."""
        return "/".join((self.root_url, *(segment_of(str(part)) for part in parts)))

    def crn(self, *parts: tuple[str, str | int]) -> str:
        """Return Confluent's resource name, `crn:///kafka=C/topic=T`. A component without an id is its name alone."""
        rest = "".join(f"/{key}={value}" if value != "" else f"/{key}" for key, value in parts)
        return f"crn:///kafka={self.cluster_id}{rest}"

    def resource(
        self, kind: str, path: Sequence[str | int], crn: Sequence[tuple[str, str | int]], **fields: Any
    ) -> dict[str, Any]:
        """Return one resource: kind, metadata, cluster_id, then its fields."""
        return {
            "kind": kind,
            "metadata": {"self": self.url(*path), "resource_name": self.crn(*crn)},
            "cluster_id": self.cluster_id,
            **fields,
        }

    def related(self, *path: str | int) -> dict[str, str]:
        """Return a link to another resource."""
        return {"related": self.url(*path)}

    def topic(self, name: str) -> TopicImage:
        """Return a topic. Raises KafkaError INVALID_TOPIC_EXCEPTION, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION."""
        check_topic_name(name)
        found = self.image.topics.topic(name)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_PARTITION)
        return found

    def partition(self, topic_name: str, partition_id: int) -> PartitionRegistration:
        """Return a partition. Raises KafkaError as `topic` does."""
        found = self.topic(topic_name).partitions.get(partition_id)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_PARTITION)
        return found

    def broker(self, broker_id: int) -> BrokerRegistration:
        """Return a registered broker. Raises NotFoundError."""
        found = self.image.cluster.brokers.get(broker_id)
        if found is None:
            raise self.not_found(f"Broker {broker_id}")
        return found

    def not_found(self, what: str, of: str = "") -> ApiError:
        """Return the 404 for a missing resource, in REST v3's words. `of` qualifies it, such as "for TOPIC orders"."""
        return NotFoundError(f"{what} cannot be found {of}{' ' if of else ''}in cluster {self.cluster_id}.")


def check_topic_name(name: str) -> None:
    """Raise KafkaError for a name that no user topic can have."""
    validate_topic_name(name)
    if name == METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"'{name}' is the metadata log of the quorum, not a topic.")


async def ready_view(request: Request, min_offset: int) -> View:
    """Return the view of this process's cluster once its image holds `min_offset`.

    Raises UnavailableError without an image, GatewayTimeoutError when the offset is not reached in time.
    """
    cluster = services_of(request).cluster
    if cluster.foreign:
        raise UnavailableError(cluster.foreign, code="foreign-cluster", retry_after_seconds=5)
    if not cluster.freshness.is_ready or cluster.cluster_id is None:
        raise UnavailableError("The metadata has not been read from the quorum yet.", retry_after_seconds=1)
    if min_offset > cluster.observer.applied_offset and not await cluster.wait_for_offset(
        min_offset, MIN_OFFSET_WAIT_MS
    ):
        raise GatewayTimeoutError(f"Offset {min_offset} was not committed within {MIN_OFFSET_WAIT_MS} ms.")
    return View(cluster, cluster.image, cluster.cluster_id, cluster.observer.applied_offset, api_url_of(request))


def view_now(request: Request, services: Services) -> View | None:
    """Return the view of another cluster of the process, None while it cannot be read."""
    cluster = services.cluster
    if cluster.foreign or not cluster.freshness.is_ready or cluster.cluster_id is None:
        return None
    return View(cluster, cluster.image, cluster.cluster_id, cluster.observer.applied_offset, api_url_of(request))


async def now_view_of(request: Request, cluster_id: str, min_offset: MinOffset = -1) -> View:
    """Return the view of one request. Raises NotFoundError for another cluster's id, and what `ready_view` raises."""
    view = await ready_view(request, min_offset)
    if cluster_id != view.cluster_id:
        raise NotFoundError(f"Cluster {cluster_id} cannot be found.")
    return view


async def view_of(
    request: Request,
    present: "NowViewDep",
    at_offset: Annotated[
        str | None, Query(max_length=40, description="show the state after this offset of the metadata log")
    ] = None,
    at: Annotated[str | None, Query(max_length=40, description="show the state at this time (ISO 8601)")] = None,
) -> View:
    """Return the view of a request that may ask for a past state. Raises as `now_view_of` and `show_past`."""
    await show_past(request, at_offset, at)
    cluster = services_of(request).cluster
    past = cluster.past
    return present if past is None else replace(present, cluster=cluster, image=past.image, offset=past.offset)


NowViewDep = Annotated[View, Depends(now_view_of)]
"""The newest state: for changes, and for what is not in the metadata log."""
ViewDep = Annotated[View, Depends(view_of)]
"""The newest state, or that of the parameters at_offset and at."""
