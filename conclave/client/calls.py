"""One call of the REST API as data: what is sent, and how each answer is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import UnionType
from typing import Any, Final, Generic, TypeVar, get_args
from urllib.parse import quote, urlencode
from uuid import uuid4

import msgspec

from conclave.client.errors import UnexpectedAnswerError

T = TypeVar("T")
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
_PAST: Final = ("at_offset", "at")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A call whose answer is a `T`. `answers` has the type of the answer by status; None stands for no body.

    Values of `query` and `headers` that are None are left out, as are members of `body` that are UNSET.
    """

    verb: str
    template: str
    answers: Mapping[int, Any]
    path: Mapping[str, object] = field(default_factory=dict)
    query: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str | None] = field(default_factory=dict)
    body: Mapping[str, object] | None = None
    waits_for_offset: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Whether a second request has no second effect: a read, or a change with an Idempotency-Key."""
        return self.verb == "GET" or self.headers.get(IDEMPOTENCY_KEY) is not None

    @property
    def is_of_cluster(self) -> bool:
        """Whether the path needs the id of the cluster."""
        return "{cluster_id}" in self.template

    @property
    def is_of_past(self) -> bool:
        """Whether the answer is a past state, which does not depend on what this client has changed."""
        return any(self.query.get(name) is not None for name in _PAST)

    def keyed(self) -> "Call[T]":
        """Return the call with an Idempotency-Key of its own if it takes one and has none."""
        if IDEMPOTENCY_KEY not in self.headers or self.headers[IDEMPOTENCY_KEY] is not None:
            return self
        return replace(self, headers={**self.headers, IDEMPOTENCY_KEY: str(uuid4())})

    def target(self, cluster_id: str, min_offset: int | None) -> str:
        """Return path and query."""
        path = self.template
        for name, value in {"cluster_id": cluster_id, **self.path}.items():
            path = path.replace(f"{{{name}}}", _segment(str(value)))
        query = {name: _text(value) for name, value in self.query.items() if value is not None and value is not False}
        if min_offset is not None and self.waits_for_offset and not self.is_of_past:
            query["min_offset"] = str(min_offset)
        return f"{path}?{urlencode(query)}" if query else path

    def content(self) -> bytes | None:
        """Return the body as JSON, None for a call that has none."""
        if self.body is None:
            return None
        return msgspec.json.encode({name: value for name, value in self.body.items() if value is not msgspec.UNSET})

    def result(self, status: int, content: bytes) -> T:
        """Read the answer of a success. Raises UnexpectedAnswerError."""
        if status not in self.answers:
            raise UnexpectedAnswerError(f"{self.verb} {self.template}: status {status} is unknown to this client")
        answer = self.answers[status]
        if answer is None or answer is bytes:
            return content if answer is bytes else None  # type: ignore[return-value]  # T is what `answers` has
        failed: Exception | None = None
        for each in get_args(answer) if isinstance(answer, UnionType) else (answer,):
            try:
                found: T = msgspec.json.decode(content, type=each)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                failed = error
            else:
                return found
        raise UnexpectedAnswerError(f"{self.verb} {self.template}: {failed}") from failed


def _segment(text: str) -> str:
    """Return a name as one segment of a path. HTTP libraries resolve the segments `.` and `..`."""
    return text.replace(".", "%2E") if text in {".", ".."} else quote(text, safe="")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
