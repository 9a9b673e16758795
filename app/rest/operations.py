"""What REST v3 lacks for operators, in its style: reassignments, elections, unregistering a broker, features."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from app.answers import NATIVE
from app.cluster.brokers import broker_use
from app.cluster.features import FeatureUpdate
from app.cluster.partitions import ElectionType, Outcome, Partition, needs_election
from app.http.errors import of_kafka
from app.rest.common import (
    DRY_RUN,
    PAGE_SIZE_MAX,
    VALIDATED,
    PageDep,
    PageRequest,
    View,
    ViewDep,
    answer,
    dry_answer,
    list_body,
)
from app.rest.routing import DryRun, Flag, JsonRoute, flag_of
from app.rest.schemas.brokers import UnregisterBrokerBody
from app.rest.schemas.features import FeatureDataList, UpdateFeaturesBody
from app.rest.schemas.partitions import CancelBody, ElectBody, PartitionOutcomeDataList, ReassignBody
from app.services import Admin, Reader, ServicesDep, TopicEditor
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.metadata_version import FEATURES

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=[NATIVE, "operations"], route_class=JsonRoute)

ALL = PageRequest(PAGE_SIZE_MAX, None)

_OUTCOMES: dict[int | str, dict[str, Any]] = {
    200: {"model": PartitionOutcomeDataList, "description": "every partition, or what `validate_only` found"},
    207: {"model": PartitionOutcomeDataList, "description": "some partitions were refused"},
}


def _outcomes(view: View, wanted: Sequence[Partition], done: Outcome, *, validate_only: bool) -> Response:
    """Say per partition what became of it; one partition alone that was refused is that error.

    An election that is not needed is told, but is no failure: the leader is the one that was asked for.
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
    marked = VALIDATED if validate_only else {}
    return answer({"data": data, **marked}, done.offset, 207 if refusals else 200)


def _no_repetition(partitions: Sequence[Partition]) -> None:
    if len(set(partitions)) != len(partitions):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A partition is given twice.")


