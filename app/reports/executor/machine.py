"""The rules of a plan's execution: what to store, and which step to carry out next. No I/O, no clock.

Each tick of the driver calls `decide` with what SQL and the metadata image say. The decision is stored before its step
is carried out, and a step that is repeated changes nothing more. So the process may end between any two instructions:
its successor decides again from the stored states and the image, and comes to the same end.

A running plan goes through these phases; each begins when nothing of the one before is left to do.

1. Cordon the brokers and log directories that are drained.
2. Set the throttles: the rates of all brokers, then the lists of the topics whose partitions begin.
3. Begin partitions, at most `moves_per_broker` copies on a broker at once, and observe those that move. Replicas that
   are on the wanted broker in another log directory than the wanted one are then moved to it.
4. Drain: prove the brokers and log directories empty; replicas that landed there meanwhile are planned again.
5. Elect the preferred leaders of the partitions that moved.
6. Clear the throttles. A cancelled or failed plan also uncordons.
7. Unregister drained brokers on wish, once they are down.

A paused plan begins nothing. A cancelled plan skips to phase 5 once the moving partitions are undone or have finished.
"""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from app.cluster.log_dirs import NOT_ASKED
from app.cluster.partitions import Partition
from app.reports.executor.directories import Answers, held_in, to_create, to_place, to_put_back
from app.reports.executor.plan import (
    BEGINNING,
    CANCELLED,
    CANCELLING,
    CLEARED,
    DONE,
    FAIL,
    FAILED,
    FINISH,
    LEFT,
    MOVING,
    OPEN_ROWS,
    PAUSED,
    PENDING,
    PLAN_FAILED,
    RUNNING,
    SET,
    SETTING,
    SKIPPED,
    UNDOING,
    UNDONE,
    Alter,
    Cordon,
    Decision,
    Elect,
    Execution,
    Place,
    Plan,
    PlanAgain,
    Reassign,
    Row,
    Setting,
    SettingKey,
    Step,
    Unregister,
)
from app.reports.executor.progress import checked, observed, obstacle, replicas_left, to_elect
from app.reports.executor.throttles import (
    CORDONED,
    cordon_value,
    setting_step,
    throttled_topics,
    to_clear,
    to_set,
    wanted_lists,
    wanted_rates,
)
from app.texts import phrase, phrases
from kraft_core.configs.config_resource import BROKER
from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage

BATCH_MAX: Final = 1_000
"""Partitions in one request. The controller writes it as one atomic batch, of 10,000 records at most."""
ROUNDS_MAX: Final = 5
"""How often a drain is planned again before it fails."""


def decide(
    execution: Execution,
    image: MetadataImage,
    now: dt.datetime,
    under_min: AbstractSet[Partition] = frozenset(),
    answers: Answers = MappingProxyType({}),
) -> Decision:
    """Return what to store and the next step of an active plan.

    `under_min`: the partitions of the cluster that are under min ISR. `answers`: what the brokers that `asked_brokers`
    names have told of their log directories. An image that does not contain the plan's newest
    change decides nothing.
    """
    turn = _Turn(execution, image, now, answers)
    if image.offset >= execution.plan.offset:
        turn.step = turn.next_step(under_min)
    return Decision(plan=turn.plan, rows=turn.changed, settings=turn.changed_settings, step=turn.step)


