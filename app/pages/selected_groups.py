"""Changes of selected groups: their offsets reset, or the groups deleted."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import quote, unquote

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.actions.each import ITEMS_MAX
from app.cluster.groups import UNLISTED, check_group_id
from app.http.errors import UnprocessableError
from app.pages.confirm import ConfirmView
from app.pages.frame import number
from app.pages.group_changes import (
    LATER_MEMBERS,
    NEW_OFFSETS,
    WAYS,
    WAYS_HINT,
    by_topic,
    offsets_set,
    plan_text,
    read_plan,
    read_scenario,
    tool_of,
)
from app.pages.group_links import group_path
from app.pages.groups import GroupFilter
from app.pages.selection import (
    Field,
    InputView,
    Line,
    Refused,
    SelectionChange,
    Ticked,
    TickedDep,
    each,
    input_page,
    preview_or_apply_each,
    selection_view,
)
from app.services import GroupEditor, Services, services_of
from app.texts import phrase, phrases, sentence_of
from kraft_core.clients.admin.offset_reset import ToOffsets
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(include_in_schema=False, prefix="/selected-groups")

PARTITIONS_MAX: Final = 5_000
"""The most partitions that one confirmation resets."""
COMMAND_MAX: Final = 100


async def _chosen(services: Services, given: Ticked) -> list[str]:
    """Return the items of the selected groups: their ids, percent-encoded. Raises UnprocessableError."""
    matching: Sequence[str] = ()
    if given.is_all:
        wanted = GroupFilter.of(given.query)
        found = [group for group in (await services.cluster.groups.list()).groups if wanted.matches(group)]
        matching = [quote(group.group_id, safe="") for group in found[: ITEMS_MAX + 1]]
    return given.chosen("group", matching)


def _id_of(item: str) -> str:
    """Return the group's id of an item: before the `=` of a plan."""
    return unquote(item.partition("=")[0])


def _view(given: Ticked, action: str, title: str, button: str) -> ConfirmView:
    return selection_view(given, "/groups", phrase("Groups"), f"/selected-groups/{action}", title, button)


@router.post("/delete")
async def delete(request: Request, caller: GroupEditor, given: TickedDep) -> Response:
    """Preview which groups are deleted; with confirmed=yes and their number typed delete them."""
    services = services_of(request)
    items = await _chosen(services, given)
    admin, groups = services.cluster.admin.groups, services.cluster.groups

    async def preview(asked: Sequence[str]) -> list[Line | Refused]:
        found = await admin.check_all_empty([_id_of(item) for item in asked])
        empty = {group_id: UNLISTED for group_id, error in found.items() if error is None}
        lags = await groups.lags(empty)
        made: list[Line | Refused] = []
        for item in asked:
            error = found[_id_of(item)]
            if error is not None:
                made.append(Refused(phrase("%(error)s (%(code)s)", error=error.message, code=error.code.name)))
                continue
            committed = sum(part.committed is not None for part in lags[_id_of(item)].partitions)
            offsets = phrases(
                "%(count)s committed offset", "%(count)s committed offsets", committed, count=number(committed)
            )
            made.append(Line((_id_of(item), offsets, phrase("deleted")), item))
        return made

    async def apply(item: str) -> str:
        await services.actions.groups.delete(caller, _id_of(item))
        return phrase("Deleted.")

    view = replace(
        _view(given, "delete", phrase("Delete groups"), phrase("Delete")),
        consequences=[LATER_MEMBERS],
        command=_command(request, [_id_of(item) for item in items]),
        dangerous=True,
    )
    change = SelectionChange(noun="group", name=_id_of, url=lambda _: "", preview=preview, apply=apply)
    return await preview_or_apply_each(request, view, given, items, change)


def _command(request: Request, group_ids: Sequence[str]) -> str:
    if len(group_ids) > COMMAND_MAX:
        return ""
    return "\n".join(f"{tool_of(request, group_id)} --delete" for group_id in group_ids)


