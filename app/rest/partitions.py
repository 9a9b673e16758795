"""Partitions, replicas and reassignments as REST v3 has them; changes of reassignments in its style."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from app.cluster.partitions import Outcome, Partition
from app.error_responses import NATIVE
from app.http.errors import of_kafka
from app.rest.paging import Page, PageDep
from app.rest.responses import answer, checked, multi_status
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.partitions import (
    CancelBody,
    PartitionData,
    PartitionDataList,
    PartitionEntry,
    PartitionOutcomeDataList,
    ReassignBody,
    ReassignmentData,
    ReassignmentDataList,
    ReplicaData,
    ReplicaDataList,
)
from app.rest.validation import refuse_repeated
from app.rest.view import NowViewDep, View, ViewDep
from app.services import Admin, Reader, ServicesDep
from kraft_core.image.metadata_image import PartitionRegistration, TopicImage
from kraft_core.image.trie_items import items_of, values_of
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.uuids import uuid_to_text

router = APIRouter(prefix="/v3/clusters/{cluster_id}", route_class=JsonRoute)

OUTCOMES: dict[int | str, dict[str, Any]] = {
    200: {"model": PartitionOutcomeDataList, "description": "all partitions succeeded, or would with `validate_only`"},
    207: {"model": PartitionOutcomeDataList, "description": "some partitions were refused"},
}


def partition_data(view: View, topic: str, index: int, partition: PartitionRegistration) -> dict[str, Any]:
    """Return one partition. Epochs, ISR and ELR are additions to REST v3."""
    url = view.url("topics", topic, "partitions", index)
    leader = partition.leader
    return {
        "kind": "KafkaPartition",
        "metadata": {"self": url, "resource_name": view.crn(("topic", topic), ("partition", index))},
        "cluster_id": view.cluster_id,
        "topic_name": topic,
        "partition_id": index,
        "leader": {"related": f"{url}/replicas/{leader}"} if leader >= 0 else None,
        "replicas": {"related": f"{url}/replicas"},
        "reassignment": {"related": f"{url}/reassignment"},
        "leader_id": leader if leader >= 0 else None,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "replica_ids": list(partition.replicas),
        "in_sync_replica_ids": list(partition.isr),
        "eligible_leader_replica_ids": list(partition.elr),
        "offline_replica_ids": [
            each for each in partition.replicas if not view.image.is_replica_online(partition, each)
        ],
        "is_recovering": bool(partition.leader_recovery_state),
    }


def replica_data(
    view: View, topic: str, index: int, partition: PartitionRegistration, broker_id: int
) -> dict[str, Any]:
    """Return one replica. `directory_id` is an addition to REST v3."""
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
    """Return a reassignment in progress."""
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


def _reassignments(page: Page, topics: Iterable[TopicImage]) -> Response:
    in_progress = sorted(
        (
            (topic.name, index, partition)
            for topic in topics
            for index, partition in items_of(topic.partitions)
            if partition.is_reassigning
        ),
        key=lambda item: item[:2],
    )
    return page.answer(
        "KafkaReassignmentList", in_progress, lambda item: item[:2], lambda item: reassignment_data(page.view, *item)
    )


@router.get("/topics/-/partitions/-/reassignment", tags=["topics"], responses={200: {"model": ReassignmentDataList}})
async def list_reassignments(view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the reassignments in progress of all topics."""
    return _reassignments(page, values_of(view.image.topics.by_id))


