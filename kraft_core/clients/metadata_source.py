"""Where a process gets the committed metadata from: its own controller, or an observer of somebody else's.

The broker role and the web process read metadata through this protocol alone, so that neither knows
whether the quorum lives in the same process. Source: Kafka's MetadataPublisher, turned round.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kraft_core.image.metadata_image import MetadataImage
    from kraft_core.protocol.wire import Message

log = logging.getLogger(__name__)

MetadataListener = Callable[["MetadataImage", "MetadataImage", Sequence["Message"]], None]
"""Called with (old image, new image, the records between them).

The records are those of the committed batches, in order. After a snapshot was loaded they are empty
although the images differ: then only the images themselves tell what changed.
"""


class MetadataListeners:
    """Who is told of each change of an image. A listener's own fault is logged and stops nobody else."""

    __slots__ = ("_listeners", "failures")

    def __init__(self) -> None:
        self.failures = 0
        self._listeners: list[MetadataListener] = []

    def add(self, listener: MetadataListener) -> Callable[[], None]:
        """Tell `listener` from now on; the result ends that, and may be called again."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    def tell(self, old: "MetadataImage", new: "MetadataImage", records: "Sequence[Message]") -> None:
        """Call every listener."""
        for listener in tuple(self._listeners):
            try:
                listener(old, new, records)
            except Exception:  # a subscriber's bug must not stop the quorum, nor the reading of it
                self.failures += 1
                log.exception("metadata_listener_failed")


@dataclass(frozen=True, slots=True)
class LeaderEndpoint:
    """Where the active controller listens, as the quorum knows it."""

    node_id: int
    host: str
    port: int


class MetadataSource(Protocol):
    """Committed metadata of the quorum, held in this process."""

    @property
    def image(self) -> "MetadataImage":
        """The newest committed image; `MetadataImage.EMPTY` until the first commit is known."""
        ...

    @property
    def high_watermark(self) -> int:
        """Offset up to which (exclusive) this process knows the log to be committed; -1 when unknown."""
        ...

    def leader(self) -> LeaderEndpoint | None:
        """Return the active controller, or None while the quorum has no leader this process knows of."""
        ...

    def subscribe(self, listener: MetadataListener) -> Callable[[], None]:
        """Call `listener` on the event loop after each change of the image; the result ends the subscription."""
        ...
