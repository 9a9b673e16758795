"""Work the active controller does by itself, each task on its own period. Source: PeriodicTaskControlManager."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraft_core.controller.controller_result import ControllerResult

NEVER_MS: Final = 2**62
IMMEDIATE_MS: Final = 10
"""How soon a task that has more to do runs again: a little later, so that requests get their turn."""
AFTER_ERROR_MS: Final = 5 * 60 * 1000


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """`run(now_ms)` gives the records to write, and True when it should run again at once."""

    name: str
    period_ms: int
    run: Callable[[int], ControllerResult[bool]]
    immediate_ms: int = IMMEDIATE_MS


class PeriodicTasks:
    """When each task is due. All wait while the controller is not active."""

    __slots__ = ("_due_ms", "_tasks")

    def __init__(self, tasks: Sequence[PeriodicTask]) -> None:
        self._tasks = {task.name: task for task in tasks if task.period_ms > 0}
        self._due_ms: dict[str, int] = {}

    def activate(self, now_ms: int) -> None:
        """Let every task be due one period from now."""
        self._due_ms = {name: now_ms + task.period_ms for name, task in self._tasks.items()}

    def deactivate(self) -> None:
        """Let no task be due."""
        self._due_ms = {}

    def next_deadline_ms(self) -> int:
        """Return when the next task is due, NEVER_MS while none is."""
        return min(self._due_ms.values(), default=NEVER_MS)

    def due(self, now_ms: int) -> list[PeriodicTask]:
        """Return the tasks due now, the longest due first."""
        names = sorted((due, name) for name, due in self._due_ms.items() if due <= now_ms)
        return [self._tasks[name] for _, name in names]

    def reschedule(self, task: PeriodicTask, now_ms: int, *, immediate: bool = False, failed: bool = False) -> None:
        """Say when a task runs again: after its period, soon when there is more to do, after five minutes on an error."""
        if not self._due_ms:
            return
        delay = AFTER_ERROR_MS if failed else task.immediate_ms if immediate else task.period_ms
        self._due_ms[task.name] = now_ms + delay