@router.get(
    "/topics/{topic_name}/partitions/-/reassignment", tags=["topics"], responses={200: {"model": ReassignmentDataList}}
)
async def list_topic_reassignments(topic_name: str, view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the reassignments in progress of one topic."""
    return _reassignments(page, [view.topic(topic_name)])


@router.get("/topics/-/partitions", tags=[NATIVE, "topics"], responses={200: {"model": PartitionDataList}})
async def list_all_partitions(view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the partitions of all topics by topic and id."""
    page.check_after(str, int)
    after: tuple[str, int] = ("", -1) if page.after is None else tuple(page.after)
    topics = view.image.topics
    is_newest = view.image is view.cluster.image  # whose names are sorted already
    names = [row.name for row in view.cluster.topic_table.rows] if is_newest else sorted(topics.by_name)
    found: list[tuple[str, int, PartitionRegistration]] = []
    for name in names[bisect_left(names, after[0]) :]:
        partitions = topics.by_id[topics.by_name[name]].sorted_partitions()
        found += [(name, *each) for each in partitions if (name, each[0]) > after]
        if len(found) > page.size:
            break
    return page.answer("KafkaPartitionList", found, lambda each: each[:2], lambda each: partition_data(view, *each))


@router.get("/topics/{topic_name}/partitions", tags=["topics"], responses={200: {"model": PartitionDataList}})
async def list_partitions(topic_name: str, view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the partitions of a topic."""
    return page.answer(
        "KafkaPartitionList",
        view.topic(topic_name).sorted_partitions(),
        lambda item: item[0],
        lambda item: partition_data(view, topic_name, *item),
    )


@router.get(
    "/topics/{topic_name}/partitions/{partition_id}", tags=["topics"], responses={200: {"model": PartitionData}}
)
async def get_partition(topic_name: str, partition_id: int, view: ViewDep, _caller: Reader) -> Response:
    """Describe one partition."""
    found = view.partition(topic_name, partition_id)
    return answer(partition_data(view, topic_name, partition_id, found), view.offset)


@router.get(
    "/topics/{topic_name}/partitions/{partition_id}/reassignment",
    tags=["topics"],
    responses={200: {"model": ReassignmentData}},
)
async def get_reassignment(topic_name: str, partition_id: int, view: ViewDep, _caller: Reader) -> Response:
    """Describe the reassignment of one partition. 404 when none is in progress."""
    found = view.partition(topic_name, partition_id)
    if not found.is_reassigning:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"No reassignment of partition {topic_name}-{partition_id} is in progress.",
        )
    return answer(reassignment_data(view, topic_name, partition_id, found), view.offset)


@router.get(
    "/topics/{topic_name}/partitions/{partition_id}/replicas",
    tags=["topics"],
    responses={200: {"model": ReplicaDataList}},
)
async def list_partition_replicas(
    topic_name: str, partition_id: int, view: ViewDep, page: PageDep, _caller: Reader
) -> Response:
    """List the replicas of one partition by broker."""
    found = view.partition(topic_name, partition_id)
    return page.answer(
        "KafkaReplicaList",
        sorted(found.replicas),
        lambda broker_id: broker_id,
        lambda broker_id: replica_data(view, topic_name, partition_id, found, broker_id),
    )


@router.get(
    "/topics/{topic_name}/partitions/{partition_id}/replicas/{broker_id}",
    tags=["topics"],
    responses={200: {"model": ReplicaData}},
)
async def get_replica(topic_name: str, partition_id: int, broker_id: int, view: ViewDep, _caller: Reader) -> Response:
    """Describe one replica."""
    found = view.partition(topic_name, partition_id)
    if broker_id not in found.replicas:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Broker {broker_id} holds no replica of partition {topic_name}-{partition_id}.",
        )
    return answer(replica_data(view, topic_name, partition_id, found, broker_id), view.offset)


# changes


def outcomes(
    view: View, wanted: Sequence[Partition], done: Outcome, *, validate_only: bool, **more: object
) -> Response:
    """Return the outcome of each partition. The refusal of a single partition is raised instead.

    ELECTION_NOT_NEEDED is reported but is not a failure: the requested leader already leads. `more` are other members
    of the answer.
    """
    refusals = [error for error in done.failures.values() if error.code is not ErrorCode.ELECTION_NOT_NEEDED]
    if len(wanted) == 1 and refusals:
        raise refusals[0]
    data = []
    for topic, index in wanted:
        error = done.failures.get((topic, index))
        refused = None if error is None else of_kafka(error, v3=False)[0]
        data.append(
            {
                "topic_name": topic,
                "partition_id": index,
                "partition": view.related("topics", topic, "partitions", index),
                "error_code": None if refused is None else refused.error_code,
                "kafka_error": None if error is None else error.code.name,
                "message": None if refused is None else refused.message,
            }
        )
    body = checked({"data": data, **more}, validate_only=validate_only)
    return multi_status(body, done.offset) if refusals else answer(body, done.offset)


def partitions_of(entries: Sequence[PartitionEntry]) -> list[Partition]:
    """Return the partitions of a request. Raises KafkaError INVALID_REQUEST when one is repeated."""
    refuse_repeated("Partition", (f"{entry.topic_name}-{entry.partition_id}" for entry in entries))
    return [(entry.topic_name, entry.partition_id) for entry in entries]


@router.post("/reassignments", tags=[NATIVE, "operations"], responses=OUTCOMES)
async def reassign(
    body: ReassignBody, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Reassign partitions to other replicas. With `validate_only` the controller's rules check the plan."""
    partitions = partitions_of(body.data)
    done = await services.actions.partitions.alter_reassignments(
        caller,
        {(entry.topic_name, entry.partition_id): entry.replica_ids for entry in body.data},
        may_change_factor=body.allow_replication_factor_change,
        validate_only=validate_only,
    )
    return outcomes(view, partitions, done, validate_only=validate_only)


@router.post("/reassignments:cancel", tags=[NATIVE, "operations"], responses=OUTCOMES)
async def cancel_reassignments(
    body: CancelBody, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Cancel reassignments in progress: the partitions return to their original replicas."""
    partitions = partitions_of(body.data)
    done = await services.actions.partitions.alter_reassignments(
        caller, dict.fromkeys(partitions), validate_only=validate_only
    )
    return outcomes(view, partitions, done, validate_only=validate_only)
