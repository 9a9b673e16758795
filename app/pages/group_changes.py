"""Changes of groups: offsets reset or deleted, static members removed, groups deleted, each with a preview.

What the preview of a reset shows is what is committed: the confirmation carries the offsets, not the way to find them.
"""

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final
from urllib.parse import quote, unquote

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response
from pydantic import AfterValidator

from app.cluster.group_changes import Failures
from app.cluster.groups import check_group_id
from app.http.errors import FORM_REFUSED
from app.http.paths import segment_of
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import counted, known, number, page_of, render
from app.pages.group_links import group_path
from app.services import GroupEditor, services_of
from app.texts import joined, phrase, phrases, sentence_of, sentences
from kraft_core.clients.admin.offset_reset import OffsetReset, Scenario, ShiftBy, ToOffsets, ToSpec
from kraft_core.clients.admin.offsets import OffsetSpec
from kraft_core.clients.admin.reset_request import (
    Named,
    datetime_ms,
    duration_ms,
    is_index,
    is_number,
    named_partitions,
)
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import KafkaError

router = APIRouter(include_in_schema=False)

SHOWN_MAX: Final = 500
TOOLS: Final = {"Share": "kafka-share-groups.sh", "Streams": "kafka-streams-groups.sh"}


GroupField = Annotated[str, Form(), AfterValidator(unquote)]
"""A group's id in a form, percent-encoded: browsers change line breaks in fields."""
GroupQuery = Annotated[str, AfterValidator(unquote)]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to say where offsets are moved: the option of Kafka's tool, its text, and what its value is."""

    key: str
    text: str
    value: str = ""


WAYS: Final = (
    Way("to-earliest", phrase("to the earliest record")),
    Way("to-latest", phrase("to the end, so that only new records are read")),
    Way("to-datetime", phrase("to a time"), phrase("UTC unless it has a zone, as 2026-01-31T12:00:00")),
    Way("by-duration", phrase("to a time before now"), phrase("ISO 8601, as PT30M or P1DT12H")),
    Way("to-offset", phrase("to an offset"), phrase("a whole number from 0")),
    Way("shift-by", phrase("by a number of records"), phrase("as 10 or -10")),
)
WAYS_HINT: Final = joined(
    "; ", [phrase("%(way)s: %(value)s", way=each.text, value=each.value) for each in WAYS if each.value]
)
"""What the value of each way is."""
NEW_OFFSETS: Final = phrase("Members that start again read from the new offsets: records are read twice, or never.")
LATER_MEMBERS: Final = phrase("Members that join later begin where `auto.offset.reset` says.")


@dataclass(frozen=True, slots=True)
class ResetForm:
    """Model of group_reset.html: the fields as typed, and what is wrong with them."""

    group_id: str
    url: str
    way: str = "to-earliest"
    value: str = ""
    topics: str = ""
    error: str = ""
    ways: Sequence[Way] = WAYS
    hint: str = WAYS_HINT


def read_scenario(way: str, value: str, now_ms: int) -> Scenario:
    """Return where the offsets are moved. Raises ValueError that names the text and what is allowed."""
    text = value.strip()
    match way:
        case "to-earliest":
            return ToSpec(OffsetSpec.EARLIEST)
        case "to-latest":
            return ToSpec(OffsetSpec.LATEST)
        case "to-datetime":
            return ToSpec(max(0, datetime_ms(text)))
        case "by-duration":
            return ToSpec(max(0, now_ms - duration_ms(text)))
        case "to-offset" if is_number(text):
            return ToOffsets(int(text))
        case "shift-by" if is_number(text.removeprefix("-").removeprefix("+")):
            return ShiftBy(int(text))
        case "to-offset" | "shift-by":
            raise ValueError(phrase("'%(text)s' is not a whole number", text=text[:80]))
        case _:
            keys = ", ".join(each.key for each in WAYS)
            raise ValueError(phrase("'%(text)s' is not one of %(allowed)s", text=way[:40], allowed=keys))


def read_topics(text: str) -> Named | None:
    """Return the partitions of lines such as TOPIC and TOPIC:0,2, None for none. Raises ValueError."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return named_partitions(lines) if lines else None


def plan_text(plan: Sequence[OffsetReset]) -> str:
    """Return the new offsets as lines of topic, partition and offset, as Kafka's tool exports them."""
    return "\n".join(f"{each.partition.topic},{each.partition.partition},{each.new_offset}" for each in plan)


