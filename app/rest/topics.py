"""Topics: list, create, describe, grow, delete; their partitions, replicas and reassignments."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response

from app.http.errors import ApiError
from app.http.locations import located
from app.rest.common import (
    DRY_RUN,
    VALIDATED,
    PageDep,
    View,
    ViewDep,
    answer,
    check_if_match,
    check_topic_name,
    dry_answer,
    is_not_modified,
    list_body,
    no_content,
    topic_etag,
    view_of,
)
from app.rest.idempotency import once
from app.rest.routing import DryRun, Flag, JsonRoute
from app.rest.schemas.partitions import (
    PartitionData,
    PartitionDataList,
    ReassignmentData,
    ReassignmentDataList,
    ReplicaData,
    ReplicaDataList,
)
from app.rest.schemas.topics import CreateTopicBody, TopicData, TopicDataList, UpdatePartitionsCountBody
from app.services import Reader, ServicesDep, TopicEditor
from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration, TopicImage
from kraft_core.image.trie_items import items_of, values_of
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import INTERNAL_TOPICS
from kraft_core.protocol.uuids import uuid_to_text

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics", tags=["topics"], route_class=JsonRoute)

IfMatch = Annotated[str | None, Header(description="change only this state of the topic (an ETag)")]
IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=255, description="repeat safely")]


class _SortedNames:
    """Topic names of the newest image in order; sorting 10,000 names for each page would cost more than the page."""

    def __init__(self) -> None:
        self._topics: object = None
        self._names: Sequence[str] = ()

    def of(self, image: MetadataImage) -> Sequence[str]:
        if image.topics is not self._topics:
            self._names = sorted(image.topics.by_name)
            self._topics = image.topics
        return self._names


_sorted_names = _SortedNames()


def topic_data(view: View, topic: TopicImage) -> dict[str, Any]:
    """Return one topic; `topic_id` is an addition to REST v3."""
    first = topic.partitions.get(0)
    return _topic_data(
        view,
        topic.name,
        uuid_to_text(topic.id),
        len(topic.partitions),
        0 if first is None else len(first.replicas),
    )


def _topic_data(view: View, name: str, topic_id: str, partitions: int, replication_factor: int) -> dict[str, Any]:
    path = ("topics", name)
    return view.resource(
        "KafkaTopic",
        path,
        (("topic", name),),
        topic_name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        replication_factor=replication_factor,
        partitions_count=partitions,
        partitions=view.related(*path, "partitions"),
        configs=view.related(*path, "configs"),
        partition_reassignments=view.related(*path, "partitions", "-", "reassignment"),
        authorized_operations=[],
    )


def _refuse_operations(name: str, is_wanted: bool) -> None:
    """Raise ApiError 400: REST v3 has the parameter, and here it would be ignored."""
    if is_wanted:
        raise ApiError(
            400, f"Bad Request: {name} cannot be true: a caller's rights here are its role, not Kafka's operations."
        )


@router.get("", responses={200: {"model": TopicDataList}})
async def list_topics(
    request: Request,
    view: ViewDep,
    page: PageDep,
    _caller: Reader,
    operations: Annotated[Flag, Query(alias="includeAuthorizedOperations")] = False,
) -> Response:
    """List the topics by name."""
    _refuse_operations("includeAuthorizedOperations", operations)
    topics = view.image.topics
    body = list_body(
        request,
        view,
        "KafkaTopicList",
        _sorted_names.of(view.image),
        page,
        lambda name: name,
        lambda name: topic_data(view, topics.by_id[topics.by_name[name]]),
    )
    return answer(body, view.offset)


@router.post("", status_code=201, responses={200: {"model": TopicData}, 201: {"model": TopicData}})
async def create_topic(
    request: Request,
    body: CreateTopicBody,
    view: ViewDep,
    services: ServicesDep,
    caller: TopicEditor,
    validate_only: DryRun,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Create a topic: 201 with its Location; 200 and no topic with `validate_only`, which leaves the key unused."""

    async def create() -> Response:
        names = [config.name for config in body.configs]
        if len(set(names)) != len(names):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A config is given twice.")
        assignments = {int(index): ids for index, ids in (body.replicas_assignments or {}).items()}
        created = await services.actions.topics.create(
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
            created.name,
            uuid_to_text(created.topic_id),
            max(0, created.partitions_count),
            max(0, created.replication_factor),
        )
        if validate_only:
            return answer(data | VALIDATED, None, 200)
        headers = located(data["metadata"]["self"])
        fresh = services.cluster.image.topics.by_id.get(created.topic_id)
        if fresh is not None:
            headers["ETag"] = topic_etag(services.cluster.image, fresh)
        return answer(data, created.offset, 201, headers)

    key = None if validate_only else idempotency_key
    return await once(services.database, key, caller.principal.audit_name, request, create)


