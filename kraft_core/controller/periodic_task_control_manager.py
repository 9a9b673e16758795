"""Periodic tasks of the active controller, scheduled as deferred events of its queue.

Source: PeriodicTaskControlManager, PeriodicTask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kraft_core.controller.controller_result import ControllerResult
from kraft_core.protocol.metadata_records import NoOpRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraft_core.controller.controller_operations import Managers

IMMEDIATE_MS: Final = 10
"""Delay before a task with remaining work runs again; not 0, because due tasks run before requests."""
AFTER_ERROR_MS: Final = 5 * 60 * 1000
_FENCE_CHECKS_PER_SESSION: Final = 8


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """`run(now_ms)` returns records to append, and True to run again immediately. A period of 0 disables the task."""

    name: str
    period_ms: int
    run: Callable[[int], ControllerResult[bool]]


def periodic_tasks(managers: Managers) -> list[PeriodicTask]:
    """Return the tasks of a controller; they read the tip."""
    config, writer = managers.config, managers.writer
    balance_ms = config.leader_imbalance_check_interval_ms if config.auto_leader_rebalance_enable else 0
    return [
        PeriodicTask("writeNoOpRecord", config.max_idle_interval_ms, _no_op),
        PeriodicTask(
            "maybeFenceStaleBroker",
            max(1, config.session_timeout_ms // _FENCE_CHECKS_PER_SESSION),
            lambda now_ms: managers.replication.maybe_fence_one_stale_broker(writer.tip, now_ms),
        ),
        PeriodicTask(
            "electPreferred",
            balance_ms,
            lambda _: managers.elections.maybe_balance_partition_leaders(writer.tip),
        ),
        PeriodicTask(
            "electUnclean",
            config.unclean_leader_election_interval_ms,
            lambda _: managers.elections.maybe_elect_unclean_leaders(writer.tip),
        ),
        PeriodicTask(
            "expireDelegationTokens",
            config.delegation_token_expiry_check_interval_ms,
            lambda now_ms: managers.delegation_tokens.sweep_expired(writer.tip, now_ms),
        ),
    ]


def _no_op(_now_ms: int) -> ControllerResult[bool]:
    return ControllerResult((NoOpRecord(),), response=False)


class PeriodicTaskControlManager:
    """Schedules each task under its name as the tag while the controller is active.

    `schedule(tag, at_ms, operation)` and `cancel(tag)` act on the event queue.
    """

    __slots__ = ("_cancel", "_schedule", "_tasks")

    def __init__(
        self,
        tasks: Sequence[PeriodicTask],
        schedule: Callable[[str, int, Callable[[int], ControllerResult[bool]]], None],
        cancel: Callable[[str], None],
    ) -> None:
        self._tasks = [task for task in tasks if task.period_ms > 0]
        self._schedule = schedule
        self._cancel = cancel

    def activate(self, now_ms: int) -> None:
        """Schedule every task one period from now."""
        for task in self._tasks:
            self._reschedule(task, now_ms + task.period_ms)

    def deactivate(self) -> None:
        """Cancel every task."""
        for task in self._tasks:
            self._cancel(task.name)

    def _reschedule(self, task: PeriodicTask, at_ms: int) -> None:
        self._schedule(task.name, at_ms, lambda now_ms: self._run(task, now_ms))

    def _run(self, task: PeriodicTask, now_ms: int) -> ControllerResult[bool]:
        """Run a task and reschedule it: after its period, soon if work remains, after five minutes if it failed."""
        try:
            result = task.run(now_ms)
        except Exception:
            self._reschedule(task, now_ms + AFTER_ERROR_MS)
            raise
        self._reschedule(task, now_ms + (IMMEDIATE_MS if result.response else task.period_ms))
        return result
