"""What all changes of the cluster share: the request, and the wait until this process has read the change.

The controller does not return the offset at which it committed a change. After its response, this process asks the
leader for the high watermark, which lies above the change, waits until its own image has reached that, and finds the
change in the feed. So the next read from this process includes the change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from app.cluster.dry_run import dry_run_response
from app.cluster.history import History
from app.cluster.quorum_watch import QuorumWatch
from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.clients.metadata_observer import MetadataObserver
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.metadata_records import MetadataRecord
from kraft_core.protocol.wire import Message

T = TypeVar("T")
Answer = TypeVar("Answer", bound=Message)


@dataclass(frozen=True, slots=True)
class Connections:
    """What a change needs: the way to the active controller, and what this process has read of the log.

    `timeout_ms` bounds each change, including the wait until this process has read it.
    """

    client: ControllerClient
    observer: MetadataObserver
    history: History
    quorum: QuorumWatch
    timeout_ms: int


class Changes:
    """Base of all changes.

    All raise KafkaError when the controller refuses, and a subclass of ConnectionError when none can be reached.
    """

    def __init__(self, connections: Connections) -> None:
        self._client = connections.client
        self._observer = connections.observer
        self._history = connections.history
        self._quorum = connections.quorum
        self._timeout_ms = connections.timeout_ms

    async def _ask(self, request: Message, answer: type[Answer], *, dry_run: bool = False) -> Answer:
        """Send a request to the active controller and return its response, an instance of `answer`.

        A dry run is for requests without a validate-only field: `dry_run_response` evaluates it here, on the newest
        image.
        """
        if dry_run:
            return dry_run_response(self._observer.image, request, answer)
        return cast("Answer", await self._client.request(request, self._timeout_ms))

    async def _committed(self, before: int, wanted: Callable[[MetadataRecord], bool]) -> int:
        """Wait until this process has read everything that is committed now. Returns the offset of the change.

        A change without effect, such as a config set to its present value, writes no record. Then the last offset read
        is returned: the cluster has the requested state at that offset.
        """
        last_offset = await self._quorum.high_watermark(self._timeout_ms) - 1
        if not await self._observer.wait_for_offset(last_offset, self._timeout_ms):
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The change is committed, but this process has not read the log up to offset {last_offset} yet.",
            )
        found = self._history.find(before, wanted)
        return last_offset if found is None else found


def only(results: tuple[T, ...]) -> T:
    """Return the only result of a request about one resource. Raises KafkaError UNKNOWN_SERVER_ERROR otherwise."""
    return all_of(1, results)[0]


def all_of(count: int, results: tuple[T, ...]) -> tuple[T, ...]:
    """Return the results of a request about so many resources. Raises KafkaError UNKNOWN_SERVER_ERROR otherwise."""
    if len(results) != count:
        text = f"The controller returned {len(results)} results, not {count}."
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    return results


def raise_for(code: int, message: str | None) -> None:
    """Raise KafkaError for an error code other than NONE."""
    if code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(code), message or None)