def read_plan(text: str) -> dict[TopicPartition, int]:
    """Return the new offsets of `plan_text`. Raises ValueError."""
    found: dict[TopicPartition, int] = {}
    for line in text.splitlines():
        topic, _, rest = line.partition(",")
        index, _, offset = rest.partition(",")
        if not topic or not is_index(index) or not is_number(offset):
            raise ValueError(phrase("'%(text)s' is not topic,partition,offset", text=line[:80]))
        found[TopicPartition(topic, int(index))] = int(offset)
    if not found:
        raise ValueError(phrase("the plan is empty: preview it again"))
    return found


def reset_rows(plan: Sequence[OffsetReset], ends: Mapping[TopicPartition, int]) -> list[tuple[str, str, str]]:
    """Return (partition, offset and lag before, after) of the first partitions of a plan."""

    def text(partition: TopicPartition, offset: int | None) -> str:
        if offset is None:
            return phrase("none")
        end = ends.get(partition)
        if end is None:
            return known(offset)
        return phrase("%(offset)s (lag %(lag)s)", offset=known(offset), lag=known(end - offset))

    def new_text(each: OffsetReset) -> str:
        offset = text(each.partition, each.new_offset)
        return phrase("%(offset)s: %(note)s", offset=offset, note=each.note) if each.note else offset

    return [
        (f"{each.partition.topic}-{each.partition.partition}", text(each.partition, each.committed), new_text(each))
        for each in plan[:SHOWN_MAX]
    ]


@router.get("/group-reset")
async def reset_form(request: Request, _caller: GroupEditor, group: GroupQuery = "") -> Response:
    """Return the form."""
    check_group_id(group)
    return _form(request, ResetForm(group, group_path(group)))


def _form(request: Request, form: ResetForm, status: int = 200) -> Response:
    title = phrase("Reset offsets of %(group)s", group=form.group_id[:249])
    return render(request, "group_reset.html", status, page=page_of(request, title, "/groups"), form=form)


