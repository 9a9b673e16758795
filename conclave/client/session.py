"""What both clients share without I/O: the address, the token, the offset of the last change, and when to repeat."""

import random
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import urlsplit

import httpx

from conclave.client.calls import Call
from conclave.client.errors import ApiError, ClusterNotChosenError, UnreachableError, api_error

T = TypeVar("T")
RETRY_SECONDS: Final = 30.0
TIMEOUT_SECONDS: Final = 60.0
FIRST_DELAY_SECONDS: Final = 0.05
DELAY_SECONDS_MAX: Final = 2.0
OFFSET_HEADER: Final = "x-metadata-offset"
CLUSTER: Final = "/v3/clusters/{cluster_id}"
TOPIC: Final = f"{CLUSTER}/topics/{{topic_name}}"
_TRANSIENT: Final = frozenset({502, 503, 504})


class Session:
    """The state of a client of one cluster."""

    def __init__(self, url: str, token: str, cluster_id: str | None, retry_seconds: float) -> None:
        """Raise ValueError for an address or a token that cannot be one."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is no address of a web process, such as https://conclave.example:8080")
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError("the token must be printable ASCII without spaces")
        self.url = url.rstrip("/")
        self.cluster_id = cluster_id
        self.headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self.retry_seconds = retry_seconds
        self._offset: int | None = None
        self._lock = threading.Lock()

    @property
    def offset(self) -> int | None:
        """The offset of the newest change that this client has made."""
        return self._offset

    def request(self, call: Call[T], http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Return the request of a call."""
        content = call.content()
        headers = {name: value for name, value in call.headers.items() if value is not None}
        if content is not None:
            headers["Content-Type"] = "application/json"
        target = call.target(self.cluster_id or "", self.offset)
        return http.build_request(call.verb, f"{self.url}{target}", content=content, headers=headers)

    def result(self, call: Call[T], answer: httpx.Response) -> T:
        """Read the answer of a success, and remember the offset of a change. Raises UnexpectedAnswerError."""
        if call.verb != "GET":
            self._saw(answer.headers)
        return call.result(answer.status_code, answer.content)

    def _saw(self, headers: Mapping[str, str]) -> None:
        text = headers.get(OFFSET_HEADER, "")
        if text.isascii() and text.isdigit():
            with self._lock:
                self._offset = int(text) if self._offset is None else max(self._offset, int(text))

    def choose(self, cluster_ids: list[str]) -> None:
        """Take the only cluster. Raises ClusterNotChosenError."""
        if not cluster_ids:
            raise ClusterNotChosenError(f"{self.url} has not reached its quorum yet")
        if len(cluster_ids) > 1:
            raise ClusterNotChosenError(f"{self.url} has several clusters: choose one of {', '.join(cluster_ids)}")
        self.cluster_id = cluster_ids[0]


class Attempts:
    """The attempts at one call, until `retry_seconds` have passed."""

    def __init__(self, session: Session, *, is_repeatable: bool) -> None:
        self._seconds = session.retry_seconds
        self._is_repeatable = is_repeatable
        self.begin()

    def begin(self) -> None:
        """Begin to count."""
        self._until = time.monotonic() + self._seconds
        self._delay = FIRST_DELAY_SECONDS

    def wait_after(self, error: httpx.TransportError | ApiError) -> float:
        """Return how long to wait before the next attempt. Raises the error of the call when there is none."""
        wait = self._wait(error)
        if wait is None or time.monotonic() + wait > self._until:
            if isinstance(error, ApiError):
                raise error
            raise UnreachableError(f"{named(error.request)}: {error or type(error).__name__}") from error
        return wait

    def _wait(self, error: httpx.TransportError | ApiError) -> float | None:
        is_repeated = self._is_worth_repeating(error) if isinstance(error, ApiError) else self._may_be_sent_again(error)
        if not is_repeated:
            return None
        delay, self._delay = self._delay, min(self._delay * 2, DELAY_SECONDS_MAX)
        jittered = delay * random.uniform(0.5, 1)  # noqa: S311  # callers that wait should not return together
        asked = error.retry_after_seconds if isinstance(error, ApiError) else None
        return max(jittered, asked or 0)

    def _is_worth_repeating(self, error: ApiError) -> bool:
        """Repeat what was refused unread, and what is safe to repeat.

        409 with a delay says that the first attempt is still running.
        """
        if error.status == 429:
            return True
        is_running = error.status == 409 and error.retry_after_seconds is not None
        return self._is_repeatable and (error.status in _TRANSIENT or is_running)

    def _may_be_sent_again(self, error: httpx.TransportError) -> bool:
        """Repeat what never left, unless the address or its certificate is wrong, and what is safe to repeat."""
        if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol | httpx.ProxyError):
            return False
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
            return not _is_hopeless(error)
        return self._is_repeatable


def _is_hopeless(error: BaseException) -> bool:
    """Report whether the host is unknown or its certificate is refused."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError) or (isinstance(cause, socket.gaierror) and cause.errno != socket.EAI_AGAIN):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def named(request: httpx.Request) -> str:
    """Return how errors name a request."""
    return f"{request.method} {request.url}"


def error_of(answer: httpx.Response) -> ApiError:
    """Return the error of an answer that has been read."""
    return api_error(named(answer.request), answer.status_code, answer.headers, answer.content)
