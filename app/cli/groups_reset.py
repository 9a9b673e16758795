"""`conclave groups reset`: the scenarios of kafka-consumer-groups --reset-offsets. Source: ConsumerGroupCommand."""

import csv
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import typer

from app.cli.client_options import AnyAdmin, ClientOptions, print_json, print_table, report_failures, with_admin
from kraft_core.clients.admin.kafka_admin_client import Admin
from kraft_core.clients.admin.offset_reset import (
    OffsetReset,
    Scenario,
    ShiftBy,
    ToCurrent,
    ToOffsets,
    ToSpec,
    apply_reset,
)
from kraft_core.clients.admin.offsets import OffsetSpec
from kraft_core.clients.admin.reset_request import (
    datetime_ms,
    duration_ms,
    is_number,
    named_partitions,
    prepare_reset,
)
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import KafkaError

T = TypeVar("T")
R = TypeVar("R")
_SCENARIOS: Final = (
    "--to-earliest, --to-latest, --to-current, --to-offset, --to-datetime, --by-duration, --shift-by, --from-file"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOptions:
    """The group, the partitions and the scenario as given."""

    group_id: str
    topics: Collection[str]
    all_topics: bool
    to_earliest: bool
    to_latest: bool
    to_current: bool
    to_offset: int | None
    to_datetime: str | None
    by_duration: str | None
    shift_by: int | None
    from_file: Path | None


def reset_group(options: ClientOptions, wanted: ResetOptions) -> int:
    """Move the committed offsets of a group, or show where they would be, and return the exit code.

    Raises typer.BadParameter for options that contradict each other, and KafkaError if the group has members, which
    are named, or an offset cannot be read.
    """
    scenario = _scenario(wanted, now_ms=int(time.time() * 1000))
    named = _named_partitions(wanted, scenario)

    async def work(admin: AnyAdmin) -> int:
        if not isinstance(admin, Admin):
            partitions = None if wanted.all_topics else named
            moved, refused = await admin.reset_offsets(
                wanted.group_id, _rest_scenario(wanted), partitions, validate_only=options.dry_run
            )
            _print_plan(options, wanted.group_id, moved, set(refused))
            return _report(refused)
        try:
            plan = await prepare_reset(admin, wanted.group_id, None if wanted.all_topics else named, scenario)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--shift-by") from None
        failed: dict[TopicPartition, KafkaError] = {}
        if plan.offsets and not options.dry_run:
            failed = await apply_reset(admin, wanted.group_id, plan.offsets, is_share=plan.is_share)
        _print_plan(options, wanted.group_id, plan.offsets, set(failed))
        return _report(failed)

    return with_admin(options, work)


def _report(failed: Mapping[TopicPartition, KafkaError]) -> int:
    return report_failures("partition", {f"{key.topic}-{key.partition}": error for key, error in failed.items()})


def _rest_scenario(wanted: ResetOptions) -> dict[str, object]:
    """Return the scenario as the member of a body. Raises typer.BadParameter."""
    if wanted.from_file is not None:
        raise typer.BadParameter(
            "the REST API moves all partitions in one way: give --bootstrap", param_hint="--from-file"
        )
    words = {"EARLIEST": wanted.to_earliest, "LATEST": wanted.to_latest, "CURRENT": wanted.to_current}
    given: dict[str, object | None] = {
        "to": next((word for word, is_given in words.items() if is_given), None),
        "to_offset": wanted.to_offset,
        "to_datetime": wanted.to_datetime,
        "by_duration": wanted.by_duration,
        "shift_by": wanted.shift_by,
    }
    return {name: value for name, value in given.items() if value is not None}


def _print_plan(
    options: ClientOptions, group_id: str, plan: Collection[OffsetReset], failed: Collection[TopicPartition]
) -> None:
    if options.as_json:
        print_json(
            {
                "groupId": group_id,
                "done": not options.dry_run,
                "partitions": [
                    {
                        "topic": each.partition.topic,
                        "partition": each.partition.partition,
                        "currentOffset": each.committed,
                        "newOffset": each.new_offset,
                        "note": each.note,
                        "isReset": not options.dry_run and each.partition not in failed,
                    }
                    for each in plan
                ],
            }
        )
        return
    print_table(
        ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET", "NOTE"),
        [(group_id, *each.partition, each.committed, each.new_offset, each.note) for each in plan],
    )
    if options.dry_run:
        print("Dry run: nothing was changed.")


def _scenario(wanted: ResetOptions, now_ms: int) -> Scenario:
    """Return the one scenario that is given. Raises typer.BadParameter."""
    given: list[Scenario] = []
    if wanted.to_earliest:
        given.append(ToSpec(OffsetSpec.EARLIEST))
    if wanted.to_latest:
        given.append(ToSpec(OffsetSpec.LATEST))
    if wanted.to_current:
        given.append(ToCurrent())
    if wanted.to_offset is not None:
        given.append(ToOffsets(wanted.to_offset))
    if wanted.to_datetime is not None:
        given.append(ToSpec(_read(datetime_ms, wanted.to_datetime, "--to-datetime")))
    if wanted.by_duration is not None:
        given.append(ToSpec(max(0, now_ms - _read(duration_ms, wanted.by_duration, "--by-duration"))))
    if wanted.shift_by is not None:
        given.append(ShiftBy(wanted.shift_by))
    if wanted.from_file is not None:
        given.append(ToOffsets(_read_file(wanted.from_file, wanted.group_id)))
    if len(given) != 1:
        raise typer.BadParameter(f"give exactly one of {_SCENARIOS}", param_hint="scenario")
    return given[0]


def _named_partitions(wanted: ResetOptions, scenario: Scenario) -> dict[str, set[int] | None]:
    """Return the partition indexes by topic, None for all of a topic. Raises typer.BadParameter."""
    found: dict[str, set[int] | None] = {}
    if isinstance(scenario, ToOffsets) and not isinstance(scenario.offset, int):
        if wanted.topics or wanted.all_topics:
            raise typer.BadParameter("the file names the partitions: leave it out", param_hint="--topic, --all-topics")
        for topic in {topic for topic, _ in scenario.offset}:
            found[topic] = {index for name, index in scenario.offset if name == topic}
        return found
    if bool(wanted.topics) == wanted.all_topics:
        raise typer.BadParameter("give either --topic or --all-topics", param_hint="partitions")
    return _read(named_partitions, wanted.topics, "--topic")


def _read(parse: Callable[[T], R], given: T, option: str) -> R:
    """Return a parsed option. Raises typer.BadParameter."""
    try:
        return parse(given)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _read_file(path: Path, group_id: str) -> dict[TopicPartition, int]:
    """Read CSV lines `topic,partition,offset`, or with the group in front; lines of other groups are skipped."""
    found: dict[TopicPartition, int] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}", param_hint="--from-file") from None
    for number, row in enumerate(csv.reader(lines), start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) == 4:
            group, *cells = cells
            if group != group_id:
                continue
        if len(cells) != 3 or not cells[0] or not all(is_number(cell) for cell in cells[1:]):
            text = f"{path}, line {number}: '{','.join(row)}' is not [group,]topic,partition,offset"
            raise typer.BadParameter(text, param_hint="--from-file")
        found[TopicPartition(cells[0], int(cells[1]))] = int(cells[2])
    if not found:
        raise typer.BadParameter(f"{path} has no line for group {group_id}", param_hint="--from-file")
    return found