class _Turn:
    """One decision in the making."""

    def __init__(self, execution: Execution, image: MetadataImage, now: dt.datetime, answers: Answers) -> None:
        self.plan = execution.plan
        self.rows: dict[Partition, Row] = dict(execution.rows)
        self.settings: dict[SettingKey, Setting] = dict(execution.settings)
        self.changed: dict[Partition, Row] = {}
        self.changed_settings: dict[SettingKey, Setting] = {}
        self.step: Step | None = None
        self._image = image
        self._now = now
        self._answers = answers

    def next_step(self, under_min: AbstractSet[Partition]) -> Step | None:
        """Return the step after what the image shows."""
        for row in list(self.rows.values()):
            self._put(observed(row, self._image, self._now, self._answers))
        if self.plan.ending is not None:
            return self._clear()
        self.plan = replace(self.plan, waits_for=None)
        if self.plan.state == CANCELLING:
            return self._cancel()
        if self.plan.state == RUNNING:
            self._watch(under_min)
        if self.plan.state == PAUSED:
            self._hold_back()
            return self._throttle([])
        return self._run()

    def _put(self, row: Row) -> None:
        if row != self.rows[row.key]:
            self.rows[row.key] = self.changed[row.key] = row

    def _set(self, settings: Mapping[SettingKey, Setting]) -> None:
        self.settings.update(settings)
        self.changed_settings.update(settings)

    def _in(self, *states: str) -> list[Row]:
        return [row for row in self.rows.values() if row.state in states]

    # phases

    def _run(self) -> Step | None:
        cordon = self._cordon()
        if cordon is not None or self.plan.waits_for is not None:
            return cordon
        chosen = self._chosen()
        throttle = self._throttle(chosen)
        if throttle is not None:
            return throttle
        for row in chosen:
            self._put(replace(row, state=BEGINNING, changed_at=self._now))
        waiting = (row for row in self._in(BEGINNING) if not self._is_moving(row))
        unsent = [row for row in waiting if not self._has_replicas(row)][:BATCH_MAX]
        if unsent:
            return Reassign({row.key: row.proposed for row in unsent}, to_create(unsent))
        unplaced = to_place(filter(self._has_replicas, self._in(MOVING)), self._answers)
        if unplaced:
            return Place(unplaced)
        return None if self._in(*OPEN_ROWS) else self._after_moves()

    def _throttle(self, chosen: Iterable[Row]) -> Step | None:
        """Return the step that sets or clears throttles as the plan says, also for the rows that begin."""
        if self.plan.throttle is None:
            settled, step = to_clear(self.settings, self._image, self._cordons())
            self._set(settled)
            return step
        open_rows = self._in(*OPEN_ROWS)
        lists = wanted_lists(throttled_topics(self.rows, chosen), self._image)
        rates = wanted_rates(open_rows, self.plan.throttle)
        self._set(to_set(self.settings, {**rates, **lists}, self._image))
        return setting_step(self.settings.values())

    def _cordons(self) -> list[SettingKey]:
        return [key for key in self.settings if key[2] == CORDONED]

    def _after_moves(self) -> Step | None:
        directories = held_in(self._image, self._answers, self.plan.drain_log_dirs)
        unknown = [where for where, count in directories.items() if count is None]
        if unknown:
            self.plan = replace(self.plan, waits_for=_not_told(*unknown[0]))
            return None
        held = _left_texts(replicas_left(self._image, self.plan.drain), directories)
        if held:
            if self.plan.rounds >= ROUNDS_MAX or self._in(FAILED):
                return self._end(PLAN_FAILED, held)
            self.plan = replace(self.plan, waits_for=held)
            return PlanAgain(self.plan.drain, self.plan.drain_log_dirs)
        failed = self._in(FAILED)
        if failed:
            shown = ", ".join(f"{row.topic}-{row.partition}" for row in failed[:5])
            return self._elect(
                PLAN_FAILED, str(phrase("%(count)s partitions failed: %(names)s.", count=len(failed), names=shown))
            )
        return self._elect(DONE, None)

    def _elect(self, ending: str, reason: str | None) -> Step | None:
        wanted = () if self.plan.elected else to_elect(self.rows.values(), self._image)
        if not wanted:
            return self._end(ending, reason)
        return Elect(wanted)

    def _end(self, ending: str, reason: str | None) -> Step | None:
        reasons = self.plan.reasons if reason is None else (*self.plan.reasons, reason)
        self.plan = replace(self.plan, ending=ending, reasons=reasons)
        return self._clear()

    def _clear(self) -> Step | None:
        if self.plan.state == CANCELLING and self.plan.ending == DONE:
            self.plan = replace(self.plan, ending=CANCELLED, waits_for=None)
        is_drained = self.plan.ending == DONE
        settled, step = to_clear(self.settings, self._image, self._cordons() if is_drained else ())
        self._set(settled)
        if step is not None:
            return step
        if is_drained and self.plan.unregister:
            left = [each for each in self.plan.drain if each in self._image.cluster.brokers]
            ready = [each for each in left if self._image.cluster.brokers[each].fenced]
            if ready:
                return Unregister(ready[0])
            if left:
                ids = ", ".join(map(str, left))
                waits = str(phrase("Broker %(ids)s is empty. It is unregistered once it has been stopped.", ids=ids))
                self.plan = replace(self.plan, waits_for=waits)
                return None
        assert self.plan.ending is not None, "set before anything is cleared"
        self.plan = replace(self.plan, state=self.plan.ending, waits_for=None)
        return None

    def _cancel(self) -> Step | None:
        self._hold_back()
        if self.plan.cancel_begun != FINISH:
            for row in self._in(MOVING, BEGINNING):
                self._put(replace(row, state=UNDOING, changed_at=self._now))
        undoing = self._in(UNDOING)
        if undoing:
            return self._undo(undoing)
        if self._in(MOVING, BEGINNING):
            unplaced = to_place(filter(self._has_replicas, self._in(MOVING)), self._answers)
            return Place(unplaced) if unplaced else None
        for row in self._in(PENDING):
            self._put(replace(row, state=SKIPPED))
        return self._elect(PLAN_FAILED if self.plan.cancel_begun == FAIL else CANCELLED, None)

    def _undo(self, rows: list[Row]) -> Step | None:
        """Cancel reassignments, then copies to other log directories, for which those left must not be cordoned."""
        elsewhere = [row for row in rows if not self._has_replicas(row)][:BATCH_MAX]
        if elsewhere:
            return Reassign({row.key: None if self._is_moving(row) else row.original for row in elsewhere})
        settled, step = to_clear(self.settings, self._image, [key for key in self.settings if key[2] != CORDONED])
        self._set(settled)
        back = to_put_back(rows, self._answers)
        return step or (Place(back, undo=True) if back else None)

    def _has_replicas(self, row: Row) -> bool:
        """Whether the partition has the proposed replicas, so that only log directories are left to change."""
        found = row.registration(self._image)
        return found is not None and not found.is_reassigning and found.replicas == row.proposed

    def _hold_back(self) -> None:
        """Take back what was about to begin and is not known to the controller."""
        for row in self._in(BEGINNING):
            if not self._is_moving(row):
                self._put(replace(row, state=PENDING, changed_at=None))

    # parts

    def _is_moving(self, row: Row) -> bool:
        found = row.registration(self._image)
        return found is not None and found.is_reassigning

    def _cordon(self) -> Step | None:
        """Return the next broker to cordon. Sets `waits_for` until all of them have confirmed it."""
        for broker_id in dict.fromkeys((*self.plan.drain, *(each for each, _ in self.plan.drain_log_dirs))):
            broker = self._image.cluster.brokers.get(broker_id)
            if broker is None or broker.fenced:
                continue  # it gets no leaders, and what lands on it is moved in the next round
            key = (BROKER, str(broker_id), CORDONED)
            known = self.settings.get(key)
            if known is None:
                before = self._image.configs.of(BROKER, str(broker_id)).get(CORDONED)
                value = cordon_value(before, [path for each, path in self.plan.drain_log_dirs if each == broker_id])
                known = Setting(
                    resource_type=BROKER, resource_name=str(broker_id), name=CORDONED, before=before, ours=(value,)
                )
                self._set({key: known})
            if known.state == SETTING:
                return Cordon(broker_id, known.ours[-1])
            if known.state == SET and not self._is_cordoned(broker):
                waits = str(phrase("Broker %(id)s has not confirmed its cordon yet.", id=broker_id))
                self.plan = replace(self.plan, waits_for=waits)
        return None

    def _is_cordoned(self, broker: BrokerRegistration) -> bool:
        if broker.id in self.plan.drain:
            return not broker.has_uncordoned_dirs()
        told = self._answers.get(broker.id, NOT_ASKED)
        directories = [told.directory(path) for each, path in self.plan.drain_log_dirs if each == broker.id]
        return all(each is not None and each.is_cordoned for each in directories)

    def _watch(self, under_min: AbstractSet[Partition]) -> None:
        """Pause when a partition outside the plan has gone under min ISR."""
        outside = {f"{topic}-{index}" for topic, index in under_min if (topic, index) not in self.rows}
        known = self.plan.known_under_min
        if known is None:
            self.plan = replace(self.plan, known_under_min=tuple(sorted(outside)))
            return
        new = sorted(outside - set(known))
        if set(known) - outside:
            self.plan = replace(self.plan, known_under_min=tuple(each for each in known if each in outside))
        if new and self.plan.pause_on_under_min:
            named = ", ".join(new[:5])
            if len(new) > 5:
                named = phrase("%(names)s and %(more)s more", names=named, more=len(new) - 5)
            reason = str(phrase("Paused: %(names)s went under min ISR, outside of this plan.", names=named))
            self.plan = replace(self.plan, state=PAUSED, reasons=(*self.plan.reasons, reason))

    def _chosen(self) -> list[Row]:
        """Return the rows that may begin now. Rows that need nothing, or no longer fit, get their final state."""
        load = Counter(broker for row in self._in(BEGINNING, MOVING) for broker in row.copies)
        chosen: list[Row] = []
        waiting: Counter[str] = Counter()
        for row in self._in(PENDING):
            if len(chosen) >= BATCH_MAX:
                break
            if any(load[broker] >= self.plan.moves_per_broker for broker in row.copies):
                continue
            settled = checked(row, self._image, self._answers)
            self._put(settled)
            if settled.state != PENDING:
                continue
            held = obstacle(row, self._image, self._answers)
            if held is not None:
                waiting[held] += 1
            else:
                load.update(row.copies)
                chosen.append(row)
        if waiting and self.plan.waits_for is None:
            self.plan = replace(self.plan, waits_for=" ".join(map(_waiting_text, sorted(waiting.items())[:3])))
        return chosen


