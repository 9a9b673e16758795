"""Groups of all types: the list, and one group with its members and its lag. Every figure has its age."""

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from app.cluster.groups import GroupLag, GroupList, ListedGroup, check_group_id
from app.http.errors import NotFoundError
from app.http.locations import htmx_push
from app.pages.frame import number, page_items, page_of, render, whole_number
from app.pages.group_links import group_path
from app.pages.lag_trend import TrendView, trend_view
from app.pages.shared_parts import shared
from app.services import Reader, services_of
from app.texts import phrase, phrases, sentence_of
from kraft_core.clients.admin.groups import GroupDescription, MemberDescription
from kraft_core.clients.admin.streams_topology import Task
from kraft_core.image.metadata_image import MetadataImage

router = APIRouter(include_in_schema=False)

ROWS: Final = 50
PARTITIONS_ON_PAGE: Final = 100
MEMBERS_SHOWN: Final = 200
ASSIGNED_SHOWN: Final = 20
TYPES: Final = ("Classic", "Consumer", "Share", "Streams")
FEATURES: Final = {"Share": "share.version", "Streams": "streams.version"}
"""The feature that a broker supports if it serves groups of a type."""
STATES: Final = (
    phrase("Stable"),
    phrase("Empty"),
    phrase("PreparingRebalance"),
    phrase("CompletingRebalance"),
    phrase("Assigning"),
    phrase("Reconciling"),
    phrase("NotReady"),
    phrase("Dead"),
)
TYPE_TEXTS: Final = (phrase("classic"), phrase("consumer"), phrase("share"), phrase("streams"))
NO_LAG: Final = GroupLag.unknown()


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group in the list; None is not known. `why` says why not."""

    group_id: str
    url: str
    type: str
    state: str
    tone: str
    members: int | None
    lag: int | None
    trend: TrendView
    coordinator: int
    why: str


@dataclass(frozen=True, slots=True)
class GroupsView:
    """Model of groups.html: one page of the list, with the search and filters of its address."""

    search: str
    type: str
    state: str
    rows: Sequence[GroupRow]
    matching: int
    groups: int
    page: int
    pages: int
    asked_at: dt.datetime | None
    notes: Sequence[str]
    types: Sequence[tuple[str, str]] = tuple(zip(TYPES, TYPE_TEXTS, strict=True))
    states: Sequence[str] = STATES

    @property
    def page_query(self) -> str:
        """The query for another page of the same list, to be completed with page=N."""
        given = {"q": self.search, "type": self.type, "state": self.state}
        query = urlencode({name: value for name, value in given.items() if value})
        return f"{query}&" if query else ""

    @property
    def query(self) -> str:
        """The query for this same page."""
        return f"{self.page_query}page={self.page}"


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    assigned: int
    assignment: str


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition of a group; None is not known or not committed, `why` says which."""

    topic: str
    index: int
    committed: int | None
    metadata: str
    end: int | None
    lag: int | None
    owner: str
    host: str
    why: str


@dataclass(frozen=True, slots=True)
class TopicLag:
    """The committed partitions of one topic and the sum of their lags."""

    topic: str
    partitions: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class TaskRow:
    """The tasks of one member of a streams group, in words."""

    member_id: str
    client_id: str
    active: str
    standby: str
    warmup: str


@dataclass(frozen=True, slots=True)
class SubtopologyRow:
    """One subtopology of a streams group, with the names of its topics."""

    id: str
    sources: Sequence[str]
    repartitions: Sequence[str]
    changelogs: Sequence[str]


@dataclass(frozen=True, slots=True)
class GroupView:
    """Model of group.html. `note` says what is missing and why."""

    group_id: str
    url: str
    type: str
    state: str
    tone: str
    protocol: str
    assignor: str
    coordinator: int
    epochs: str
    lag: int | None
    trend: TrendView
    members: Sequence[MemberRow]
    members_total: int
    topics: Sequence[TopicLag]
    partitions: Sequence[PartitionRow]
    page: int
    pages: int
    asked_at: dt.datetime | None
    note: str
    tasks: Sequence[TaskRow]
    subtopologies: Sequence[SubtopologyRow]

    @property
    def is_share(self) -> bool:
        """Whether it is a share group, whose offsets are start offsets."""
        return self.type == "share"


def state_tone(state: str) -> str:
    """Return the tone of a group's state: a rebalance is worth a look, a group without members is not."""
    return {"Stable": "good", "Empty": "", "Dead": ""}.get(state, "warn")


def state_text(state: str) -> str:
    """Return a group's state for people."""
    return next((each for each in STATES if each == state), state)


def type_text(group_type: str) -> str:
    """Return a group's type for people."""
    return next((each for each in TYPE_TEXTS if each == group_type.lower()), group_type.lower()) or phrase("unknown")


