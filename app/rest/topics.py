"""Topics: list, create, describe, add partitions, delete."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from app.error_responses import NATIVE
from app.http.errors import BadRequestError
from app.rest.conditions import IfMatch, check_if_match, is_not_modified, not_modified, topic_etag
from app.rest.idempotency import Creation, IdempotencyKeyHeader, once
from app.rest.paging import PageDep
from app.rest.responses import DRY_RUN, answer, checked, created, location_of, no_content, planned
from app.rest.routing import DryRun, Flag, JsonRoute
from app.rest.schemas.topics import (
    CreateTopicBody,
    TopicData,
    TopicDataList,
    TopicRateData,
    UpdatePartitionsCountBody,
)
from app.rest.validation import refuse_repeated
from app.rest.view import NowViewDep, View, ViewDep, check_topic_name, now_view_of
from app.services import Reader, ServicesDep, TopicCreator, TopicEditor
from kraft_core.image.metadata_image import TopicImage
from kraft_core.protocol.internal_topics import INTERNAL_TOPICS
from kraft_core.protocol.uuids import uuid_to_text

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics", tags=["topics"], route_class=JsonRoute)

RATE_WAIT_SECONDS: Final = 5.0


def topic_data(view: View, topic: TopicImage) -> dict[str, Any]:
    """Return one topic. `topic_id` is an addition to REST v3."""
    first = topic.partitions.get(0)
    return _topic_data(
        view,
        topic.name,
        uuid_to_text(topic.id),
        len(topic.partitions),
        0 if first is None else len(first.replicas),
    )


def _topic_data(view: View, name: str, topic_id: str, partitions: int, replication_factor: int) -> dict[str, Any]:
    """Return one topic. A list has thousands, so the addresses of a topic are made from one."""
    url = view.url("topics", name)
    return {
        "kind": "KafkaTopic",
        "metadata": {"self": url, "resource_name": view.crn(("topic", name))},
        "cluster_id": view.cluster_id,
        "topic_name": name,
        "topic_id": topic_id,
        "is_internal": name in INTERNAL_TOPICS,
        "replication_factor": replication_factor,
        "partitions_count": partitions,
        "partitions": {"related": f"{url}/partitions"},
        "configs": {"related": f"{url}/configs"},
        "partition_reassignments": {"related": f"{url}/partitions/-/reassignment"},
        "authorized_operations": [],
    }


def _refuse_operations(name: str, is_wanted: bool) -> None:
    """Raise BadRequestError. REST v3 has the parameter; ignoring it would be a wrong answer."""
    if is_wanted:
        raise BadRequestError(
            f"Bad Request: {name} cannot be true: this API grants rights by role, not by Kafka's operations. Omit it.",
        )


@router.get("", responses={200: {"model": TopicDataList}})
async def list_topics(
    view: ViewDep,
    page: PageDep,
    _caller: Reader,
    operations: Annotated[Flag, Query(alias="includeAuthorizedOperations")] = False,
) -> Response:
    """List the topics by name."""
    _refuse_operations("includeAuthorizedOperations", operations)
    return page.answer(
        "KafkaTopicList",
        view.cluster.topic_table.rows,
        lambda row: row.name,
        lambda row: _topic_data(view, row.name, row.topic_id, row.partitions, row.replication_factor),
    )


@router.post("", status_code=201, responses={200: {"model": TopicData}, 201: {"model": TopicData}})
async def create_topic(
    request: Request,
    body: CreateTopicBody,
    view: NowViewDep,
    services: ServicesDep,
    caller: TopicCreator,
    validate_only: DryRun,
    idempotency_key: IdempotencyKeyHeader = None,
) -> Response:
    """Create a topic: 201 with its Location. With `validate_only`: 200, no topic, and the key stays unused."""

    async def create() -> Response:
        refuse_repeated("Config", (config.name for config in body.configs))
        assignments = {int(index): ids for index, ids in (body.replicas_assignments or {}).items()}
        made = await services.actions.topics.create(
            caller,
            body.topic_name,
            partitions_count=-1 if body.partitions_count is None else body.partitions_count,
            replication_factor=-1 if body.replication_factor is None else body.replication_factor,
            assignments=assignments,
            configs={config.name: config.value for config in body.configs},
            validate_only=validate_only,
        )
        data = _topic_data(
            view,
            made.name,
            uuid_to_text(made.topic_id),
            max(0, made.partitions_count),
            max(0, made.replication_factor),
        )
        image = services.cluster.image
        topic = image.topics.by_id.get(made.topic_id)
        etag = {} if topic is None else {"ETag": topic_etag(image, topic)}
        headers = {**location_of(data), **etag}
        return created(data, made.offset, validate_only=validate_only, headers=headers)

    def found() -> Response | None:
        topic = view.image.topics.topic(body.topic_name)
        if topic is None or not _is_as_asked(topic, body):
            return None
        data = topic_data(view, topic)
        return created(data, view.offset, headers={**location_of(data), "ETag": topic_etag(view.image, topic)})

    key = None if validate_only else idempotency_key
    creation = Creation(view.image.topics.topic(body.topic_name) is None, found)
    return await once(services.database, key, caller.principal.audit_name, request, create, creation)


def _is_as_asked(topic: TopicImage, body: CreateTopicBody) -> bool:
    """Report whether a topic has the partitions and replicas that a request asks for."""
    replicas = {index: list(each.replicas) for index, each in topic.partitions.items()}
    if body.replicas_assignments is not None:
        return replicas == {int(index): list(ids) for index, ids in body.replicas_assignments.items()}
    return body.partitions_count in {None, -1, len(replicas)} and all(
        body.replication_factor in {None, -1, len(ids)} for ids in replicas.values()
    )


@router.get("/{topic_name}", responses={200: {"model": TopicData}})
async def get_topic(
    request: Request,
    topic_name: str,
    view: ViewDep,
    _caller: Reader,
    include_authorized_operations: Annotated[Flag, Query()] = False,
) -> Response:
    """Describe a topic. The ETag identifies its state."""
    _refuse_operations("include_authorized_operations", include_authorized_operations)
    topic = view.topic(topic_name)
    etag = topic_etag(view.image, topic)
    if is_not_modified(request, etag):
        return not_modified(etag)
    return answer(topic_data(view, topic), view.offset, headers={"ETag": etag})


@router.get("/{topic_name}/rate", tags=[NATIVE], responses={200: {"model": TopicRateData}})
async def get_topic_rate(topic_name: str, view: NowViewDep, _caller: Reader) -> Response:
    """Return the records per second since an earlier request: null at the first one, and within 4 s of it."""
    topic = view.topic(topic_name)
    rate = (await view.cluster.topic_rates.of([topic], RATE_WAIT_SECONDS))[topic.id]
    body = view.resource(
        "KafkaTopicRate",
        ("topics", topic_name, "rate"),
        (("topic", topic_name), ("rate", "")),
        topic_name=topic_name,
        records_per_second=rate.per_second,
        since=None if rate.since is None else round(rate.since.timestamp() * 1000),
        asked_at=None if rate.asked_at is None else round(rate.asked_at.timestamp() * 1000),
        unknown_partition_ids=list(rate.unknown),
        error=None if rate.error is None else str(rate.error),
    )
    return answer(body, view.offset)


@router.patch("/{topic_name}", responses={200: {"model": TopicData}})
async def grow_topic(
    request: Request,
    topic_name: str,
    body: UpdatePartitionsCountBody,
    view: NowViewDep,
    services: ServicesDep,
    caller: TopicEditor,
    validate_only: DryRun,
    if_match: IfMatch = None,
) -> Response:
    """Add partitions to a topic."""
    topic = view.topic(topic_name)
    check_if_match(if_match, topic_etag(view.image, topic))
    offset = await services.actions.topics.create_partitions(
        caller, topic_name, body.partitions_count, validate_only=validate_only
    )
    if offset is None:
        data = topic_data(view, topic) | {"partitions_count": body.partitions_count}
        return answer(checked(data, validate_only=True), None)
    now = await now_view_of(request, view.cluster_id)
    grown = now.topic(topic_name)
    return answer(topic_data(now, grown), offset, headers={"ETag": topic_etag(now.image, grown)})


@router.delete("/{topic_name}", status_code=204, responses=DRY_RUN)
async def delete_topic(
    topic_name: str,
    view: NowViewDep,
    services: ServicesDep,
    caller: TopicEditor,
    validate_only: DryRun,
    if_match: IfMatch = None,
) -> Response:
    """Delete a topic and all its data."""
    check_topic_name(topic_name)
    if if_match is not None:
        check_if_match(if_match, topic_etag(view.image, view.topic(topic_name)))
    offset = await services.actions.topics.delete(caller, topic_name, validate_only=validate_only)
    if validate_only:
        return planned([(f"topic {topic_name}", topic_data(view, view.topic(topic_name)), None)])
    return no_content(offset)
