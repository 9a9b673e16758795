"""The client for scripts: each method waits for its answer."""

import ssl
import time
from collections.abc import Iterator
from typing import Self, TypeVar

import httpx

from conclave.client.blocking import AllMethods
from conclave.client.calls import Call
from conclave.client.errors import ApiError
from conclave.client.models import ChangeData
from conclave.client.session import (
    CLUSTER,
    OFFSET_HEADER,
    RETRY_SECONDS,
    TIMEOUT_SECONDS,
    TOPIC,
    Attempts,
    Session,
    error_of,
)
from conclave.client.watch import Watching
from conclave.contexts import current_context

T = TypeVar("T")


class Client(AllMethods):
    """A client of a web process and of one cluster of it. Threads can share it; close it, or use it with `with`.

    - `cluster_id`: needed only when the web process has several clusters.
    - `timeout`: seconds without an answer after which a request fails.
    - `retry_seconds`: how long a call is repeated; 0 for never. See docs/rest-client.md.
    - `verify`: False, or a context with the certificates to trust.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        cluster_id: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        """Raise ValueError for an address or a token that cannot be one."""
        self._session = Session(url, token, cluster_id, retry_seconds)
        self._http = httpx.Client(headers=self._session.headers, timeout=timeout, verify=verify)

    @classmethod
    def from_context(cls, name: str | None = None, *, retry_seconds: float = RETRY_SECONDS) -> Self:
        """Return the client of a context of `conclave context`, by default the current one. Raises ContextError."""
        context = current_context(name)
        return cls(context.url, context.token, retry_seconds=retry_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @property
    def metadata_offset(self) -> int | None:
        """The offset of this client's newest change. Reads wait until the process that answers has it."""
        return self._session.offset

    @property
    def cluster_id(self) -> str:
        """The id of the cluster. Raises ConclaveError."""
        if self._session.cluster_id is None:
            self._session.choose([each.cluster_id for each in self.list_clusters()])
        assert self._session.cluster_id is not None
        return self._session.cluster_id

    def topic_etag(self, topic_name: str) -> str:
        """Return the entity tag of a topic, for `if_match`. Ask for it before you read the topic."""
        return self._answer(Call("GET", TOPIC, {}, path={"topic_name": topic_name})).headers["ETag"]

    def watch(self, *, from_offset: int | None = None) -> Iterator[ChangeData]:
        """Yield the committed changes from an offset, by default from now on, each once.

        A lost connection is opened again where it was. Raises GoneError for changes that are no longer kept.
        """
        if from_offset is None:
            answer = self._answer(Call("GET", CLUSTER, {}, waits_for_offset=True))
            after = int(answer.headers[OFFSET_HEADER])
        else:
            after = from_offset - 1
        watching = Watching(self._session, after)
        while True:
            try:
                yield from self._stream(watching)
            except (httpx.TransportError, ApiError) as error:
                time.sleep(watching.wait_after(error))

    def _stream(self, watching: Watching) -> Iterator[ChangeData]:
        self._choose_cluster()
        request = watching.request(self._http)
        answer = self._http.send(request, stream=True)
        try:
            if not answer.is_success:
                answer.read()
                raise error_of(answer)
            for line in answer.iter_lines():
                change = watching.changes_of(line, request)
                if change is not None:
                    yield change
        finally:
            answer.close()
        raise httpx.RemoteProtocolError("the stream has ended", request=request)

    def _choose_cluster(self) -> None:
        _ = self.cluster_id

    def _send(self, call: Call[T]) -> T:
        keyed = call.keyed()
        return self._session.result(keyed, self._answer(keyed))

    def _answer(self, call: Call[T]) -> httpx.Response:
        """Return the answer of a success. Raises ConclaveError."""
        if call.is_of_cluster:
            self._choose_cluster()
        attempts = Attempts(self._session, is_repeatable=call.is_repeatable)
        while True:
            request = self._session.request(call, self._http)
            try:
                answer = self._http.send(request)
                if answer.is_success:
                    return answer
                raise error_of(answer)
            except (httpx.TransportError, ApiError) as error:
                wait = attempts.wait_after(error)
            time.sleep(wait)