def planned_again(execution: Execution, rows: Mapping[Partition, Row]) -> Decision:
    """Return what to store after a drain was planned again; without rows it is tried again later."""
    rounds = execution.plan.rounds + bool(rows)
    return Decision(plan=replace(execution.plan, rounds=rounds), rows=rows, settings={})


def _waiting_text(item: tuple[str, int]) -> str:
    reason, count = item
    return str(
        phrases(
            "%(reason)s (%(count)s partition waiting)",
            "%(reason)s (%(count)s partitions waiting)",
            count,
            reason=reason,
        )
    )


def _not_told(broker_id: int, path: str) -> str:
    return str(phrase("Broker %(id)s has not told what %(path)s holds.", id=broker_id, path=path))


def _left_texts(brokers: Mapping[int, int], directories: Mapping[tuple[int, str], int | None]) -> str:
    """Return which brokers and log directories still hold replicas, "" if none does."""
    named = {phrase("Broker %(id)s", id=broker): count for broker, count in sorted(brokers.items())}
    for (broker, path), count in sorted(directories.items()):
        if count:
            named[phrase("%(path)s of broker %(id)s", path=path, id=broker)] = count
    texts = [
        phrases("%(name)s still holds %(count)s replica.", "%(name)s still holds %(count)s replicas.", count, name=name)
        for name, count in named.items()
    ]
    return " ".join(texts)