@router.get("/{topic_name}", responses={200: {"model": TopicData}})
async def get_topic(
    request: Request,
    topic_name: str,
    view: ViewDep,
    _caller: Reader,
    include_authorized_operations: Annotated[Flag, Query()] = False,
) -> Response:
    """Describe a topic; the ETag names its state."""
    _refuse_operations("include_authorized_operations", include_authorized_operations)
    topic = view.topic(topic_name)
    etag = topic_etag(view.image, topic)
    if is_not_modified(request, etag):
        return Response(status_code=304, headers={"ETag": etag})
    return answer(topic_data(view, topic), view.offset, headers={"ETag": etag})


@router.patch("/{topic_name}", responses={200: {"model": TopicData}})
async def grow_topic(
    request: Request,
    topic_name: str,
    body: UpdatePartitionsCountBody,
    view: ViewDep,
    services: ServicesDep,
    caller: TopicEditor,
    validate_only: DryRun,
    if_match: IfMatch = None,
) -> Response:
    """Grow a topic to more partitions."""
    topic = view.topic(topic_name)
    check_if_match(request, topic_etag(view.image, topic))
    offset = await services.actions.topics.create_partitions(
        caller, topic_name, body.partitions_count, validate_only=validate_only
    )
    if offset is None:
        return answer({**topic_data(view, topic), "partitions_count": body.partitions_count, **VALIDATED}, None)
    now = await view_of(request, view.cluster_id)
    grown = now.topic(topic_name)
    return answer(topic_data(now, grown), offset, headers={"ETag": topic_etag(now.image, grown)})


@router.delete("/{topic_name}", status_code=204, responses=DRY_RUN)
async def delete_topic(
    request: Request,
    topic_name: str,
    view: ViewDep,
    services: ServicesDep,
    caller: TopicEditor,
    validate_only: DryRun,
    if_match: IfMatch = None,
) -> Response:
    """Delete a topic with all its data."""
    check_topic_name(topic_name)
    if if_match is not None:
        check_if_match(request, topic_etag(view.image, view.topic(topic_name)))
    offset = await services.actions.topics.delete(caller, topic_name, validate_only=validate_only)
    if validate_only:
        return dry_answer([(f"topic {topic_name}", topic_data(view, view.topic(topic_name)), None)])
    return no_content(offset)


# partitions and replicas


def partition_data(view: View, topic: str, index: int, partition: PartitionRegistration) -> dict[str, Any]:
    """Return one partition; epochs, ISR and ELR are additions to REST v3."""
    path = ("topics", topic, "partitions", index)
    leader = partition.leader
    return view.resource(
        "KafkaPartition",
        path,
        (("topic", topic), ("partition", index)),
        topic_name=topic,
        partition_id=index,
        leader=view.related(*path, "replicas", leader) if leader >= 0 else None,
        replicas=view.related(*path, "replicas"),
        reassignment=view.related(*path, "reassignment"),
        leader_id=leader if leader >= 0 else None,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        replica_ids=list(partition.replicas),
        in_sync_replica_ids=list(partition.isr),
        eligible_leader_replica_ids=list(partition.elr),
        is_recovering=bool(partition.leader_recovery_state),
    )


def replica_data(
    view: View, topic: str, index: int, partition: PartitionRegistration, broker_id: int
) -> dict[str, Any]:
    """Return one replica; `directory_id` is an addition to REST v3."""
    directory = partition.directory(broker_id)
    return view.resource(
        "KafkaReplica",
        ("topics", topic, "partitions", index, "replicas", broker_id),
        (("topic", topic), ("partition", index), ("replica", broker_id)),
        topic_name=topic,
        partition_id=index,
        broker_id=broker_id,
        is_leader=partition.leader == broker_id,
        is_in_sync=broker_id in partition.isr,
        broker=view.related("brokers", broker_id),
        directory_id=None if directory is None else uuid_to_text(directory),
    )


