"""MetadataSource: the committed metadata in this process, from its own controller or from an observer of the quorum.

The broker role and the web process read metadata through this protocol only, so that they need not know
whether a controller runs in the same process. Compare MetadataPublisher and KRaftMetadataCache, Kafka 4.3.1.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.wire import Message

log = logging.getLogger(__name__)

MetadataListener = Callable[[MetadataImage, MetadataImage, Sequence[Message]], None]
"""Called with (old image, new image, the records between them).

The records are those of the committed batches, in order. After a snapshot was loaded there are none,
although the images differ: compare the images then.
"""


class MetadataListeners:
    """The listeners to changes of an image. An exception of one is logged, counted and does not stop the others."""

    __slots__ = ("_listeners", "failures")

    def __init__(self) -> None:
        self.failures = 0
        self._listeners: list[MetadataListener] = []

    def add(self, listener: MetadataListener) -> Callable[[], None]:
        """Call `listener` from now on; the result ends the subscription and may be called twice."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    def notify(self, old: MetadataImage, new: MetadataImage, records: Sequence[Message]) -> None:
        """Call every listener."""
        for listener in tuple(self._listeners):
            try:
                listener(old, new, records)
            except Exception:  # a subscriber's bug must not stop the controller or the observer
                self.failures += 1
                log.exception("metadata_listener_failed")


@dataclass(frozen=True, slots=True)
class LeaderEndpoint:
    """Node id and address of the active controller, as the quorum knows them."""

    node_id: int
    host: str
    port: int


class MetadataSource(Protocol):
    """Committed metadata of the quorum, held in this process."""

    @property
    def image(self) -> MetadataImage:
        """The newest committed image; `MetadataImage.EMPTY` until the first commit is known."""
        ...

    @property
    def high_watermark(self) -> int:
        """Offset up to which (exclusive) this process knows the log to be committed; -1 when unknown."""
        ...

    def leader(self) -> LeaderEndpoint | None:
        """Return the active controller, None while this process knows no leader."""
        ...

    def subscribe(self, listener: MetadataListener) -> Callable[[], None]:
        """Call `listener` on the event loop after each change of the image; the result ends the subscription."""
        ...
