"""LargeRequests: serves large administrative requests one after another, so that few are decoded at the same time.

A request of 1 MiB may name 20,000 topics: its decoded body and its answer take several times its size, and the
controller is busy with it for a third of a second. The others wait as the frames that they arrived in, and the requests
of other connections are served between two of them. Addresses take turns. An address that has too many unsent answers
(see `UnsentAnswers`) waits until its clients have read some, or their connections are closed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from kraft_core.protocol.errors import KafkaError
from kraft_core.server.network.request import Request

log = logging.getLogger(__name__)

_ROOM_CHECK_S: Final = 0.1


class LargeRequests:
    """The queue of large requests of one event loop; one of them is in work at most."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[tuple[Request, Callable[[], None]]]] = {}  # by address, the next one first
        self._is_busy = False

    def submit(self, request: Request, start: Callable[[], None]) -> None:
        """Call `start` when it is the turn of this request; it must lead to one call of `done`.

        It is not called if the connection has closed by then. If it raises, the connection is closed.
        """
        self._waiting.setdefault(request.client_host, deque()).append((request, start))
        if not self._is_busy:
            self._is_busy = True
            self._start_next()

    def done(self) -> None:
        """End the request in work. The next one starts in a later turn of the event loop."""
        asyncio.get_running_loop().call_soon(self._start_next)

    def _start_next(self) -> None:
        while self._waiting:
            address = next(iter(self._waiting))
            queue = self._waiting.pop(address)
            request, start = queue.popleft()
            if queue:
                self._waiting[address] = queue
            if request.is_abandoned:
                continue
            if not request.answer_room:
                asyncio.get_running_loop().call_later(_ROOM_CHECK_S, self.submit, request, start)
            elif self._start(request, start):
                return
        self._is_busy = False

    @staticmethod
    def _start(request: Request, start: Callable[[], None]) -> bool:
        try:
            start()
        except KafkaError as error:
            request.close(f"request cannot be served: {error}")
        except Exception:  # a bug in a handler must not stop the queue
            log.exception("request_failed", extra={"api_key": request.header.api_key})
            request.close("request handler failed")
        else:
            return True
        return False
