"""Events of the controller's queue. Source: ControllerReadEvent and ControllerWriteEvent of QuorumController."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraft_core.controller.queue.event_queue import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraft_core.controller.controller_request_context import ControllerRequestContext
    from kraft_core.protocol.wire import Message

NOT_STARTED: Final = -1


class RequestEvent(Event):
    """A request. `serve(event, now_ms)` runs it or raises; `fail(event, error)` responds with an error.

    `received_ms`: time of arrival. `started_ms`: time of the start, NOT_STARTED before.
    """

    __slots__ = ("_fail", "_serve", "context", "cost", "message", "received_ms", "request_id", "started_ms", "version")

    def __init__(
        self,
        request_id: int,
        message: Message,
        version: int,
        context: ControllerRequestContext,
        received_ms: int,
        serve: Callable[[RequestEvent, int], None],
        fail: Callable[[RequestEvent, Exception], None],
    ) -> None:
        self.request_id = request_id
        self.message = message
        self.version = version
        self.context = context
        self.received_ms = received_ms
        self.started_ms = NOT_STARTED
        self.cost = 1
        self._serve = serve
        self._fail = fail

    def run(self, now_ms: int) -> None:
        """Serve the request."""
        self.started_ms = now_ms
        self._serve(self, now_ms)

    def handle_exception(self, error: Exception) -> None:
        """Respond with the error."""
        self._fail(self, error)


class OperationEvent(Event):
    """An operation of the controller itself, with a name for the log. Its queue time is not measured."""

    __slots__ = ("_fail", "_operate", "name")

    def __init__(self, name: str, operate: Callable[[int], None], fail: Callable[[str, Exception], None]) -> None:
        self.name = name
        self._operate = operate
        self._fail = fail

    def run(self, now_ms: int) -> None:
        """Run the operation."""
        self._operate(now_ms)

    def handle_exception(self, error: Exception) -> None:
        """Report the failure."""
        self._fail(self.name, error)
