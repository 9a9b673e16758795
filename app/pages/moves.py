"""Partitions on the move: what is under way, a plan held against the cluster before it begins, cancelling, elections."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.partitions import ElectionType, Outcome, Partition, needs_election
from app.pages.confirm import ConfirmView
from app.pages.flash import Flash
from app.pages.frame import counted, go_to, page_of, refusal, render
from app.pages.topic import curl, known_topic
from app.security.roles import Role
from app.services import Admin, Reader, TopicEditor, services_of
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.trie_items import items_of, values_of
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(include_in_schema=False)

ROWS_MAX: Final = 1_000
PLAN_BYTES_MAX: Final = 1_000_000
SHOWN_MAX: Final = 200
"""Partitions of a plan that the page lists one by one."""


class PlanError(ValueError):
    """A plan that cannot be read; the message says where and what is allowed."""


@dataclass(frozen=True, slots=True)
class MovingRow:
    """One reassignment under way."""

    topic: str
    index: int
    replicas: str
    adding: str
    removing: str
    caught_up: str


@dataclass(frozen=True, slots=True)
class ReassignmentsView:
    """What reassignments.html shows. `plan` and `error` are what a refused plan said."""

    rows: Sequence[MovingRow]
    total: int
    may_change: bool
    plan: str = ""
    error: str = ""


def _ids(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids)) or "none"


def moving_rows(image: MetadataImage) -> list[MovingRow]:
    """The reassignments under way, by topic and partition."""
    rows = [
        MovingRow(
            topic.name,
            index,
            _ids(each.replicas),
            _ids(each.adding_replicas),
            _ids(each.removing_replicas),
            f"{len(set(each.adding_replicas) & set(each.isr))} of {len(each.adding_replicas)}",
        )
        for topic in values_of(image.topics.by_id)
        for index, each in items_of(topic.partitions)
        if each.is_reassigning
    ]
    return sorted(rows, key=lambda row: (row.topic, row.index))


def read_plan(text: str) -> dict[Partition, Sequence[int]]:
    """Read a plan in the JSON of kafka-reassign-partitions, or in lines such as `orders 0 1,2,3`. Raises PlanError."""
    text = text.strip()
    if not text:
        raise PlanError("The plan is empty.")
    if len(text) > PLAN_BYTES_MAX:
        raise PlanError(f"The plan is longer than {PLAN_BYTES_MAX} characters.")
    return _read_json(text) if text.startswith("{") else _read_lines(text)


def _read_json(text: str) -> dict[Partition, Sequence[int]]:
    try:
        entries = json.loads(text)["partitions"]
        found = [(str(each["topic"]), each["partition"], tuple(each["replicas"])) for each in entries]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"[:200]
        raise PlanError(f"This is not the JSON of kafka-reassign-partitions ({reason}).") from None
    return _checked([(f"entry {number}", *each) for number, each in enumerate(found, 1)])


def _read_lines(text: str) -> dict[Partition, Sequence[int]]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(None, 2)
        if not words:
            continue
        try:
            topic, index, replicas = words
            found.append((f"line {number}", topic, int(index), tuple(int(each) for each in replicas.split(","))))
        except ValueError:
            raise PlanError(f"Line {number} is '{line.strip()[:80]}': it must be TOPIC PARTITION ID,ID,…") from None
    return _checked(found)


def _checked(found: Sequence[tuple[str, str, object, tuple[object, ...]]]) -> dict[Partition, Sequence[int]]:
    plan: dict[Partition, Sequence[int]] = {}
    for where, topic, index, replicas in found:
        numbers = [index, *replicas]
        if any(not isinstance(each, int) or isinstance(each, bool) or not 0 <= each < 2**31 for each in numbers):
            raise PlanError(f"In {where}, partition and broker ids must be whole numbers from 0 to {2**31 - 1}.")
        key = (topic, numbers[0])
        if key in plan:
            raise PlanError(f"In {where}, {topic}-{index} is named a second time.")
        plan[key] = numbers[1:]  # type: ignore[index, assignment]  # all of them are int, as just checked
    if not plan:
        raise PlanError("The plan names no partition.")
    return plan


def plan_rows(image: MetadataImage, plan: Mapping[Partition, Sequence[int]]) -> list[tuple[str, str, str]]:
    """(partition, its replicas now, its replicas afterwards), and how many are not shown."""
    rows = []
    for (name, index), replicas in list(plan.items())[:SHOWN_MAX]:
        topic = image.topics.topic(name)
        partition = None if topic is None else topic.partitions.get(index)
        rows.append(
            (f"{name}-{index}", "there is none" if partition is None else _ids(partition.replicas), _ids(replicas))
        )
    if len(plan) > SHOWN_MAX:
        rows.append(("and more", f"{len(plan) - SHOWN_MAX} partitions", ""))
    return rows


def copies(image: MetadataImage, plan: Mapping[Partition, Sequence[int]]) -> int:
    """How many replicas must be copied anew."""
    count = 0
    for (name, index), replicas in plan.items():
        topic = image.topics.topic(name)
        partition = None if topic is None else topic.partitions.get(index)
        count += len(set(replicas) - set(partition.replicas if partition is not None else ()))
    return count


def fenced_targets(image: MetadataImage, plan: Mapping[Partition, Sequence[int]]) -> list[int]:
    """Brokers that get a replica by the plan and are fenced."""
    found: set[int] = set()
    for (name, index), replicas in plan.items():
        topic = image.topics.topic(name)
        partition = None if topic is None else topic.partitions.get(index)
        found |= set(replicas) - set(partition.replicas if partition is not None else ())
    brokers = image.cluster.brokers
    return sorted(each for each in found if each in brokers and brokers[each].fenced)


def _to_mind(image: MetadataImage, plan: Mapping[Partition, Sequence[int]], refused: int) -> list[str]:
    """What somebody should know before the plan begins; `plan` without what is refused."""
    lines = [_copying(copies(image, plan))]
    fenced = fenced_targets(image, plan)
    if len(fenced) == 1:
        lines.append(f"Broker {fenced[0]} is fenced: what moves there is done only once it is back.")
    elif fenced:
        lines.append(f"Brokers {_ids(fenced)} are fenced: what moves there is done only once they are back.")
    if refused and plan:
        lines.append(f"{counted(refused, 'partition')} refused: nothing changes there, the rest of the plan begins.")
    return [*lines, "A reassignment can be cancelled as long as it runs."]


def _copying(count: int) -> str:
    if not count:
        return "No replica is copied."
    return f"{counted(count, 'replica')} {'is' if count == 1 else 'are'} copied anew, as fast as the brokers' throttles let them."


def _page(request: Request, *, may_change: bool, plan: str = "", error: str = "", status: int = 200) -> Response:
    rows = moving_rows(services_of(request).cluster.image)
    view = ReassignmentsView(rows[:ROWS_MAX], len(rows), may_change, plan, error)
    return render(request, "reassignments.html", status, page=page_of(request, "Reassignments", "/topics"), view=view)


def _done(done: Outcome, wanted: Sequence[Partition], what: str) -> Flash:
    """What became of a request about partitions, in one line."""
    refused = [f"{topic}-{index}: {error.message}" for (topic, index), error in done.failures.items()]
    told = f"{what} for {len(wanted) - len(refused)} of {counted(len(wanted), 'partition')}"
    told += "." if done.offset is None else f" at offset {done.offset}."
    return Flash("bad" if refused else "good", " ".join([told, *refused[:5]]))


@router.get("/reassignments")
async def reassignments(request: Request, caller: Reader) -> Response:
    """The page."""
    return _page(request, may_change=caller.principal.role >= Role.ADMIN)


@router.post("/reassignments")
async def reassign(
    request: Request, caller: Admin, plan: Annotated[str, Form()] = "", confirmed: Annotated[str, Form()] = ""
) -> Response:
    """Show what a plan does; with confirmed=yes begin it."""
    services = services_of(request)
    image = services.cluster.image
    try:
        wanted = read_plan(plan)
    except PlanError as wrong:
        return _page(request, may_change=True, plan=plan[:PLAN_BYTES_MAX], error=str(wrong), status=422)
    error, status = "", 200
    failures: dict[Partition, KafkaError] = {}
    try:
        done = await services.actions.partitions.alter_reassignments(caller, wanted, validate_only=not confirmed)
        failures = done.failures
    except (KafkaError, ConnectionError) as refused:
        error, status = refusal(refused)
    else:
        if confirmed:
            return go_to(request, "/reassignments", _done(done, list(wanted), "The move has begun"))
    data = [
        {"topic_name": name, "partition_id": index, "replica_ids": list(replicas)}
        for (name, index), replicas in list(wanted.items())[:SHOWN_MAX]
    ]
    view = ConfirmView(
        back="Reassignments",
        back_url="/reassignments",
        action="/reassignments",
        button=f"Move {counted(len(wanted) - len(failures), 'partition')}",
        changes=plan_rows(image, wanted),
        checks=[(False, f"{name}-{index}: {refusal(each)[0]}") for (name, index), each in failures.items()][:SHOWN_MAX],
        consequences=_to_mind(
            image, {key: ids for key, ids in wanted.items() if key not in failures}, refused=len(failures)
        ),
        curl=curl(request, services, "POST", "reassignments", {"data": data}),
        fields=[("plan", plan)],
        verdict="" if failures else "Every partition and broker is there. Nothing has changed yet.",
        error=error or ("Nothing of this plan can be done." if len(failures) == len(wanted) else ""),
    )
    return render(request, "confirm.html", status, page=page_of(request, "Move partitions", "/topics"), view=view)


@router.post("/reassignments/cancel")
async def cancel(
    request: Request,
    caller: Admin,
    topic: Annotated[str, Form()],
    index: Annotated[int, Form()],
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Show where a partition goes back to; with confirmed=yes send it there."""
    services = services_of(request)
    found = known_topic(services.cluster, topic).partitions.get(index)
    if found is None or not found.is_reassigning:
        return go_to(request, "/reassignments", Flash("bad", f"{topic}-{index} is not being moved (any more)."))
    error, status = "", 200
    if confirmed:
        try:
            done = await services.actions.partitions.alter_reassignments(caller, {(topic, index): None})
        except (KafkaError, ConnectionError) as refused:
            error, status = refusal(refused)
        else:
            return go_to(request, "/reassignments", _done(done, [(topic, index)], "The move was cancelled"))
    original = [each for each in found.replicas if each not in found.adding_replicas]
    view = ConfirmView(
        back="Reassignments",
        back_url="/reassignments",
        action="/reassignments/cancel",
        button="Cancel the move",
        changes=[(f"{topic}-{index}", _ids(found.replicas), _ids(original))],
        consequences=[f"The copies on broker {_ids(found.adding_replicas)} are thrown away."]
        if found.adding_replicas
        else [],
        curl=curl(
            request, services, "POST", "reassignments:cancel", {"data": [{"topic_name": topic, "partition_id": index}]}
        ),
        fields=[("topic", topic), ("index", str(index))],
        error=error,
    )
    return render(request, "confirm.html", status, page=page_of(request, "Cancel a move", "/topics"), view=view)


