"""The watch: server-sent events as changes, and where to resume."""

from typing import Any, Final

import httpx
import msgspec

from conclave.client.errors import GoneError, UnexpectedAnswerError, api_error
from conclave.client.models import ChangeData

READ_TIMEOUT_SECONDS: Final = 60.0
"""The server sends a heartbeat more often than this."""
_GONE: Final = 410


class Watching:
    """The lines of an event stream as changes. `after` is the offset of the last change that the reader has."""

    def __init__(self, after: int | None) -> None:
        self.after = after
        self._event = ""
        self._data: list[str] = []

    def query(self) -> dict[str, int]:
        """Return the query that resumes after the last change."""
        return {} if self.after is None else {"from_offset": self.after + 1}

    def begin(self) -> None:
        """Begin a stream: half an event of the stream before is forgotten."""
        self._event, self._data = "", []

    def changes_of(self, line: str, request: httpx.Request) -> ChangeData | None:
        """Take a line, and return the change that it completes. Raises GoneError, UnexpectedAnswerError."""
        name, _, value = line.partition(": ")
        if name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        elif not line and self._data:
            event, data = self._event, "\n".join(self._data).encode()
            self.begin()
            return self._read(event, data, request)
        return None

    def _read(self, event: str, data: bytes, request: httpx.Request) -> ChangeData | None:
        if event == "gone":
            members: dict[str, Any] = msgspec.json.decode(data)
            raise _gone(request, members)
        try:
            change = msgspec.json.decode(data, type=ChangeData)
        except msgspec.DecodeError as error:
            raise UnexpectedAnswerError(f"{request.method} {request.url}: {error}") from error
        self.after = change.offset
        return change


def _gone(request: httpx.Request, members: dict[str, Any]) -> GoneError:
    content = msgspec.json.encode(members)
    error = api_error(f"{request.method} {request.url}", _GONE, {}, content)
    assert isinstance(error, GoneError)
    return error
