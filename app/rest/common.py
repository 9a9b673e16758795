"""What all resources of REST v3 share: links, lists and pages, conditions, and the image a request reads."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from fastapi import Depends, Query, Request
from fastapi.responses import Response

from app.cluster.cluster import Cluster
from app.http.errors import ApiError
from app.rest.schemas.base import DryRunData
from app.services import base_url_of, services_of
from kraft_core.configs.config_resource import TOPIC
from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage, TopicImage
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import METADATA_TOPIC
from kraft_core.protocol.topic_names import validate_topic_name

PAGE_SIZE_MAX: Final = 1_000
MIN_OFFSET_WAIT_MS: Final = 5_000
OFFSET_HEADER: Final = "X-Metadata-Offset"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class View:
    """What one request reads: one image, so that an answer is never half old and half new."""

    cluster: Cluster
    image: MetadataImage
    cluster_id: str
    offset: int
    base_url: str

    def url(self, *parts: str | int) -> str:
        """Return the address of something below this cluster; parts are quoted."""
        path = "/".join(quote(str(part), safe=":-") for part in parts)
        return f"{self.base_url}/v3/clusters/{quote(self.cluster_id)}{'/' if path else ''}{path}"

    def crn(self, *parts: tuple[str, str | int]) -> str:
        """Return Confluent's resource name: `crn:///kafka=C/topic=T`; a component without id is its name alone."""
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
        """Return a relationship: a link in place of the thing."""
        return {"related": self.url(*path)}

    def topic(self, name: str) -> TopicImage:
        """Return a topic. Raises KafkaError: 400 for a name no topic can have, 404 for one that is not there."""
        check_topic_name(name)
        found = self.image.topics.topic(name)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return found

    def broker(self, broker_id: int) -> BrokerRegistration:
        """Return a registered broker. Raises ApiError 404."""
        found = self.image.cluster.brokers.get(broker_id)
        if found is None:
            raise ApiError(404, f"Broker {broker_id} cannot be found in cluster {self.cluster_id}.")
        return found


def check_topic_name(name: str) -> None:
    """Raise KafkaError for a name that no topic of users can have."""
    validate_topic_name(name)
    if name == METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"'{name}' is the log of the quorum, not a topic.")


async def ready_cluster(request: Request, min_offset: int) -> Cluster:
    """Return the cluster once its image holds `min_offset`. Raises ApiError 503 without an image, 504 when it is late."""
    cluster = services_of(request).cluster
    if cluster.foreign:
        raise ApiError(503, cluster.foreign, code="foreign-cluster", headers={"Retry-After": "5"})
    if not cluster.freshness.is_ready or cluster.cluster_id is None:
        raise ApiError(503, "The metadata has not been read from the quorum yet.", headers={"Retry-After": "1"})
    if min_offset > cluster.observer.applied_offset and not await cluster.wait_for_offset(
        min_offset, MIN_OFFSET_WAIT_MS
    ):
        raise ApiError(504, f"Offset {min_offset} was not committed within {MIN_OFFSET_WAIT_MS} ms.")
    return cluster


async def view_of(
    request: Request,
    cluster_id: str,
    min_offset: Annotated[int, Query(ge=-1, le=2**63 - 1, description="wait until this offset can be read")] = -1,
) -> View:
    """Return the view of one request. Raises ApiError 404 for another cluster's id, 503, 504."""
    cluster = await ready_cluster(request, min_offset)
    known = cluster.cluster_id
    if known is None or cluster_id != known:
        raise ApiError(404, f"Cluster {cluster_id} cannot be found.")
    return View(cluster, cluster.image, known, cluster.observer.applied_offset, base_url_of(request))


ViewDep = Annotated[View, Depends(view_of)]


# answers