# elections


def _wanted(image: MetadataImage, name: str, election: ElectionType) -> list[tuple[int, int, Sequence[int]]]:
    """(partition, leader, replicas) of those that need an election."""
    topic = image.topics.topic(name)
    assert topic is not None, "the caller has looked"
    return [
        (index, each.leader, each.replicas)
        for index, each in topic.sorted_partitions()
        if needs_election(each, election)
    ]


@router.post("/topics/{name}/elect")
async def elect(
    request: Request,
    caller: TopicEditor,
    name: str,
    election_type: Annotated[str, Form()] = "PREFERRED",
    confirmed: Annotated[str, Form()] = "",
    typed: Annotated[str, Form()] = "",
) -> Response:
    """Show which partitions an election is for; with confirmed=yes hold it. An unclean one wants the name typed."""
    services = services_of(request)
    known_topic(services.cluster, name)
    if election_type not in ElectionType.__members__:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type[:40]}")
    election = ElectionType[election_type]
    wanted = _wanted(services.cluster.image, name, election)
    error, status = "", 200
    if not wanted:
        told = "is led by its preferred replica" if election is ElectionType.PREFERRED else "has a leader"
        return go_to(request, f"/topics/{name}", Flash("good", f"Every partition of {name} {told} already."))
    is_unclean = election is ElectionType.UNCLEAN
    if confirmed and is_unclean and typed.strip() != name:
        error, status = f"'{typed.strip()[:249]}' is not the topic's name. Nothing has changed.", 422
    elif confirmed:
        partitions = [(name, index) for index, _, _ in wanted]
        try:
            done = await services.actions.partitions.elect_leaders(caller, election, partitions)
        except (KafkaError, ConnectionError) as refused:
            error, status = refusal(refused)
        else:
            return go_to(request, f"/topics/{name}", _done(done, partitions, "A leader was elected"))
    view = ConfirmView(
        back=name,
        back_url=f"/topics/{name}",
        action=f"/topics/{name}/elect",
        button="Elect leaders",
        changes=[
            (
                f"Leader of {name}-{index}",
                "nobody" if leader < 0 else str(leader),
                f"any that lives of {_ids(replicas)}" if is_unclean else f"{replicas[0]}, if it is in sync",
            )
            for index, leader, replicas in wanted[:SHOWN_MAX]
        ],
        consequences=["Records that only the lost replicas have are gone for good."] if is_unclean else [],
        curl=curl(
            request, services, "POST", f"topics/{name}/partitions/-:elect-leader", {"election_type": election.name}
        ),
        fields=[("election_type", election.name)],
        type_name=name if is_unclean else "",
        dangerous=is_unclean,
        error=error,
    )
    return render(
        request, "confirm.html", status, page=page_of(request, f"Elect leaders of {name}", "/topics"), view=view
    )