@router.post("/reassignments", responses=_OUTCOMES)
async def reassign(
    body: ReassignBody, view: ViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Move partitions to other replicas. With `validate_only` the plan is checked by the controller's rules."""
    partitions = [(entry.topic_name, entry.partition_id) for entry in body.data]
    _no_repetition(partitions)
    done = await services.actions.partitions.alter_reassignments(
        caller,
        {(entry.topic_name, entry.partition_id): entry.replica_ids for entry in body.data},
        may_change_factor=body.allow_replication_factor_change,
        validate_only=validate_only,
    )
    return _outcomes(view, partitions, done, validate_only=validate_only)


@router.post("/reassignments:cancel", responses=_OUTCOMES)
async def cancel_reassignments(
    body: CancelBody, view: ViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """End reassignments that are under way: the partitions go back to the replicas they had."""
    partitions = [(entry.topic_name, entry.partition_id) for entry in body.data]
    _no_repetition(partitions)
    done = await services.actions.partitions.alter_reassignments(
        caller, dict.fromkeys(partitions), validate_only=validate_only
    )
    return _outcomes(view, partitions, done, validate_only=validate_only)


@router.post("/topics/{topic_name}/partitions/{partition_id}:elect-leader", responses=_OUTCOMES)
async def elect_leader(
    topic_name: str,
    partition_id: Annotated[
        str,
        Path(
            pattern=r"^(-|\d{1,10})$",
            description="`-`: all of the topic; with `-` for the topic too, all of the cluster",
        ),
    ],
    body: ElectBody,
    view: ViewDep,
    services: ServicesDep,
    caller: TopicEditor,
    validate_only: DryRun,
) -> Response:
    """Hold elections; of several partitions only those that need one are asked. UNCLEAN may lose records.

    With `validate_only` the answer lists those that would be asked.
    """
    election = ElectionType[body.election_type]
    if partition_id != "-":
        wanted = [(view.topic(topic_name).name, int(partition_id))]
    else:
        names = sorted(view.image.topics.by_name) if topic_name == "-" else [topic_name]
        wanted = [
            (name, index)
            for name in names
            for index, partition in view.topic(name).sorted_partitions()
            if needs_election(partition, election)
        ]
    if not wanted:
        return answer({"data": [], **(VALIDATED if validate_only else {})}, view.offset)
    done = await services.actions.partitions.elect_leaders(caller, election, wanted, validate_only=validate_only)
    return _outcomes(view, wanted, done, validate_only=validate_only)


@router.post(
    "/brokers/{broker_id}:unregister",
    status_code=202,
    responses={
        **DRY_RUN,
        404: {"description": "no such broker"},
        409: {"description": "it is live or holds replicas; `force` does it all the same"},
    },
)
async def unregister_broker(
    request: Request,
    broker_id: Annotated[int, Path(ge=0, le=2**31 - 1)],
    view: ViewDep,
    services: ServicesDep,
    caller: Admin,
    validate_only: DryRun,
    force: Annotated[Flag | None, Query(description="also a broker that is live or holds replicas")] = None,
    body: UnregisterBrokerBody | None = None,
) -> Response:
    """Forget a broker that is gone for good; one that runs registers again when it starts next.

    One that is live or holds replicas is refused unless `force`, which may stand in the query or in the body.
    """
    broker = view.broker(broker_id)
    forced = await flag_of(request, "force", force)
    offset = await services.actions.brokers.unregister(caller, broker_id, force=forced, validate_only=validate_only)
    if validate_only:
        use = broker_use(view.image, broker_id)
        before = {"is_fenced": broker.fenced, "replicas_count": use.replicas, "leaders_count": use.leaders}
        return dry_answer([(f"broker {broker_id}", before, None)])
    return answer({}, offset, 202)


def _feature_data(view: View, name: str, kraft_version: int | None) -> dict[str, Any]:
    known = FEATURES.get(name)
    level = kraft_version if name == "kraft.version" else view.image.features.level(name)
    return view.resource(
        "KafkaFeature",
        ("features", name),
        (("feature", name),),
        feature_name=name,
        level=level,
        lowest_level=None if known is None else known.minimum,
        highest_level=None if known is None else known.maximum,
        brokers=[
            {"broker_id": broker_id, "lowest_level": supported.min, "highest_level": supported.max}
            for broker_id, broker in sorted(view.image.cluster.brokers.items())
            if (supported := broker.supported_features.get(name)) is not None
        ],
    )


def _features(view: View) -> list[dict[str, Any]]:
    quorum = view.cluster.quorum
    kraft_version = None if quorum.standing == "unknown" else quorum.kraft_version
    names = sorted({*FEATURES, *view.image.features.levels})
    return [_feature_data(view, name, kraft_version) for name in names]


@router.get("/features", responses={200: {"model": FeatureDataList}})
async def list_features(request: Request, view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the features: finalized level, and the levels that this software and each broker support."""
    body = list_body(request, view, "KafkaFeatureList", _features(view), page, lambda item: item["feature_name"], dict)
    return answer(body, view.offset)


@router.patch("/features", responses={200: {"model": FeatureDataList}})
async def update_features(
    request: Request,
    body: UpdateFeaturesBody,
    view: ViewDep,
    services: ServicesDep,
    caller: Admin,
    validate_only: DryRun,
) -> Response:
    """Change feature levels, all or none; answers with the features as they are then."""
    if len({entry.feature_name for entry in body.data}) != len(body.data):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A feature is given twice.")
    updates = [
        FeatureUpdate(name=entry.feature_name, level=entry.level, upgrade_type=entry.upgrade_type)
        for entry in body.data
    ]
    offset = await services.actions.features.update(caller, updates, validate_only=validate_only)
    after = replace(view, image=view.cluster.image)
    body_after = list_body(
        request, after, "KafkaFeatureList", _features(after), ALL, lambda item: item["feature_name"], dict
    )
    if validate_only:
        levels = {update.name: update.level for update in updates}
        for item in body_after["data"]:
            item["level"] = levels.get(item["feature_name"], item["level"])
        body_after |= VALIDATED
    return answer(body_after, view.offset if offset is None else offset)
