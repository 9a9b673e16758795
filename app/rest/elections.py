"""Elections of leaders: of one partition, of topics, of the cluster. Those of very many are resources of their own."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import Response

from app.actions.audited import Caller
from app.actions.election_store import LongElection
from app.actions.long_elections import ElectionRunningError
from app.cluster.elections import is_long, leaders_by_broker, partitions_to_elect, previewed
from app.cluster.partitions import Partition
from app.error_responses import NATIVE
from app.http.errors import ConflictError, FieldError, NotFoundError, UnprocessableError
from app.rest.paging import PageDep
from app.rest.partitions import OUTCOMES, outcomes, partitions_of
from app.rest.responses import accepted, answer, checked, location_of, milliseconds
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.partitions import (
    ElectBody,
    ElectionData,
    ElectionOutcomeDataList,
    ElectionPartitionDataList,
    ElectLeadersBody,
)
from app.rest.view import NowViewDep, View
from app.services import Reader, Services, ServicesDep, TopicEditor
from kraft_core.clients.admin.partitions import ElectionType
from kraft_core.protocol.errors import KafkaError

router = APIRouter(prefix="/v3/clusters/{cluster_id}", route_class=JsonRoute)

_BEGUN: dict[int | str, dict[str, Any]] = {
    202: {"model": ElectionData, "description": "more than 1,000 partitions: the election is held in the background"},
    409: {"description": "another such election is being held"},
}


@router.post(
    "/topics/{topic_name}/partitions/{partition_id}:elect-leader",
    tags=[NATIVE, "operations"],
    responses={**OUTCOMES, **_BEGUN},
)
async def elect_leader(
    topic_name: str,
    partition_id: Annotated[
        str,
        Path(
            pattern=r"^(-|\d{1,10})$",
            description="`-`: all partitions of the topic; with `-` for the topic too, of the cluster",
        ),
    ],
    body: ElectBody,
    view: NowViewDep,
    services: ServicesDep,
    caller: TopicEditor,
    validate_only: DryRun,
) -> Response:
    """Elect leaders. With `-`, only partitions that need an election take part. UNCLEAN may lose records.

    With `validate_only` the answer lists the partitions that would take part.
    """
    election = ElectionType[body.election_type]
    if partition_id != "-":
        wanted = [(view.topic(topic_name).name, int(partition_id))]
    else:
        wanted = partitions_to_elect(view.image, election, None if topic_name == "-" else [view.topic(topic_name)])
    if not wanted:
        return answer(checked({"data": []}, validate_only=validate_only), view.offset)
    if is_long(wanted) and not validate_only:
        return await _begun(view, services, caller, election, wanted)
    done = await services.actions.partitions.elect_leaders(caller, election, wanted, validate_only=validate_only)
    return await asyncio.to_thread(outcomes, view, wanted, done, validate_only=validate_only)


@router.post(
    "/leaders:elect",
    tags=[NATIVE, "operations"],
    responses={
        200: {"model": ElectionOutcomeDataList, "description": "all were elected, or would be with `validate_only`"},
        207: {"model": ElectionOutcomeDataList, "description": "some partitions were refused"},
        **_BEGUN,
    },
)
async def elect_leaders(
    body: ElectLeadersBody, view: NowViewDep, services: ServicesDep, caller: TopicEditor, validate_only: DryRun
) -> Response:
    """Elect leaders of the cluster, of some topics or of chosen partitions. UNCLEAN may lose records.

    Partitions are elected 1,000 at a time, so that other requests have their turn.
    """
    election = ElectionType[body.election_type]
    if body.partitions and body.topic_names:
        message = "Only one of topic_names and partitions can be given."
        raise UnprocessableError(message, errors=(FieldError("/partitions", message),))
    image = view.image
    if body.partitions:
        wanted = partitions_of(body.partitions)
    else:
        topics = [view.topic(name) for name in dict.fromkeys(body.topic_names)] or None
        wanted = await asyncio.to_thread(partitions_to_elect, image, election, topics)
    if is_long(wanted) and not validate_only:
        return await _begun(view, services, caller, election, wanted)
    found = await asyncio.to_thread(previewed, image, election, wanted)
    by_broker = leaders_by_broker(image, services.cluster.topic_table, found)
    brokers = [
        {"broker_id": broker, "leaders_before": then, "leaders_after": now} for broker, (then, now) in by_broker.items()
    ]
    if not wanted:
        return answer(checked({"data": [], "brokers": brokers}, validate_only=validate_only), view.offset)
    done = await services.actions.partitions.elect_leaders(caller, election, wanted, validate_only=validate_only)
    return await asyncio.to_thread(outcomes, view, wanted, done, validate_only=validate_only, brokers=brokers)


async def _begun(
    view: View, services: Services, caller: Caller, election: ElectionType, wanted: Sequence[Partition]
) -> Response:
    try:
        held = await services.actions.long_elections.begin(caller, election, wanted)
    except ElectionRunningError as refused:
        raise ConflictError(str(refused), code="election-running") from refused
    data = _election(view, services, held)
    return accepted(data, view.offset, location_of(data))


@router.get("/elections/{election_id}", tags=[NATIVE, "operations"], responses={200: {"model": ElectionData}})
async def get_election(election_id: str, view: NowViewDep, services: ServicesDep, _caller: Reader) -> Response:
    """Describe an election of more than 1,000 partitions. The last five are kept."""
    return answer(_election(view, services, await _known(services, election_id)), view.offset)


@router.get(
    "/elections/{election_id}/partitions",
    tags=[NATIVE, "operations"],
    responses={200: {"model": ElectionPartitionDataList}},
)
async def list_election_partitions(election_id: str, page: PageDep, services: ServicesDep, _caller: Reader) -> Response:
    """List the result of each partition of an election, by topic and partition."""
    held = await _known(services, election_id)
    return page.answer(
        "KafkaElectionPartitionList",
        held.partitions,
        lambda key: key,
        lambda key: _partition(page.view, key, *held.outcome(key)),
    )


async def _known(services: Services, election_id: str) -> LongElection:
    held = await services.actions.long_elections.get(election_id)
    if held is None:
        raise NotFoundError(f"Election {election_id[:40]} is not known.")
    return held


def _election(view: View, services: Services, held: LongElection) -> dict[str, Any]:
    now = services.cluster.topic_table.totals().leaders_of
    brokers = sorted({*services.cluster.image.cluster.brokers, *now, *held.leaders_before})
    return view.resource(
        "KafkaElection",
        ("elections", held.id),
        (("election", held.id),),
        election_id=held.id,
        election_type=held.election.name,
        state=held.state,
        by=held.by,
        started_at=milliseconds(held.begun_at),
        finished_at=milliseconds(held.ended_at),
        partitions_count=len(held.partitions),
        elected_count=held.elected,
        refused_count=len(held.failures),
        metadata_offset=held.offset,
        waits_for=held.waits_for or None,
        stopped_by=held.stopped_by or None,
        partitions=view.related("elections", held.id, "partitions"),
        brokers=[
            {
                "broker_id": broker,
                "leaders_before": held.leaders_before.get(broker, 0),
                "leaders_now": now.get(broker, 0),
            }
            for broker in brokers
        ],
    )


def _partition(view: View, key: Partition, state: str, error: KafkaError | None) -> dict[str, Any]:
    topic, index = key
    return {
        "topic_name": topic,
        "partition_id": index,
        "partition": view.related("topics", topic, "partitions", index),
        "state": state,
        "kafka_error": None if error is None else error.code.name,
        "message": None if error is None else error.message,
    }
