"""What happened in the metadata log: timelines of brokers, flaps, elections outside the ISR, feature levels."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from app.cluster.cluster import now_ms
from app.cluster.log_events.broker_timeline import TimelineEntry, timeline
from app.cluster.log_events.events import FeatureChange, PartitionMove, state_of
from app.cluster.log_events.flaps import (
    OFFSET_MAX,
    BrokerFlaps,
    By,
    PartitionFlaps,
    Period,
    Window,
    broker_key,
    elections,
    partition_key,
    rank,
)
from app.cluster.log_events.survey import Survey
from app.error_responses import NATIVE
from app.http.errors import BadRequestError, UnavailableError
from app.rest.paging import PageDep
from app.rest.responses import answer
from app.rest.routing import JsonRoute
from app.rest.schemas.log_events import (
    BrokerEventDataList,
    BrokerFlapsDataList,
    FeatureChangeDataList,
    LeaderElectionDataList,
    PartitionFlapsDataList,
)
from app.rest.view import View, ViewDep
from app.services import Reader
from kraft_core.protocol.uuids import uuid_to_text

router = APIRouter(prefix="/v3/clusters/{cluster_id}", route_class=JsonRoute)

BEING_READ: dict[int | str, dict[str, Any]] = {503: {"description": "the log is being read; ask again in a second"}}
OffsetQuery = Annotated[int | None, Query(ge=0, le=OFFSET_MAX)]


async def _survey(view: View) -> Survey:
    """Return the events up to the state of the request. Raises UnavailableError until all were read."""
    survey = await view.cluster.log_events.survey()
    if survey.trouble:
        raise UnavailableError(survey.trouble, code="history-unreadable")
    if not survey.is_whole:
        text = f"The log is being read; it is known since offset {survey.first_offset}. Ask again in a second."
        raise UnavailableError(text, code="history-being-read", retry_after_seconds=1)
    return survey if view.cluster.past is None else survey.until(view.offset)


def _time_ms(view: View) -> int:
    return now_ms() if view.cluster.past is None else view.cluster.past.time_ms


@router.get(
    "/brokers/{broker_id}/timeline",
    tags=[NATIVE, "nodes"],
    responses={200: {"model": BrokerEventDataList}, 404: {"description": "the log does not mention it"}, **BEING_READ},
)
async def broker_timeline(
    broker_id: Annotated[int, Path(ge=0, le=2**31 - 1)], view: ViewDep, page: PageDep, _caller: Reader
) -> Response:
    """List what happened to a broker, newest first: registrations, fencing, shutdowns, directories; also a former one.

    The events come from the metadata log as far as this process keeps it.
    """
    survey = await _survey(view)
    broker = view.image.cluster.brokers.get(broker_id)
    found = await asyncio.to_thread(
        timeline,
        survey.events,
        broker_id,
        state_now=state_of(broker),
        first_ms=survey.first_ms,
        now_ms=_time_ms(view),
    )
    if broker is None and not found.entries:
        raise view.not_found(f"Broker {broker_id}")
    numbered = list(enumerate(found.entries))[::-1]
    body = page.body("KafkaBrokerEventList", numbered, lambda item: -item[0], lambda item: _broker_event(view, *item))
    return answer({**body, "first_offset": survey.first_offset}, view.offset)


def _broker_event(view: View, number: int, entry: TimelineEntry) -> dict[str, Any]:
    event = entry.event
    return view.resource(
        "KafkaBrokerEvent",
        ("brokers", event.broker_id, "timeline"),
        (("broker", event.broker_id), ("event", number)),
        broker_id=event.broker_id,
        event=event.kind,
        offset=event.offset,
        timestamp=event.time_ms,
        state_before=event.before,
        state_after=event.after,
        broker_epoch=event.epoch,
        duration_ms=entry.lasted_ms,
        is_current=entry.is_current,
        leaders_lost=entry.leaders_lost,
        detail=event.detail,
    )


def _window(view: View, period: Period, first: int | None, last: int | None) -> Window:
    try:
        return Window.of(period, first, last, _time_ms(view))
    except ValueError as wrong:
        raise BadRequestError(f"Bad Request: {wrong}.") from None


@router.get(
    "/metadata/partition-flaps",
    tags=[NATIVE, "quorum"],
    responses={200: {"model": PartitionFlapsDataList}, **BEING_READ},
)
async def partition_flaps(
    view: ViewDep,
    page: PageDep,
    _caller: Reader,
    window: Period = "day",
    from_offset: OffsetQuery = None,
    to_offset: OffsetQuery = None,
    by: By = "isr",
) -> Response:
    """Rank partitions by ISR or leader changes in the last hour, day, all that is kept, or between two offsets."""
    survey = await _survey(view)
    found = await asyncio.to_thread(rank, survey.moves, _window(view, window, from_offset, to_offset), by)
    body = page.body(
        "KafkaPartitionFlapsList", found.partitions, partition_key(by), lambda row: _partition_flaps(view, row)
    )
    return answer({**body, "first_offset": survey.first_offset}, view.offset)


def _partition_flaps(view: View, row: PartitionFlaps) -> dict[str, Any]:
    return view.resource(
        "KafkaPartitionFlaps",
        ("topics", row.topic, "partitions", row.partition),
        (("topic", row.topic), ("partition", row.partition)),
        topic_name=row.topic,
        topic_id=uuid_to_text(row.topic_id),
        partition_id=row.partition,
        isr_shrinks=row.shrinks,
        isr_expansions=row.expansions,
        flaps=row.flaps,
        out_ms=row.out_ms,
        leader_changes=row.leader_changes,
        last_offset=row.last_offset,
    )


@router.get(
    "/metadata/broker-flaps",
    tags=[NATIVE, "quorum"],
    responses={200: {"model": BrokerFlapsDataList}, **BEING_READ},
)
async def broker_flaps(
    view: ViewDep,
    page: PageDep,
    _caller: Reader,
    window: Period = "day",
    from_offset: OffsetQuery = None,
    to_offset: OffsetQuery = None,
    by: By = "isr",
) -> Response:
    """Rank brokers by how often they left and joined ISRs, or gained and lost leaders, in a window."""
    survey = await _survey(view)
    found = await asyncio.to_thread(rank, survey.moves, _window(view, window, from_offset, to_offset), by)
    body = page.body("KafkaBrokerFlapsList", found.brokers, broker_key(by), lambda row: _broker_flaps(view, row))
    return answer({**body, "first_offset": survey.first_offset}, view.offset)


def _broker_flaps(view: View, row: BrokerFlaps) -> dict[str, Any]:
    return view.resource(
        "KafkaBrokerFlaps",
        ("brokers", row.broker_id),
        (("broker", row.broker_id),),
        broker_id=row.broker_id,
        isr_left=row.left,
        isr_joined=row.joined,
        flaps=row.flaps,
        out_ms=row.out_ms,
        leaders_gained=row.leaders_gained,
        leaders_lost=row.leaders_lost,
    )


@router.get(
    "/metadata/unclean-elections",
    tags=[NATIVE, "quorum"],
    responses={200: {"model": LeaderElectionDataList}, **BEING_READ},
)
async def unclean_elections(
    view: ViewDep,
    page: PageDep,
    _caller: Reader,
    topic_name: Annotated[str, Query(max_length=300)] = "",
    partition_id: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
) -> Response:
    """List the leaders that were elected outside the ISR, newest first: unclean, and from the ELR."""
    survey = await _survey(view)
    found = elections(survey.moves, topic_name, partition_id)
    body = page.body("KafkaLeaderElectionList", found, lambda move: -move.offset, lambda move: _election(view, move))
    return answer({**body, "first_offset": survey.first_offset}, view.offset)


def _election(view: View, move: PartitionMove) -> dict[str, Any]:
    return view.resource(
        "KafkaLeaderElection",
        ("topics", move.topic, "partitions", move.partition),
        (("topic", move.topic), ("partition", move.partition)),
        topic_name=move.topic,
        partition_id=move.partition,
        election=move.election,
        offset=move.offset,
        timestamp=move.time_ms,
        leader_id_before=None if move.leader_before < 0 else move.leader_before,
        isr_before=list(move.isr_before),
        leader_id=move.leader,
    )


@router.get(
    "/metadata/feature-changes",
    tags=[NATIVE, "quorum"],
    responses={200: {"model": FeatureChangeDataList}, **BEING_READ},
)
async def feature_changes(view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the changes of finalized feature levels, newest first. kraft.version is not in the metadata."""
    survey = await _survey(view)
    body = page.body(
        "KafkaFeatureChangeList",
        survey.feature_changes[::-1],
        lambda each: -each.offset,
        lambda each: _feature_change(view, each),
    )
    return answer({**body, "first_offset": survey.first_offset}, view.offset)


def _feature_change(view: View, each: FeatureChange) -> dict[str, Any]:
    return view.resource(
        "KafkaFeatureChange",
        ("features", each.name),
        (("feature", each.name),),
        feature_name=each.name,
        level_before=each.before,
        level=each.after,
        offset=each.offset,
        timestamp=each.time_ms,
    )
