"""How a change is sent and when it is finished: what all changes of the cluster share.

The controller does not tell at which offset it committed a change, so after its answer the leader is asked for the high
watermark, which lies above the change; this process waits until its own image is there, and then looks the change up in
the feed. So who reads next from this process reads the change.
"""

from collections.abc import Callable
from typing import TypeVar, cast

from app.cluster.history import History
from app.cluster.quorum_watch import QuorumWatch
from app.cluster.rehearsal import rehearse
from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.clients.metadata_observer import MetadataObserver
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.metadata_records import MetadataRecord
from kraft_core.protocol.wire import Message

T = TypeVar("T")
Answer = TypeVar("Answer", bound=Message)


class Changes:
    """Base of the changes one can make. `timeout_ms` bounds each of them, the waiting included.

    All raise KafkaError for what the controller refuses and ConnectionError subclasses while there is none.
    """

    def __init__(
        self,
        client: ControllerClient,
        observer: MetadataObserver,
        history: History,
        quorum: QuorumWatch,
        timeout_ms: int,
    ) -> None:
        self._client = client
        self._observer = observer
        self._history = history
        self._quorum = quorum
        self._timeout_ms = timeout_ms

    async def _ask(self, request: Message, answer: type[Answer], *, dry_run: bool = False) -> Answer:
        """Send a request to the active controller; `answer` is the class of what comes back.

        A dry run is for requests that have no validate-only: it is judged here, on the newest image. See rehearsal.
        """
        if dry_run:
            return rehearse(self._observer.image, request, answer)
        return cast("Answer", await self._client.request(request, self._timeout_ms))

    async def _committed(self, before: int, wanted: Callable[[MetadataRecord], bool]) -> int:
        """Wait until this process has all that is committed now; return the offset of the change itself.

        A change that changed nothing (a config set to what it was) has no record: then the offset up to which the log
        was read is returned, since the cluster has what was asked for there.
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
    """Return the one result of a request about one thing. Raises KafkaError UNKNOWN_SERVER_ERROR for any other number."""
    if len(results) != 1:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The controller answered {len(results)} results for one.")
    return results[0]


def raise_for(code: int, message: str | None) -> None:
    """Raise the KafkaError that an answer carries, if it carries one."""
    if code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(code), message or None)