def asked_brokers(execution: Execution) -> tuple[frozenset[int], bool]:
    """Return the brokers of whose log directories the next decision depends, and whether the plan moves between them.

    Those that copy are asked too: the bytes that they have are progress.
    """
    open_rows = [row for row in execution.rows.values() if row.state in OPEN_ROWS]
    between = {broker for row in open_rows for broker in row.wanted_dirs}
    between.update(broker for broker, _ in execution.plan.drain_log_dirs)
    copying = {broker for row in open_rows if row.state == MOVING for broker in row.copies}
    return frozenset(between | copying), bool(between)


def carried_out(
    execution: Execution, step: Step, failures: Mapping[Partition, str], failed_resources: Mapping[tuple[int, str], str]
) -> Decision:
    """Return what to store after a step has been answered.

    `failures`: the partitions that the controller refused, with its message; `failed_resources`: the same for configs.
    A refused throttle or cordon ends the plan as failed; a refused restoration is left with its reason.
    """
    plan = execution.plan
    rows: dict[Partition, Row] = {}
    settings: dict[SettingKey, Setting] = {}
    match step:
        case Alter():
            plan, settings = _altered(execution, step, failed_resources)
        case Cordon(broker_id, _):
            key = (BROKER, str(broker_id), CORDONED)
            error = failed_resources.get(key[:2])
            if error is None:
                settings[key] = replace(execution.settings[key], state=SET)
            else:
                reason = str(phrase("Broker %(id)s cannot be cordoned: %(error)s", id=broker_id, error=error))
                plan = failing(plan, reason)
        case Reassign(wanted):
            rows = {key: _refused(execution.rows[key], error) for key, error in failures.items() if wanted[key]}
        case Place(_, undo):
            rows = {} if undo else {key: _refused(execution.rows[key], error) for key, error in failures.items()}
        case Elect():
            refused = [f"{topic}-{index}: {error}" for (topic, index), error in failures.items()]
            reasons = (str(phrase("Not elected: %(names)s", names="; ".join(refused[:5]))),) if refused else ()
            plan = replace(plan, elected=True, reasons=(*plan.reasons, *reasons))
        case Unregister(broker_id):
            error = failed_resources.get((BROKER, str(broker_id)))
            if error is not None:
                reason = str(phrase("Broker %(id)s was not unregistered: %(error)s", id=broker_id, error=error))
                plan = replace(plan, reasons=(*plan.reasons, reason), ending=PLAN_FAILED)
        case PlanAgain():
            pass
    return Decision(plan=plan, rows=rows, settings=settings)


