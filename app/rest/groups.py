"""Consumer groups as REST v3 has them; setting offsets and deleting groups in its style.

Answers are as new as the brokers' answers to this request, not an image. A broker that does not answer makes them an
error, so that no program takes a part of the groups for all.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final
from urllib.parse import unquote

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import AfterValidator

from app.cluster.groups import GroupDetail, GroupLag, GroupList, ListedGroup, check_group_id, is_missing
from app.error_responses import NATIVE
from app.http.errors import BadRequestError
from app.rest.paging import NowPageDep
from app.rest.responses import DRY_RUN, answer, checked, multi_status, no_content, planned, state_name
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.groups import (
    ConsumerAssignmentData,
    ConsumerAssignmentDataList,
    ConsumerData,
    ConsumerDataList,
    ConsumerGroupData,
    ConsumerGroupDataList,
    ConsumerGroupLagSummaryData,
    ConsumerLagData,
    ConsumerLagDataList,
    OffsetResetDataList,
    ResetOffsetsBody,
)
from app.rest.validation import refuse_repeated
from app.rest.view import NowViewDep, View
from app.services import GroupEditor, Reader, ServicesDep
from kraft_core.clients.admin.group_lag import PartitionLag
from kraft_core.clients.admin.groups import MemberDescription
from kraft_core.clients.admin.offset_reset import Scenario, ShiftBy, ToCurrent, ToOffsets, ToSpec
from kraft_core.clients.admin.offsets import OffsetSpec
from kraft_core.clients.admin.reset_request import datetime_ms, duration_ms
from kraft_core.clients.admin.streams_topology import MemberTasks, Topology
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(prefix="/v3/clusters/{cluster_id}/consumer-groups", tags=["consumer groups"], route_class=JsonRoute)

WAIT_SECONDS: Final = 10.0
_OUTCOMES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": OffsetResetDataList, "description": "all offsets were set, or would be with `validate_only`"},
    207: {"model": OffsetResetDataList, "description": "some partitions were refused"},
}


def _decoded(segment: str) -> str:
    group_id = unquote(segment)
    check_group_id(group_id)
    return group_id


Segment = Annotated[str, Path(min_length=1), AfterValidator(unquote)]
GroupId = Annotated[str, Path(min_length=1), AfterValidator(_decoded)]
"""Group and consumer ids may have any characters: their path segments reach the route encoded (see Negotiation)."""


def group_data(view: View, listed: ListedGroup, detail: GroupDetail | None) -> dict[str, Any]:
    """Return one group. Without a detail (it was deleted just now), what only its coordinator tells is empty."""
    path = ("consumer-groups", listed.group_id)
    described = None if detail is None else detail.description
    members = () if described is None else described.members
    return view.resource(
        "KafkaConsumerGroup",
        path,
        (("consumer-group", listed.group_id),),
        consumer_group_id=listed.group_id,
        protocol=described.protocol if described else listed.protocol,
        is_simple=listed.type in {"Classic", ""} and not listed.protocol,
        partition_assignor="" if described is None else described.partition_assignor,
        state=state_name(described.state if described else listed.state),
        type=(described.type if described else listed.type or "Unknown").upper(),
        is_mixed_consumer_group=listed.type == "Consumer" and any(each.is_classic for each in members),
        coordinator=view.related("brokers", described.coordinator.id if described else listed.coordinator),
        consumers=view.related(*path, "consumers"),
        lag_summary=view.related(*path, "lag-summary"),
        epoch=None if described is None else described.epoch,
        assignment_epoch=None if described is None else described.assignment_epoch,
        topology=None if described is None or described.topology is None else topology_data(described.topology),
    )


def topology_data(topology: Topology) -> dict[str, Any]:
    """Return the topology of a streams group."""
    return {
        "epoch": topology.epoch,
        "subtopologies": [
            {
                "subtopology_id": each.id,
                "source_topics": each.source_topics,
                "repartition_source_topics": each.repartition_source_topics,
                "repartition_sink_topics": each.repartition_sink_topics,
                "changelog_topics": each.changelog_topics,
            }
            for each in topology.subtopologies
        ],
    }


def tasks_data(tasks: MemberTasks) -> dict[str, Any]:
    """Return the tasks of a member of a streams group, in order."""
    kinds = {"active": tasks.active, "standby": tasks.standby, "warmup": tasks.warmup}
    return {
        kind: [{"subtopology_id": subtopology, "partition_id": index} for subtopology, index in sorted(each)]
        for kind, each in kinds.items()
    }


async def _listed(view: View) -> GroupList:
    found = await view.cluster.groups.list(WAIT_SECONDS, 0.0)
    for broker_id, error in found.errors.items():
        raise KafkaError(error.code, f"Broker {broker_id} has not listed its groups: {error.message}")
    if found.pending:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Broker {found.pending[0]} has not listed its groups in time.")
    return found


async def _whole_list(view: View) -> GroupList:
    found = await _listed(view)
    if found.missing is not None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Groups may be missing: {found.missing.text}")
    return found


async def _group(view: View, group_id: str) -> GroupLag:
    """Return a group that exists. Raises NotFoundError, KafkaError."""
    found = await view.cluster.groups.lag(group_id, WAIT_SECONDS, 0.0)
    if found.is_missing:
        raise view.not_found(f"Consumer group {group_id}")
    found.detail.get_or_raise(f"group {group_id}")
    return found


def _detail(found: GroupLag) -> GroupDetail:
    assert found.detail.value is not None, "_group has checked it"
    return found.detail.value


@router.get("", responses={200: {"model": ConsumerGroupDataList}})
async def list_groups(view: NowViewDep, page: NowPageDep, _caller: Reader) -> Response:
    """List the groups of all types by id."""
    listed = await _whole_list(view)
    shown = page.chosen(listed.groups, lambda each: each.group_id)
    wanted = {each.group_id: each.coordinator for each in shown}
    found = await view.cluster.groups.details(wanted, WAIT_SECONDS, 0.0)
    details = {each: found[each].get_or_raise(f"group {each}") for each in wanted if not is_missing(found[each])}
    return page.answer(
        "KafkaConsumerGroupList",
        listed.groups,
        lambda each: each.group_id,
        lambda each: group_data(view, each, details.get(each.group_id)),
    )


@router.get("/{consumer_group_id}", responses={200: {"model": ConsumerGroupData}})
async def get_group(consumer_group_id: GroupId, view: NowViewDep, _caller: Reader) -> Response:
    """Describe a group."""
    listed = {each.group_id: each for each in (await _listed(view)).groups}.get(consumer_group_id)
    detail = _detail(await _group(view, consumer_group_id))
    described = detail.description
    shown = listed or ListedGroup(
        described.group_id, described.type, described.protocol, described.state, described.coordinator.id
    )
    return answer(group_data(view, shown, detail), view.offset)


# members


def consumer_data(view: View, group_id: str, member: MemberDescription) -> dict[str, Any]:
    """Return one member."""
    path = ("consumer-groups", group_id, "consumers", member.member_id)
    return view.resource(
        "KafkaConsumer",
        path,
        (("consumer-group", group_id), ("consumer", member.member_id)),
        consumer_group_id=group_id,
        consumer_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        assignments=view.related(*path, "assignments"),
        host=member.host,
        member_epoch=member.member_epoch,
        tasks=None if member.tasks is None else tasks_data(member.tasks),
        assigned_partitions=_partitions(member.assignment),
        target_partitions=None if member.target_assignment is None else _partitions(member.target_assignment),
    )


def _partitions(assignment: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic_name": topic, "partition_id": index} for topic, index in sorted(assignment)]


def assignment_data(view: View, group_id: str, member_id: str, partition: TopicPartition) -> dict[str, Any]:
    """Return one assigned partition."""
    topic, index = partition
    path = ("consumer-groups", group_id, "consumers", member_id, "assignments", topic, "partitions", index)
    return view.resource(
        "KafkaConsumerAssignment",
        path,
        (("consumer-group", group_id), ("consumer", member_id), ("assignment", topic), ("partition", index)),
        consumer_group_id=group_id,
        consumer_id=member_id,
        topic_name=topic,
        partition_id=index,
        partition=view.related("topics", topic, "partitions", index),
        lag=view.related("consumer-groups", group_id, "lags", topic, "partitions", index),
    )


async def _member(view: View, group_id: str, consumer_id: str) -> MemberDescription:
    members = _detail(await _group(view, group_id)).description.members
    found = next((each for each in members if each.member_id == consumer_id), None)
    if found is None:
        raise view.not_found(f"Consumer {consumer_id}", f"in group {group_id}")
    return found


@router.get("/{consumer_group_id}/consumers", responses={200: {"model": ConsumerDataList}})
async def list_consumers(consumer_group_id: GroupId, view: NowViewDep, page: NowPageDep, _caller: Reader) -> Response:
    """List the members of a group by id."""
    members = _detail(await _group(view, consumer_group_id)).description.members
    return page.answer(
        "KafkaConsumerList",
        sorted(members, key=lambda each: each.member_id),
        lambda each: each.member_id,
        lambda each: consumer_data(view, consumer_group_id, each),
    )


@router.get("/{consumer_group_id}/consumers/{consumer_id}", responses={200: {"model": ConsumerData}})
async def get_consumer(consumer_group_id: GroupId, consumer_id: Segment, view: NowViewDep, _caller: Reader) -> Response:
    """Describe one member."""
    found = await _member(view, consumer_group_id, consumer_id)
    return answer(consumer_data(view, consumer_group_id, found), view.offset)


@router.get(
    "/{consumer_group_id}/consumers/{consumer_id}/assignments",
    responses={200: {"model": ConsumerAssignmentDataList}},
)
async def list_assignments(
    consumer_group_id: GroupId, consumer_id: Segment, view: NowViewDep, page: NowPageDep, _caller: Reader
) -> Response:
    """List the partitions that are assigned to a member."""
    found = await _member(view, consumer_group_id, consumer_id)
    return page.answer(
        "KafkaConsumerAssignmentList",
        sorted(found.assignment),
        tuple,
        lambda each: assignment_data(view, consumer_group_id, consumer_id, each),
    )


@router.get(
    "/{consumer_group_id}/consumers/{consumer_id}/assignments/{topic_name}/partitions/{partition_id}",
    responses={200: {"model": ConsumerAssignmentData}},
)
async def get_assignment(
    consumer_group_id: GroupId,
    consumer_id: Segment,
    topic_name: str,
    partition_id: int,
    view: NowViewDep,
    _caller: Reader,
) -> Response:
    """Describe one assigned partition."""
    found, wanted = await _member(view, consumer_group_id, consumer_id), TopicPartition(topic_name, partition_id)
    if wanted not in found.assignment:
        raise view.not_found(f"Assignment of {topic_name}-{partition_id}", f"for consumer {consumer_id}")
    return answer(assignment_data(view, consumer_group_id, consumer_id, wanted), view.offset)


# lags


def lag_data(view: View, group_id: str, found: PartitionLag) -> dict[str, Any]:
    """Return the lag in one partition, which has a committed offset and a known end."""
    assert found.committed is not None, "only partitions with a committed offset have a lag"
    topic, index = found.partition
    member = found.member
    return view.resource(
        "KafkaConsumerLag",
        ("consumer-groups", group_id, "lags", topic, "partitions", index),
        (("consumer-group", group_id), ("lag", topic), ("partition", index)),
        consumer_group_id=group_id,
        topic_name=topic,
        partition_id=index,
        current_offset=found.committed.offset,
        log_end_offset=found.log_end_offset,
        lag=found.lag,
        consumer_id="" if member is None else member.member_id,
        instance_id=None if member is None else member.group_instance_id,
        client_id="" if member is None else member.client_id,
    )


async def _lags(view: View, group_id: str) -> list[PartitionLag]:
    """Return the lags, the largest first. Raises NotFoundError if nothing is committed, as REST v3 does."""
    found = await _group(view, group_id)
    committed = [each for each in found.partitions if each.committed is not None]
    for each in committed:
        if each.log_end_offset is None:
            error = each.error or KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Its leader did not answer in time.")
            where = f"{each.partition.topic}-{each.partition.partition}"
            raise KafkaError(error.code, f"The log end offset of {where} is unknown. {error.message}")
    if not committed:
        raise view.not_found("Consumer lags", f"for group {group_id}")
    return sorted(committed, key=lambda each: (-(each.lag or 0), each.partition))


@router.get("/{consumer_group_id}/lags", responses={200: {"model": ConsumerLagDataList}})
async def list_lags(consumer_group_id: GroupId, view: NowViewDep, page: NowPageDep, _caller: Reader) -> Response:
    """List the lags of a group, the largest first."""
    return page.answer(
        "KafkaConsumerLagList",
        await _lags(view, consumer_group_id),
        lambda each: (-(each.lag or 0), *each.partition),
        lambda each: lag_data(view, consumer_group_id, each),
    )


@router.get(
    "/{consumer_group_id}/lags/{topic_name}/partitions/{partition_id}", responses={200: {"model": ConsumerLagData}}
)
async def get_lag(
    consumer_group_id: GroupId, topic_name: str, partition_id: int, view: NowViewDep, _caller: Reader
) -> Response:
    """Describe the lag of a group in one partition."""
    for each in await _lags(view, consumer_group_id):
        if each.partition == (topic_name, partition_id):
            return answer(lag_data(view, consumer_group_id, each), view.offset)
    raise view.not_found(f"Lag of {topic_name}-{partition_id}", f"for group {consumer_group_id}")


@router.get("/{consumer_group_id}/lag-summary", responses={200: {"model": ConsumerGroupLagSummaryData}})
async def get_lag_summary(consumer_group_id: GroupId, view: NowViewDep, _caller: Reader) -> Response:
    """Describe the largest lag of a group, and the sum of all."""
    lags = await _lags(view, consumer_group_id)
    most, path = lags[0], ("consumer-groups", consumer_group_id)
    (topic, index), member = most.partition, most.member
    body = view.resource(
        "KafkaConsumerGroupLagSummary",
        (*path, "lag-summary"),
        (("consumer-group", consumer_group_id), ("lag-summary", "")),
        consumer_group_id=consumer_group_id,
        max_lag_consumer_id="" if member is None else member.member_id,
        max_lag_instance_id=None if member is None else member.group_instance_id,
        max_lag_client_id="" if member is None else member.client_id,
        max_lag_topic_name=topic,
        max_lag_partition_id=index,
        max_lag=most.lag,
        total_lag=sum(each.lag or 0 for each in lags),
        max_lag_consumer=None if member is None else view.related(*path, "consumers", member.member_id),
        max_lag_partition=view.related("topics", topic, "partitions", index),
    )
    return answer(body, view.offset)


# changes


def scenario_of(body: ResetOffsetsBody) -> Scenario:
    """Return where a request moves the offsets. Raises BadRequestError for a time that cannot be read."""
    try:
        if body.to_datetime is not None:
            return ToSpec(max(0, datetime_ms(body.to_datetime)))
        if body.by_duration is not None:
            return ToSpec(max(0, int(time.time() * 1000) - duration_ms(body.by_duration)))
    except ValueError as error:
        raise BadRequestError(f"Bad Request: {error}.") from None
    if body.to_offset is not None:
        return ToOffsets(body.to_offset)
    if body.shift_by is not None:
        return ShiftBy(body.shift_by)
    return ToCurrent() if body.to == "CURRENT" else ToSpec(OffsetSpec[body.to or "LATEST"])


@router.post("/{consumer_group_id}/offsets:reset", tags=[NATIVE], responses=_OUTCOMES)
async def reset_offsets(
    consumer_group_id: GroupId,
    body: ResetOffsetsBody,
    view: NowViewDep,
    services: ServicesDep,
    caller: GroupEditor,
    validate_only: DryRun,
) -> Response:
    """Move the committed offsets of a group without members. With `validate_only` the answer has the new offsets."""
    named: dict[str, set[int] | None] | None = None
    if body.topics is not None:
        refuse_repeated("Topic", (each.topic_name for each in body.topics))
        named = {
            each.topic_name: None if each.partition_ids is None else set(each.partition_ids) for each in body.topics
        }
    plan = await view.cluster.admin.groups.plan_reset(consumer_group_id, named, scenario_of(body))
    failed = {} if validate_only else await services.actions.groups.reset(caller, consumer_group_id, plan)
    if failed and len(failed) == len(plan):
        raise next(iter(failed.values()))
    data: Sequence[dict[str, Any]] = [
        {
            "topic_name": each.partition.topic,
            "partition_id": each.partition.partition,
            "current_offset": each.committed,
            "new_offset": each.new_offset,
            "note": each.note,
            "kafka_error": failed[each.partition].code.name if each.partition in failed else None,
            "message": failed[each.partition].message if each.partition in failed else None,
        }
        for each in plan
    ]
    answered = checked({"kind": "KafkaOffsetResetList", "data": data}, validate_only=validate_only)
    return multi_status(answered, None) if failed else answer(answered, None)


@router.delete("/{consumer_group_id}", status_code=204, tags=[NATIVE], responses=DRY_RUN)
async def delete_group(
    consumer_group_id: GroupId, view: NowViewDep, services: ServicesDep, caller: GroupEditor, validate_only: DryRun
) -> Response:
    """Delete a group without members and all its committed offsets."""
    await services.actions.groups.delete(caller, consumer_group_id, validate_only=validate_only)
    if validate_only:
        return planned([(f"consumer group {consumer_group_id}", {"consumer_group_id": consumer_group_id}, None)])
    return no_content()