@router.post("/group-reset")
async def reset(
    request: Request,
    caller: GroupEditor,
    group: GroupField = "",
    way: Annotated[str, Form()] = "",
    value: Annotated[str, Form()] = "",
    topics: Annotated[str, Form()] = "",
    plan: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview the new offsets; with confirmed=yes commit those of the preview."""
    check_group_id(group)
    services = services_of(request)
    admin, actions = services.cluster.admin.groups, services.actions.groups
    try:
        if confirmed:
            offsets = read_plan(plan)
            scenario: Scenario = ToOffsets(offsets)
            named: Named | None = by_topic(offsets)
        else:
            scenario, named = read_scenario(way, value, int(time.time() * 1000)), read_topics(topics)
    except ValueError as wrong:
        error = phrase("%(error)s.", error=sentence_of(wrong))
        typed = ResetForm(group, group_path(group), way, value, topics, error)
        return _form(request, typed, FORM_REFUSED)

    async def dry_run() -> ConfirmView:
        planned = await admin.plan_reset(group, named, scenario)
        found = await services.cluster.groups.lag(group)
        ends = {each.partition: each.log_end_offset for each in found.partitions if each.log_end_offset is not None}
        left = len(planned) - SHOWN_MAX
        return replace(
            view,
            button=phrases(
                "Set offsets of %(count)s partition",
                "Set offsets of %(count)s partitions",
                len(planned),
                count=number(len(planned)),
            ),
            changes=reset_rows(planned, ends),
            consequences=[
                NEW_OFFSETS,
                *([phrase("%(count)s more partitions are set and not shown.", count=number(left))] if left > 0 else []),
            ],
            verdict=phrase("The group has no members. Nothing has changed yet."),
            fields=[("group", quote(group)), ("plan", plan_text(planned))],
        )

    async def apply() -> Flash:
        planned = await admin.plan_reset(group, named, scenario)
        return done(await actions.reset(caller, group, planned), len(planned))

    body = _body(way, value, named)
    view = ConfirmView(
        title=phrase("Reset offsets of %(group)s", group=group[:249]),
        active="/groups",
        back=group[:249],
        back_url=group_path(group),
        action="/group-reset",
        button=phrase("Set offsets"),
        changes=[],
        curl=cluster_curl(request, "POST", f"consumer-groups/{segment_of(group)}/offsets:reset", body),
        command=_command(tool_of(request, group), way, value, topics),
        fields=[("group", quote(group))],
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply, dry_run=dry_run)


def by_topic(offsets: Mapping[TopicPartition, int]) -> Named:
    """Return the partitions of a plan by topic."""
    found: dict[str, set[int] | None] = {}
    for topic, index in offsets:
        indexes = found.setdefault(topic, set())
        assert indexes is not None, "a plan names partitions"
        indexes.add(index)
    return found


def _body(way: str, value: str, named: Named | None) -> dict[str, object]:
    text = value.strip()
    ways: dict[str, dict[str, object]] = {
        "to-datetime": {"to_datetime": text},
        "by-duration": {"by_duration": text},
        "to-offset": {"to_offset": int(text) if is_number(text) else text},
        "shift-by": {"shift_by": int(text) if is_number(text.lstrip("+-")) else text},
    }
    wanted = ways.get(way, {"to": way.removeprefix("to-").upper()})
    if named is None:
        return wanted
    topics = [
        {"topic_name": topic} if indexes is None else {"topic_name": topic, "partition_ids": sorted(indexes)}
        for topic, indexes in list(named.items())[:SHOWN_MAX]
    ]
    return {**wanted, "topics": topics}


def tool_of(request: Request, group: str) -> str:
    """Return the beginning of the command of Kafka's tool for this type of group."""
    name = TOOLS.get(services_of(request).cluster.groups.type_of(group), "kafka-consumer-groups.sh")
    return f"{name} --bootstrap-server BROKER:PORT --group {shlex.quote(group)}"


def _command(tool: str, way: str, value: str, topics: str) -> str:
    lines = [line.strip() for line in topics.splitlines() if line.strip()]
    which = " ".join(f"--topic {shlex.quote(line)}" for line in lines) or "--all-topics"
    option = f"--{way} {shlex.quote(value.strip())}" if value.strip() else f"--{way}"
    return f"{tool} --reset-offsets {which} {option} --execute"


def offsets_set(done: int, partitions: int) -> str:
    """Return for how many of the partitions the offset was set."""
    return phrases(
        "Offset set for %(done)s of %(count)s partition.",
        "Offset set for %(done)s of %(count)s partitions.",
        partitions,
        count=number(partitions),
        done=done,
    )


def done(failed: Failures, partitions: int, *, is_deletion: bool = False) -> Flash:
    """Return the result of a change of partitions, in one line."""
    refused = [
        phrase("%(partition)s: %(error)s", partition=f"{topic}-{index}", error=error.message)
        for (topic, index), error in failed.items()
    ]
    changed = partitions - len(refused)
    result = offsets_set(changed, partitions)
    if is_deletion:
        result = phrases(
            "Deleted for %(done)s of %(count)s partition.",
            "Deleted for %(done)s of %(count)s partitions.",
            partitions,
            count=number(partitions),
            done=changed,
        )
    return Flash("bad" if refused else "good", sentences([result, *refused[:5]]))


@router.post("/group-delete-offsets")
async def delete_offsets(
    request: Request,
    caller: GroupEditor,
    group: GroupField = "",
    topic: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview which committed offsets of a topic are deleted; with confirmed=yes delete them."""
    check_group_id(group)
    services = services_of(request)
    admin = services.cluster.admin.groups

    async def dry_run() -> ConfirmView:
        committed = await admin.committed(group, topic)
        rows = [(f"{name}-{index}", known(offset), phrase("none")) for (name, index), offset in committed.items()]
        button = phrases("Delete %(count)s offset", "Delete %(count)s offsets", len(rows), count=number(len(rows)))
        return replace(view, changes=rows[:SHOWN_MAX], button=button)

    async def apply() -> Flash:
        committed = await admin.committed(group, topic)
        failed = await services.actions.groups.delete_offsets(caller, group, committed)
        return done(failed, len(committed), is_deletion=True)

    view = ConfirmView(
        title=phrase("Delete offsets of %(topic)s", topic=topic[:249]),
        active="/groups",
        back=group[:249],
        back_url=group_path(group),
        action="/group-delete-offsets",
        button=phrase("Delete offsets"),
        changes=[],
        consequences=[
            phrase("Members that subscribe to the topic later begin where `auto.offset.reset` says."),
            phrase("Refused while a member subscribes to the topic."),
        ],
        curl="",
        command=f"{tool_of(request, group)} --delete-offsets --topic {shlex.quote(topic)}",
        fields=[("group", quote(group)), ("topic", topic)],
        dangerous=True,
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply, dry_run=dry_run)


@router.post("/group-remove-member")
async def remove_member(
    request: Request,
    caller: GroupEditor,
    group: GroupField = "",
    instance: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Preview which static member is removed; with confirmed=yes remove it."""
    check_group_id(group)
    services = services_of(request)

    async def dry_run() -> ConfirmView:
        member = await services.cluster.admin.groups.static_member(group, instance)
        held = counted(len(member.assignment), "partition")
        where = {"instance": instance, "client": member.client_id, "host": member.host}
        who = phrase("%(instance)s (%(client)s at %(host)s)", **where)
        return replace(view, changes=[(who, held, phrase("removed"))])

    async def apply() -> Flash:
        await services.actions.groups.remove_member(caller, group, instance)
        return Flash("good", phrase("Member %(instance)s was removed.", instance=instance))

    view = ConfirmView(
        title=phrase("Remove member %(instance)s", instance=instance[:249]),
        active="/groups",
        back=group[:249],
        back_url=group_path(group),
        action="/group-remove-member",
        button=phrase("Remove member"),
        changes=[],
        consequences=[
            phrase("The other members take its partitions. A consumer that still runs joins again, or is fenced.")
        ],
        curl="",
        fields=[("group", quote(group)), ("instance", instance)],
        dangerous=True,
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply, dry_run=dry_run)


@router.get("/group-delete")
async def delete_form(request: Request, caller: GroupEditor, group: GroupQuery = "") -> Response:
    """Return the preview of the deletion."""
    return await _delete(request, caller, group, "", confirmed=False)


@router.post("/group-delete")
async def delete(
    request: Request,
    caller: GroupEditor,
    group: GroupField = "",
    typed: Annotated[str, Form()] = "",
) -> Response:
    """Delete the group if its id was typed."""
    return await _delete(request, caller, group, typed, confirmed=True)


async def _delete(request: Request, caller: GroupEditor, group: str, typed: str, *, confirmed: bool) -> Response:
    check_group_id(group)
    services = services_of(request)

    async def dry_run() -> ConfirmView:
        try:
            await services.cluster.admin.groups.check_empty(group)
        except KafkaError as refused:
            return replace(view, error=sentence_of(refused), type_name="")
        found = await services.cluster.groups.lag(group)
        committed = sum(each.committed is not None for each in found.partitions)
        offsets = phrase("%(offset)s (lag %(lag)s)", offset=committed, lag=known(found.total))
        return replace(
            view,
            changes=[
                (phrase("Group"), group, phrase("deleted")),
                (phrase("Committed offsets"), offsets, phrase("none")),
            ],
        )

    async def apply() -> Flash:
        await services.actions.groups.delete(caller, group)
        return Flash("good", phrase("Group %(id)s was deleted.", id=group[:249]))

    is_typable = bool(group.strip()) and group.strip() == group and group.isprintable() and len(group) <= 249
    view = ConfirmView(
        title=phrase("Delete group %(id)s", id=group[:249]),
        active="/groups",
        back=group[:249],
        back_url=group_path(group),
        action="/group-delete",
        button=phrase("Delete group"),
        done_url="/groups",
        changes=[(phrase("Group"), group, phrase("deleted"))],
        consequences=[LATER_MEMBERS],
        curl=cluster_curl(request, "DELETE", f"consumer-groups/{segment_of(group)}"),
        command=f"{tool_of(request, group)} --delete",
        fields=[("group", quote(group))],
        type_name=group if is_typable else "",
        dangerous=True,
    )
    return await preview_or_apply(request, view, confirmed=confirmed, apply=apply, dry_run=dry_run, typed=typed)
