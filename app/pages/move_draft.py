"""The plan that a choice of the wizard asks for: its rows, its numbers, and what is stored with it."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from app.pages.frame import counted, ids_text, whole_number
from app.pages.move_choice import Choice, Problems, drained_of, planner_options
from app.pages.plan_limits import Limits
from app.pages.plans import bytes_text, log_dirs_text
from app.reports.executor.copied import known_log_dirs
from app.reports.executor.directories import Answers
from app.reports.executor.drafts import rows_of_plan
from app.reports.executor.drains import check_drain, drained_rows, proposed_rows
from app.reports.executor.plan import Row
from app.reports.executor.plan_store import NewPlan
from app.reports.executor.plan_text import PlanError, read_plan
from app.reports.executor.proposing import Draft, reviewed
from app.reports.executor.report_plans import report_rows
from app.reports.proposals.options import Options
from app.services import Services
from app.texts import phrase, phrases, recognised
from kraft_core.image.metadata_image import MetadataImage

CALL_ROWS: Final = 200
"""Partitions that the shown REST call names; the whole of a longer list is in the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveDraft:
    """A plan before it is saved. `body`: of the REST call that makes the same plan."""

    rows: Sequence[Row]
    numbers: Mapping[str, Any]
    origin: str
    body: Mapping[str, Any]
    drain: tuple[int, ...] = ()
    drain_log_dirs: tuple[tuple[int, str], ...] = ()
    unregister: bool = False

    @property
    def effect(self) -> Mapping[str, Any]:
        """See effect_of."""
        found: Mapping[str, Any] = self.numbers["effect"]
        return found

    @property
    def digest(self) -> str:
        """The same for the same moves, so that no other plan is saved than the one that was shown."""
        text = repr([(row.key, row.original, row.proposed, row.log_dirs) for row in self.rows])
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def new_plan(self, cluster_id: str, limits: Limits) -> NewPlan:
        """Return the plan to save."""
        proposal = {name: value for name, value in self.numbers.items() if name != "effect"}
        asked = {name: value for name, value in self.body.items() if name in {"options", "report_id"}}
        return NewPlan(
            cluster_id=cluster_id,
            origin=self.origin,
            rows=self.rows,
            options={**asked, **({"proposal": proposal} if proposal else {})},
            throttle=limits.bytes_per_second,
            moves_per_broker=limits.moves_per_broker,
            pause_on_under_min=limits.pauses,
            stuck_minutes=limits.stuck_minutes,
            drain=self.drain,
            drain_log_dirs=self.drain_log_dirs,
            unregister=self.unregister,
        )

    def call_body(self, limits: Limits) -> dict[str, Any]:
        """Return the body of the REST call that makes the same plan."""
        given = {
            "throttle_bytes_per_second": limits.bytes_per_second,
            "moves_per_broker": limits.moves_per_broker,
            "pause_on_under_min_isr": None if limits.pauses else False,
            "stuck_minutes": limits.stuck_minutes,
        }
        return {**self.body, **{name: value for name, value in given.items() if value is not None}}


async def drafted(services: Services, choice: Choice) -> MoveDraft:
    """Return the plan of a choice. Raises Problems."""
    image = services.cluster.image
    answers = await known_log_dirs(services.cluster)
    field = {"paste": "plan", "drain": "drain"}.get(choice.goal, "")
    try:
        empty, work = _asked(services, choice, answers)
        rows, numbers = await reviewed(image, work, answers)
    except PlanError as refused:
        raise Problems("where", {field: recognised(str(refused))}) from refused
    body = {"reassignment": _file(rows)} if choice.goal == "paste" else empty.body
    return replace(empty, rows=rows, numbers=numbers, body=body)


def _asked(services: Services, choice: Choice, answers: Answers) -> tuple[MoveDraft, Callable[[], Draft]]:
    """Return the draft without rows, and what computes them. Raises Problems, PlanError."""
    image = services.cluster.image
    none: dict[str, Any] = {"rows": (), "numbers": {}}
    if choice.goal == "paste":
        found = read_plan(choice.plan)
        empty = MoveDraft(**none, origin="pasted", body={})
        return empty, lambda: (rows_of_plan(image, found, answers), {})
    if choice.goal == "report":
        report_id = whole_number(choice.report, 1, 2**31 - 1)
        if report_id is None:
            raise PlanError(phrase("'%(text)s' is not the number of a report.", text=choice.report[:40]))
        folder = services.reports.folder_of(report_id) / "out"
        empty = MoveDraft(**none, origin="report", body={"report_id": report_id})
        return empty, lambda: (report_rows(image, folder), {})
    if choice.goal == "drain":
        brokers, log_dirs = drained_of(choice, image)
        check_drain(image, brokers, log_dirs)
        unregister = bool(choice.unregister) and bool(brokers)
        paths = [{"broker_id": broker, "path": path} for broker, path in log_dirs]
        body = {"broker_ids": list(brokers), "log_dirs": paths, "unregister": unregister}
        empty = MoveDraft(
            **none,
            origin="drain",
            body={"drain": {name: value for name, value in body.items() if value}},
            drain=brokers,
            drain_log_dirs=log_dirs,
            unregister=unregister,
        )
        return empty, lambda: drained_rows(image, brokers, log_dirs, answers)
    options = planner_options(choice, image)
    empty = MoveDraft(**none, origin="options", body={"options": _options_body(options)})
    return empty, lambda: proposed_rows(image, options, answers)