def group_row(listed: ListedGroup, found: GroupLag) -> GroupRow:
    """Return one row. The state is the coordinator's newest, else that of the list."""
    detail = found.detail.value
    state = listed.state if detail is None else detail.description.state
    error = found.detail.error
    if error is not None:
        why = sentence_of(error)
    else:
        why = "" if found.is_complete and detail else phrase("Not all brokers have answered yet.")
    return GroupRow(
        listed.group_id,
        group_path(listed.group_id),
        type_text(listed.type),
        state_text(state),
        state_tone(state),
        None if detail is None else len(detail.description.members),
        found.total,
        trend_view(found.trend),
        listed.coordinator,
        why,
    )


def unserved_note(image: MetadataImage, wanted_type: str) -> str:
    """Return why no broker can have groups of the wanted type, "" if one can."""
    feature = FEATURES.get(wanted_type)
    brokers = image.cluster.brokers.values()
    if feature is None or any(feature in each.supported_features for each in brokers):
        return ""
    return phrase(
        "No broker serves groups of the type %(type)s: none supports %(feature)s. Apache Kafka's brokers do.",
        type=wanted_type,
        feature=feature,
    )


def list_notes(listed: GroupList) -> list[str]:
    """Return why groups may be missing, a line for each broker."""
    notes: list[str] = [
        phrase("No list from broker %(id)s: %(error)s", id=broker_id, error=sentence_of(error))
        for broker_id, error in sorted(listed.errors.items())
    ]
    if listed.pending:
        ids = ", ".join(map(str, listed.pending))
        notes.append(phrase("Not answered yet: broker %(ids)s. Their groups appear as soon as they do.", ids=ids))
    if listed.missing is not None:
        notes.append(phrase("Groups may be missing: %(why)s", why=listed.missing.text))
    return notes


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """The search and filters of an address; parameters that are not valid are ignored."""

    search: str
    type: str
    state: str

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "GroupFilter":
        """Return the filter of a query."""
        wanted_type = next((each for each in TYPES if each == query.get("type")), "")
        wanted_state = next((each for each in STATES if each == query.get("state")), "")
        return cls(query.get("q", "")[:2_000], wanted_type, wanted_state)

    def matches(self, group: ListedGroup) -> bool:
        """Whether the group is listed."""
        is_found = self.search.lower() in group.group_id.lower()
        return is_found and self.type in {"", group.type} and self.state in {"", group.state}


def row_notes(rows: Sequence[GroupRow]) -> list[str]:
    """Return why members are not known, a line for each reason."""
    reasons = Counter(row.why for row in rows if row.members is None and row.why)
    return [
        phrases(
            "%(count)s group without members and lag: %(why)s",
            "%(count)s groups without members and lag: %(why)s",
            count,
            count=number(count),
            why=why,
        )
        for why, count in reasons.items()
    ]


async def groups_view(request: Request, query: Mapping[str, str]) -> GroupsView:
    """Return the page of an address."""
    cluster = services_of(request).cluster
    groups, wanted = cluster.groups, GroupFilter.of(query)
    unserved = unserved_note(cluster.image, wanted.type)
    listed = await groups.list()
    matching = [each for each in listed.groups if wanted.matches(each)]
    shown, page, pages = page_items(matching, whole_number(query.get("page", "1"), 1, 10**9) or 1, ROWS)
    lags = await groups.lags({each.group_id: each.coordinator for each in shown})
    rows = [group_row(each, lags.get(each.group_id, NO_LAG)) for each in shown]
    return GroupsView(
        wanted.search,
        wanted.type,
        wanted.state,
        rows,
        len(matching),
        len(listed.groups),
        page,
        pages,
        listed.asked_at,
        [*list_notes(listed), *([unserved] if unserved else []), *row_notes(rows)],
    )


@router.get("/groups")
async def groups(request: Request, _caller: Reader) -> Response:
    """Return the list."""
    view = await groups_view(request, request.query_params)
    return render(request, "groups.html", page=page_of(request, phrase("Groups"), "/groups"), view=view)


@router.get("/fragments/groups")
@shared
async def groups_fragment(request: Request, _caller: Reader) -> Response:
    """Return the list without its frame. A search changes the address too, so that it can be shared."""
    view = await groups_view(request, request.query_params)
    response = render(request, "_groups.html", view=view)
    response.headers.update(htmx_push(f"/groups?{view.query}"))
    return response


# one group


def first_names(names: Sequence[str]) -> str:
    """Return the first of these names, and how many follow."""
    shown, more = ", ".join(names[:ASSIGNED_SHOWN]), len(names) - ASSIGNED_SHOWN
    return phrase("%(names)s and %(count)s more", names=shown, count=number(more)) if more > 0 else shown


def member_row(member: MemberDescription) -> MemberRow:
    """Return one member with the first of its partitions."""
    assigned = sorted(member.assignment)
    return MemberRow(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.host,
        member.member_epoch,
        len(assigned),
        first_names([f"{topic}-{index}" for topic, index in assigned]),
    )