def _refused(row: Row, error: str) -> Row:
    return replace(row, state=UNDONE if row.state == UNDOING else FAILED, error=error)


def _altered(
    execution: Execution, step: Alter, failed_resources: Mapping[tuple[int, str], str]
) -> tuple[Plan, dict[SettingKey, Setting]]:
    done, not_done = (CLEARED, LEFT) if step.clears else (SET, SETTING)
    settings = {}
    for (kind, name), values in step.changes.items():
        for config in values:
            key = (kind, name, config)
            settings[key] = replace(
                execution.settings[key], state=not_done if (kind, name) in failed_resources else done
            )
    plan = execution.plan
    for (_, name), error in failed_resources.items():
        if step.clears:
            reason = str(phrase("A throttle of %(name)s could not be cleared: %(error)s", name=name, error=error))
        else:
            reason = str(phrase("A throttle of %(name)s could not be set: %(error)s", name=name, error=error))
        plan = replace(plan, reasons=(*plan.reasons, reason)) if step.clears else failing(plan, reason)
    return plan, settings


def failing(plan: Plan, reason: str) -> Plan:
    """Return the plan that undoes what moves and ends as failed."""
    return replace(plan, state=CANCELLING, cancel_begun=FAIL, reasons=(*plan.reasons, reason))
