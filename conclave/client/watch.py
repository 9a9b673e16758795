"""The watch: server-sent events as changes, and where to resume."""

from typing import Final

import httpx
import msgspec

from conclave.client.calls import Call
from conclave.client.errors import ApiError, UnexpectedAnswerError, api_error
from conclave.client.models import ChangeData
from conclave.client.session import CLUSTER, Attempts, Session, named

READ_TIMEOUT_SECONDS: Final = 60.0
"""The server sends a heartbeat more often than this."""
_GONE: Final = 410


class Watching:
    """A watch through its streams. `after` is the offset of the last change that the reader has."""

    def __init__(self, session: Session, after: int) -> None:
        self._session = session
        self._after = after
        self._attempts = Attempts(session, is_repeatable=True)
        self._is_alive = False
        self._event = ""
        self._data: list[str] = []

    def request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Return the request of a stream that begins after the last change."""
        self._is_alive, self._event, self._data = False, "", []
        call = Call[None]("GET", f"{CLUSTER}/metadata/watch", {}, query={"from_offset": self._after + 1})
        request = self._session.request(call, http)
        request.extensions["timeout"]["read"] = READ_TIMEOUT_SECONDS
        return request

    def wait_after(self, error: httpx.TransportError | ApiError) -> float:
        """Return how long to wait before the next stream. Raises the error of the watch when there is none.

        The time in which a stream was alive does not count.
        """
        if self._is_alive:
            self._attempts.begin()
        return self._attempts.wait_after(error)

    def changes_of(self, line: str, request: httpx.Request) -> ChangeData | None:
        """Take a line, and return the change that it completes. Raises GoneError, UnexpectedAnswerError."""
        name, _, value = line.partition(": ")
        if line.startswith(":"):  # a heartbeat
            self._is_alive = True
        elif name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        elif not line and self._data:
            event, data = self._event, "\n".join(self._data).encode()
            self._event, self._data = "", []
            return self._read(event, data, request)
        return None

    def _read(self, event: str, data: bytes, request: httpx.Request) -> ChangeData | None:
        if event == "gone":
            raise api_error(named(request), _GONE, {}, data)
        try:
            change = msgspec.json.decode(data, type=ChangeData)
        except msgspec.DecodeError as error:
            raise UnexpectedAnswerError(f"{named(request)}: {error}") from error
        self._after, self._is_alive = change.offset, True
        return change