def partition_rows(found: GroupLag) -> list[PartitionRow]:
    """Return the partitions of a group, by topic and index."""
    return [
        PartitionRow(
            *each.partition,
            None if each.committed is None else each.committed.offset,
            "" if each.committed is None else each.committed.metadata[:200],
            each.log_end_offset,
            each.lag,
            "" if each.member is None else each.member.client_id,
            "" if each.member is None else each.member.host,
            "" if each.error is None else sentence_of(each.error),
        )
        for each in found.partitions
    ]


def topic_lags(rows: Sequence[PartitionRow]) -> list[TopicLag]:
    """Return the topics that the group has committed offsets of."""
    found: dict[str, list[PartitionRow]] = {}
    for row in rows:
        if row.committed is not None:
            found.setdefault(row.topic, []).append(row)
    return [
        TopicLag(topic, len(each), None if any(row.lag is None for row in each) else sum(row.lag or 0 for row in each))
        for topic, each in found.items()
    ]


def tasks_text(tasks: Sequence[Task]) -> str:
    """Return tasks as Kafka Streams names them: SUBTOPOLOGY_PARTITION."""
    return first_names([f"{subtopology}_{index}" for subtopology, index in sorted(tasks)])


def task_rows(members: Sequence[MemberDescription]) -> list[TaskRow]:
    """Return the tasks of the first members of a streams group; none for other groups."""
    return [
        TaskRow(
            each.member_id,
            each.client_id,
            tasks_text(each.tasks.active),
            tasks_text(each.tasks.standby),
            tasks_text(each.tasks.warmup),
        )
        for each in sorted(members, key=lambda each: each.member_id)[:MEMBERS_SHOWN]
        if each.tasks is not None
    ]


def subtopology_rows(described: GroupDescription | None) -> list[SubtopologyRow]:
    """Return the topology of a streams group; empty for other groups."""
    topology = None if described is None else described.topology
    return [
        SubtopologyRow(each.id, each.source_topics, each.repartition_source_topics, each.changelog_topics)
        for each in (() if topology is None else topology.subtopologies)
    ]


def group_view(listed: ListedGroup | None, group_id: str, found: GroupLag, page: int) -> GroupView:
    """Return one group with a page of its partitions."""
    detail, error = found.detail.value, found.detail.error
    described = None if detail is None else detail.description
    rows = partition_rows(found)
    shown, page, pages = page_items(rows, page, PARTITIONS_ON_PAGE)
    state = described.state if described else listed.state if listed else ""
    members = () if described is None else described.members
    note = ""
    if error is not None:
        note = phrase("The coordinator does not answer: %(error)s", error=sentence_of(error))
    elif described is None:
        note = phrase("The coordinator has not answered yet.")
    return GroupView(
        group_id=group_id,
        url=group_path(group_id),
        type=type_text(described.type if described else listed.type if listed else ""),
        state=state_text(state) or phrase("unknown"),
        tone=state_tone(state),
        protocol=described.protocol if described else listed.protocol if listed else "",
        assignor=described.partition_assignor if described else "",
        coordinator=described.coordinator.id if described else listed.coordinator if listed else -1,
        epochs=""
        if described is None or described.epoch is None
        else phrase(
            "%(epoch)s, assignment %(assignment)s", epoch=described.epoch, assignment=described.assignment_epoch
        ),
        lag=found.total,
        trend=trend_view(found.trend),
        members=[member_row(each) for each in sorted(members, key=lambda each: each.member_id)[:MEMBERS_SHOWN]],
        members_total=len(members),
        topics=topic_lags(rows),
        partitions=shown,
        page=page,
        pages=pages,
        asked_at=found.asked_at,
        note=note,
        tasks=task_rows(members),
        subtopologies=subtopology_rows(described),
    )


async def group_page(request: Request, group_id: str, page: int) -> Response:
    """Return the page of one group. Raises NotFoundError if no broker knows it."""
    check_group_id(group_id)
    groups = services_of(request).cluster.groups
    lists = await groups.list()
    listed = next((each for each in lists.groups if each.group_id == group_id), None)
    found = await groups.lag(group_id)
    if found.is_missing:
        raise NotFoundError(phrase("There is no group '%(id)s'.", id=group_id[:249]))
    view = group_view(listed, group_id, found, page)
    title = phrase("Group %(id)s", id=group_id[:249])
    return render(request, "group.html", page=page_of(request, title, "/groups"), view=view)


@router.get("/groups/")
@shared
async def group_by_query(
    request: Request, _caller: Reader, group_id: Annotated[str, Query(alias="id")] = "", page: int = 1
) -> Response:
    """Return the page of a group whose id does not fit into a path."""
    return await group_page(request, group_id, page)


@router.get("/groups/{name}")
@shared
async def group(request: Request, _caller: Reader, name: str, page: int = 1) -> Response:
    """Return the page of a group."""
    return await group_page(request, name, page)