def _options_body(options: Options) -> dict[str, Any]:
    partitions = sorted(options.partitions or ())[:CALL_ROWS]
    body = {
        "goals": sorted(options.goals),
        "target_broker_ids": sorted(options.target_brokers),
        "expand_broker_ids": sorted(options.expand_brokers),
        "replication_factor": options.replication_factor,
        "topic_names": sorted(options.topics or ())[:CALL_ROWS],
        "partitions": [{"topic_name": name, "partition_id": number} for name, number in partitions],
        "exclude_broker_ids": sorted(options.exclude_brokers),
        "max_moves": options.max_moves,
        "max_bytes": options.max_bytes,
    }
    return {name: value for name, value in body.items() if value}


def _file(rows: Sequence[Row]) -> dict[str, Any]:
    moves = [
        {"topic": row.topic, "partition": row.partition, "replicas": row.proposed}
        | ({"log_dirs": row.log_dirs} if row.log_dirs else {})
        for row in rows[:CALL_ROWS]
    ]
    return {"version": 1, "partitions": moves}


def warnings_of(image: MetadataImage, draft: MoveDraft, *, throttled: bool) -> list[str]:
    """Return what to know before the plan is saved, as sentences."""
    effect, lines = draft.effect, list[str]()
    brokers = image.cluster.brokers
    gaining = {each for row in draft.rows for each in row.adding}
    fenced = sorted(each for each in gaining if each in brokers and brokers[each].fenced)
    if fenced:
        lines.append(
            phrases(
                "Broker %(ids)s is fenced: replicas there are copied once it is back.",
                "Brokers %(ids)s are fenced: replicas there are copied once they are back.",
                len(fenced),
                ids=ids_text(fenced),
            )
        )
    fewer = sum(len(row.proposed) < len(row.original) for row in draft.rows)
    if fewer:
        lines.append(
            phrase("%(partitions)s would have fewer replicas than now.", partitions=counted(fewer, "partition"))
        )
    more_by_name = {name: effect[name][1] - effect[name][0] for name in ("rack_violated", "under_min")}
    if more_by_name["rack_violated"] > 0:
        more = counted(more_by_name["rack_violated"], "partition")
        lines.append(phrase("%(partitions)s more would break the rack rule.", partitions=more))
    if more_by_name["under_min"] > 0:
        more = counted(more_by_name["under_min"], "partition")
        lines.append(phrase("%(partitions)s more would be under min ISR.", partitions=more))
    if effect["copies"] and not throttled:
        lines.append(phrase("Without a throttle, copies take all the bandwidth that brokers and disks have."))
    if draft.drain or draft.drain_log_dirs:
        lines += drain_lines(draft)
    return lines


def drain_lines(draft: MoveDraft) -> list[str]:
    """Return what happens to the drained brokers or log directories."""
    if draft.drain:
        named = phrases("Broker %(ids)s", "Brokers %(ids)s", len(draft.drain), ids=ids_text(draft.drain))
    else:
        paths = log_dirs_text(draft.drain_log_dirs)
        named = phrases("Log directory %(paths)s", "Log directories %(paths)s", len(draft.drain_log_dirs), paths=paths)
    return [
        phrase("%(named)s will be cordoned when the plan starts: no new replica is placed there.", named=named),
        phrase("%(named)s will be unregistered once stopped.", named=named)
        if draft.unregister
        else phrase("%(named)s will stay cordoned when empty.", named=named),
    ]


def numbers_text(draft: MoveDraft) -> list[str]:
    """Return the numbers of a plan as sentences."""
    effect, numbers = draft.effect, draft.numbers
    copied, led = counted(effect["copies"], "replica"), counted(effect["leader_changes"], "leader")
    if "bound" in numbers:
        line = phrase(
            "%(copied)s would be copied; no plan with the same result copies fewer than %(bound)s. "
            "%(led)s would change.",
            copied=copied,
            bound=numbers["bound"],
            led=led,
        )
    else:
        line = phrase("%(copied)s would be copied. %(led)s would change.", copied=copied, led=led)
    lines: list[str] = [line]
    if "directory_moves" in numbers:
        moved = counted(numbers["directory_moves"], "replica")
        lines.append(phrase("%(replicas)s would move to another log directory of the same broker.", replicas=moved))
    if "byte_shares" in numbers:
        pairs = counted(numbers["swaps"], "pair")
        lines.append(phrase("%(pairs)s of replicas would change places within a rack.", pairs=pairs))
        lines += bytes_text(numbers["byte_shares"])
    return lines