def answer(body: Any, offset: int | None, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return JSON with the offset it reflects, or at which the change was committed."""
    marked = {} if offset is None else {OFFSET_HEADER: str(offset)}
    return Response(
        msgspec.json.encode(body), status, media_type="application/json", headers={**marked, **(headers or {})}
    )


def no_content(offset: int | None) -> Response:
    """Return 204 with the offset of the change."""
    return Response(status_code=204, headers={} if offset is None else {OFFSET_HEADER: str(offset)})


# dry runs

VALIDATED: Final[dict[str, Any]] = {"validated": True}
"""What the answer of a dry run has beside the answer of the change."""
DRY_RUN: Final[dict[int | str, dict[str, Any]]] = {200: {"model": DryRunData, "description": "a dry run"}}
"""For the OpenAPI document of a change that answers nothing when it is made."""

PlannedChange = tuple[str, object, object]
"""What changes, what it has now, and what it would have; None for nothing."""


def dry_answer(changes: Iterable[PlannedChange], not_checked: Sequence[str] = ()) -> Response:
    """Return what a change would do, for one that answers nothing when it is made."""
    planned = [{"what": what, "before": before, "after": after} for what, before, after in changes]
    return answer({"kind": "KafkaDryRun", **VALIDATED, "changes": planned, "not_checked": list(not_checked)}, None)


# pages


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which part of a list is wanted: at most `size` items after `after`, the key of the last one seen."""

    size: int
    after: Any


def page_request(
    request: Request,
    page_size: Annotated[int, Query(ge=1, le=PAGE_SIZE_MAX, description="at most so many items")] = PAGE_SIZE_MAX,
    page_token: Annotated[str | None, Query(max_length=2_000, description="from `metadata.next`")] = None,
) -> PageRequest:
    """Read the paging parameters. Raises ApiError 400 for a token that was not given out, or for another list."""
    if page_token is None:
        return PageRequest(page_size, None)
    try:
        said = json.loads(base64.urlsafe_b64decode(page_token.encode("ascii")))
        path, after = said["list"], said["after"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ApiError(400, "Bad Request: page_token is not one of this API's.") from None
    if path != request.url.path:
        raise ApiError(400, "Bad Request: page_token belongs to another list.")
    return PageRequest(page_size, after)


def page_token(request: Request, after: Any) -> str:
    """Return the token that continues this request's list after the item with this key."""
    said = {"list": request.url.path, "after": after}
    return base64.urlsafe_b64encode(json.dumps(said).encode()).decode()


PageDep = Annotated[PageRequest, Depends(page_request)]


def list_body(
    request: Request,
    view: View,
    kind: str,
    items: Sequence[T],
    page: PageRequest,
    key: Callable[[T], Any],
    shape: Callable[[T], dict[str, Any]],
) -> dict[str, Any]:
    """Return one page of `items`, which are sorted by `key`; only that page is shaped.

    Raises ApiError 400 when the token belongs to another list.
    """
    start = 0
    if page.after is not None:
        try:
            start = _first_beyond(items, page.after, key)
        except TypeError:
            raise ApiError(400, "Bad Request: page_token belongs to another list.") from None
    chosen = items[start : start + page.size]
    url = f"{view.base_url}{quote(request.url.path, safe='/:-')}"
    following = None
    if start + page.size < len(items):
        token = page_token(request, key(chosen[-1]))
        others = [(name, value) for name, value in request.query_params.multi_items() if name != "page_token"]
        following = f"{url}?{urlencode([*others, ('page_token', token)])}"
    return {"kind": kind, "metadata": {"self": url, "next": following}, "data": [shape(item) for item in chosen]}


def _first_beyond(items: Sequence[T], after: Any, key: Callable[[T], Any]) -> int:
    low, high = 0, len(items)
    wanted = tuple(after) if isinstance(after, list) else after
    while low < high:
        middle = (low + high) // 2
        if key(items[middle]) <= wanted:
            low = middle + 1
        else:
            high = middle
    return low


# conditions


def topic_etag(image: MetadataImage, topic: TopicImage) -> str:
    """Return the topic's entity tag: a digest of its id, partitions and configs, so equal on every web process."""
    digest = hashlib.blake2b(digest_size=12)
    digest.update(topic.id.bytes)
    digest.update(msgspec.msgpack.encode(topic.sorted_partitions()))
    digest.update(msgspec.msgpack.encode(sorted(image.configs.of(TOPIC, topic.name).items())))
    return f'"{digest.hexdigest()}"'


def check_if_match(request: Request, etag: str) -> None:
    """Raise ApiError 412 when the request was made for another state of the resource."""
    given = request.headers.get("if-match")
    if given is None or given.strip() == "*":
        return
    if etag not in _tags(given):
        raise ApiError(412, "The topic has changed since; read it again.", headers={"ETag": etag})


def is_not_modified(request: Request, etag: str) -> bool:
    """Whether the client already has this state (If-None-Match)."""
    given = request.headers.get("if-none-match")
    return given is not None and (given.strip() == "*" or etag in _tags(given))


def _tags(header: str) -> Iterable[str]:
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