@router.post("/reset")
async def reset(request: Request, caller: GroupEditor, given: TickedDep) -> Response:
    """Ask where the offsets are moved, preview it for each group, and with confirmed=yes commit what was previewed."""
    services = services_of(request)
    items = await _chosen(services, given)
    admin, actions = services.cluster.admin.groups, services.actions.groups
    way, value = given.fields.get("way"), given.fields.get("value", "")
    if not given.is_confirmed:
        try:
            if way is None:
                raise ValueError
            scenario = read_scenario(way, value, int(time.time() * 1000))
        except ValueError as wrong:
            return input_page(request, _input(given, items, way or WAYS[0].key, value, sentence_of(wrong)), "/groups")

    async def preview_one(item: str) -> Line:
        group_id = _id_of(item)
        check_group_id(group_id)
        plan = await admin.plan_reset(group_id, None, scenario)
        before, after = sum(part.committed or 0 for part in plan), sum(part.new_offset for part in plan)
        what = phrases(
            "Sum of %(count)s offset of %(group)s",
            "Sum of %(count)s offsets of %(group)s",
            len(plan),
            count=number(len(plan)),
            group=group_id,
        )
        return Line(
            (what, number(before), number(after)), f"{quote(group_id, safe='')}={quote(plan_text(plan), safe='')}"
        )

    async def preview(asked: Sequence[str]) -> list[Line | Refused]:
        made = await each(asked, preview_one)
        partitions = sum(line.value.count("%0A") + 1 for line in made if isinstance(line, Line))
        if partitions > PARTITIONS_MAX:
            raise UnprocessableError(
                phrase(
                    "The selected groups have %(count)s partitions with offsets; at most %(most)s can be reset at "
                    "once. Select fewer groups. Nothing has changed.",
                    count=number(partitions),
                    most=number(PARTITIONS_MAX),
                )
            )
        return made

    async def apply(item: str) -> str:
        try:
            offsets = read_plan(unquote(item.partition("=")[2]))
        except ValueError as wrong:
            raise KafkaError(ErrorCode.INVALID_REQUEST, phrase("%(error)s.", error=sentence_of(wrong))) from None
        plan = await admin.plan_reset(_id_of(item), by_topic(offsets), ToOffsets(offsets))
        failed = await actions.reset(caller, _id_of(item), plan)
        done = offsets_set(len(plan) - len(failed), len(plan))
        if failed:
            partition, error = next(iter(failed.items()))
            where = f"{partition.topic}-{partition.partition}"
            raise KafkaError(
                error.code,
                phrase("%(done)s %(partition)s: %(error)s", done=done, partition=where, error=error.message),
            )
        return done

    view = replace(
        _view(given, "reset", phrase("Reset offsets"), phrase("Set offsets of")),
        consequences=[NEW_OFFSETS],
    )
    change = SelectionChange(
        noun="group", name=_id_of, url=lambda item: group_path(_id_of(item)), preview=preview, apply=apply
    )
    return await preview_or_apply_each(request, view, given, items, change)


def _input(given: Ticked, items: Sequence[str], way: str, value: str, error: str) -> InputView:
    return InputView(
        title=phrase("Reset offsets"),
        back=phrase("Groups"),
        back_url=given.back_url("/groups"),
        action="/selected-groups/reset",
        summary=phrases(
            "%(count)s group selected. All their committed offsets are moved.",
            "%(count)s groups selected. All their committed offsets are moved.",
            len(items),
        ),
        inputs=(
            Field("way", phrase("Move the committed offsets"), way, choices=[(each.key, each.text) for each in WAYS]),
            Field("value", phrase("Time, duration, offset or number of records"), value, WAYS_HINT),
        ),
        items=items,
        filter=given.filter,
        error=phrase("%(error)s.", error=error) if error else "",
    )