def reassignment_data(view: View, topic: str, index: int, partition: PartitionRegistration) -> dict[str, Any]:
    """Return a reassignment under way."""
    path = ("topics", topic, "partitions", index)
    return view.resource(
        "KafkaReassignment",
        (*path, "reassignment"),
        (("topic", topic), ("partition", index), ("reassignment", "")),
        topic_name=topic,
        partition_id=index,
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
        replicas=view.related(*path, "replicas"),
    )


def _partition(view: View, topic_name: str, partition_id: int) -> PartitionRegistration:
    found = view.topic(topic_name).partitions.get(partition_id)
    if found is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return found


Moving = tuple[str, int, PartitionRegistration]


def _moving(topics: Sequence[TopicImage]) -> list[Moving]:
    return sorted(
        (
            (topic.name, index, partition)
            for topic in topics
            for index, partition in items_of(topic.partitions)
            if partition.is_reassigning
        ),
        key=lambda item: item[:2],
    )


def _reassignments(request: Request, view: View, moving: list[Moving], page: PageDep) -> Response:
    body = list_body(
        request,
        view,
        "KafkaReassignmentList",
        moving,
        page,
        lambda item: (item[0], item[1]),
        lambda item: reassignment_data(view, *item),
    )
    return answer(body, view.offset)


@router.get("/-/partitions/-/reassignment", responses={200: {"model": ReassignmentDataList}})
async def list_reassignments(request: Request, view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the reassignments under way, of all topics."""
    return _reassignments(request, view, _moving(values_of(view.image.topics.by_id)), page)


@router.get("/{topic_name}/partitions/-/reassignment", responses={200: {"model": ReassignmentDataList}})
async def list_topic_reassignments(
    request: Request, topic_name: str, view: ViewDep, page: PageDep, _caller: Reader
) -> Response:
    """List the reassignments under way of one topic."""
    return _reassignments(request, view, _moving([view.topic(topic_name)]), page)


@router.get("/{topic_name}/partitions", responses={200: {"model": PartitionDataList}})
async def list_partitions(request: Request, topic_name: str, view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the partitions of a topic."""
    body = list_body(
        request,
        view,
        "KafkaPartitionList",
        view.topic(topic_name).sorted_partitions(),
        page,
        lambda item: item[0],
        lambda item: partition_data(view, topic_name, *item),
    )
    return answer(body, view.offset)


@router.get("/{topic_name}/partitions/{partition_id}", responses={200: {"model": PartitionData}})
async def get_partition(topic_name: str, partition_id: int, view: ViewDep, _caller: Reader) -> Response:
    """Describe one partition."""
    found = _partition(view, topic_name, partition_id)
    return answer(partition_data(view, topic_name, partition_id, found), view.offset)


@router.get("/{topic_name}/partitions/{partition_id}/reassignment", responses={200: {"model": ReassignmentData}})
async def get_reassignment(topic_name: str, partition_id: int, view: ViewDep, _caller: Reader) -> Response:
    """Describe the reassignment of one partition; 404 when none is under way."""
    found = _partition(view, topic_name, partition_id)
    if not found.is_reassigning:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No reassignment of this partition is under way.")
    return answer(reassignment_data(view, topic_name, partition_id, found), view.offset)


@router.get("/{topic_name}/partitions/{partition_id}/replicas", responses={200: {"model": ReplicaDataList}})
async def list_partition_replicas(
    request: Request, topic_name: str, partition_id: int, view: ViewDep, page: PageDep, _caller: Reader
) -> Response:
    """List the replicas of one partition, by broker."""
    found = _partition(view, topic_name, partition_id)
    body = list_body(
        request,
        view,
        "KafkaReplicaList",
        sorted(found.replicas),
        page,
        lambda broker_id: broker_id,
        lambda broker_id: replica_data(view, topic_name, partition_id, found, broker_id),
    )
    return answer(body, view.offset)


@router.get("/{topic_name}/partitions/{partition_id}/replicas/{broker_id}", responses={200: {"model": ReplicaData}})
async def get_replica(topic_name: str, partition_id: int, broker_id: int, view: ViewDep, _caller: Reader) -> Response:
    """Describe one replica."""
    found = _partition(view, topic_name, partition_id)
    if broker_id not in found.replicas:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Broker {broker_id} holds no replica of it.")
    return answer(replica_data(view, topic_name, partition_id, found, broker_id), view.offset)
