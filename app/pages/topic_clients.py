"""The clients of a topic: the groups that read it with their lag, and the producers that write to it."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.cluster.groups import GroupLag, GroupList
from app.pages.frame import counted, page_items, page_of, render
from app.pages.group_links import group_path
from app.pages.groups import list_notes, state_tone
from app.pages.shared_parts import shared
from app.pages.topic import known_topic
from app.services import Reader, services_of
from app.texts import phrase
from kraft_core.clients.admin.transactions import ProducerState
from kraft_core.clients.client_metadata import TopicPartition

router = APIRouter(include_in_schema=False)

GROUPS_FRESH_SECONDS: Final = 30.0
"""All groups are asked for, to learn which of them read one topic."""
GROUPS_SHOWN: Final = 200
PARTITIONS_ON_PAGE: Final = 50


@dataclass(frozen=True, slots=True)
class TopicGroupRow:
    """A group that has committed offsets of a topic, or members with partitions of it."""

    group_id: str
    url: str
    state: str
    tone: str
    members: int
    partitions: int
    lag: int | None


def topic_group_rows(topic: str, lags: Mapping[str, GroupLag]) -> list[TopicGroupRow]:
    """Return the groups that read a topic, the largest lag first."""
    rows = []
    for group_id, found in lags.items():
        mine = [each for each in found.partitions if each.partition.topic == topic]
        if not mine or found.detail.value is None:
            continue
        state = found.detail.value.description.state
        known = [each.lag for each in mine if each.lag is not None]
        owners = {each.member.member_id for each in mine if each.member is not None}
        lag = sum(known) if known else None
        rows.append(
            TopicGroupRow(group_id, group_path(group_id), state, state_tone(state), len(owners), len(mine), lag)
        )
    return sorted(rows, key=lambda row: (-(row.lag or 0), row.group_id))


def groups_note(listed: GroupList, lags: Mapping[str, GroupLag]) -> list[str]:
    """Return why groups may be missing."""
    unknown = sum(each.detail.value is None for each in lags.values())
    return [
        *list_notes(listed),
        *([phrase("%(what)s not answered yet.", what=counted(unknown, "group"))] if unknown else []),
    ]


@dataclass(frozen=True, slots=True)
class TopicGroupsView:
    """Model of topic_groups.html."""

    topic: str
    rows: Sequence[TopicGroupRow]
    total: int
    asked_at: dt.datetime | None
    notes: Sequence[str]


@router.get("/topics/{name}/groups")
@shared
async def topic_groups(request: Request, _caller: Reader, name: str) -> Response:
    """Return the groups that read a topic."""
    cluster = services_of(request).cluster
    known_topic(cluster, name)
    listed = await cluster.groups.list()
    coordinators = {each.group_id: each.coordinator for each in listed.groups}
    lags = await cluster.groups.lags_of_topic(name, coordinators, fresh_seconds=GROUPS_FRESH_SECONDS)
    rows = topic_group_rows(name, lags)
    view = TopicGroupsView(name, rows[:GROUPS_SHOWN], len(rows), listed.asked_at, groups_note(listed, lags))
    return render(request, "topic_groups.html", page=page_of(request, name, "/topics"), view=view)


@dataclass(frozen=True, slots=True)
class ProducerRow:
    """An active producer of a partition. `open_since` is the offset where its transaction begins, None without one."""

    index: int
    producer_id: int
    epoch: int
    last_sequence: int | None
    last_write: dt.datetime | None
    open_since: int | None


@dataclass(frozen=True, slots=True)
class ProducersView:
    """Model of topic_producers.html; `notes` names the partitions whose leader does not answer."""

    topic: str
    rows: Sequence[ProducerRow]
    notes: Sequence[str]
    page: int
    pages: int
    asked_at: dt.datetime | None


def producer_row(partition: TopicPartition, state: ProducerState) -> ProducerRow:
    """Return one row; -1 of the broker is None."""
    last, start = state.last_timestamp, state.current_transaction_start_offset
    return ProducerRow(
        partition.partition,
        state.producer_id,
        state.producer_epoch,
        None if state.last_sequence < 0 else state.last_sequence,
        None if last < 0 else dt.datetime.fromtimestamp(min(last, 2**44) / 1000, dt.UTC),
        None if start < 0 else start,
    )


@router.get("/topics/{name}/producers")
async def topic_producers(request: Request, _caller: Reader, name: str, page: int = 1) -> Response:
    """Return the active producers of a page of partitions, from their leaders."""
    cluster = services_of(request).cluster
    topic = known_topic(cluster, name)
    shown, page, pages = page_items([index for index, _ in topic.sorted_partitions()], page, PARTITIONS_ON_PAGE)
    answers = await cluster.transactions.producers([TopicPartition(name, index) for index in shown])
    rows = [producer_row(key, state) for key, each in answers.items() for state in each.value or ()]
    errors = [
        phrase("Partition %(index)s: %(error)s", index=key.partition, error=str(each.error))
        for key, each in answers.items()
        if each.error is not None
    ]
    unknown = sum(each.error is None and each.value is None for each in answers.values())
    notes = [*errors, *([phrase("%(what)s not answered yet.", what=counted(unknown, "partition"))] if unknown else [])]
    asked_at = min((each.asked_at for each in answers.values() if each.asked_at is not None), default=None)
    view = ProducersView(name, rows, notes, page, pages, asked_at)
    return render(request, "topic_producers.html", page=page_of(request, name, "/topics"), view=view)
