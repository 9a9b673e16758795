"""The soft state of heartbeats: last contact, metadata offset and controlled shutdown of each broker.

Nothing here is in the log. A new active controller starts with a full session for every unfenced broker.
Source: BrokerHeartbeatManager, BrokerHeartbeatTracker.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraft_core.image.metadata_image import BrokerRegistration, ClusterImage, MetadataImage
    from kraft_core.protocol.messages import BrokerHeartbeatRequest


class BrokerControlState(Enum):
    """State of a broker. The response to a heartbeat follows from the state that it leads to."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def fenced(self) -> bool:
        """Whether the heartbeat response in this state says that the broker is fenced."""
        return self in {BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW}


class BrokerHeartbeatManager:
    """Contacts, reported metadata offsets and controlled shutdowns of the registered brokers, by broker id."""

    __slots__ = ("_contacts", "_metadata_offsets", "_registration_offsets", "_session_timeout_ms", "_shutdown_offsets")

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._contacts: dict[int, tuple[int, int]] = {}  # id -> (broker epoch, ms), oldest contact first
        self._metadata_offsets: dict[int, int] = {}
        self._shutdown_offsets: dict[int, int] = {}
        self._registration_offsets: dict[int, int] = {}

    def activate(self, image: MetadataImage, now_ms: int) -> None:
        """Start a full session for each unfenced broker of the image."""
        self.deactivate()
        for broker in sorted(image.cluster.brokers.values(), key=lambda each: each.id):
            if not broker.fenced:
                self._contacts[broker.id] = (broker.epoch, now_ms)

    def deactivate(self) -> None:
        """Clear all state."""
        self._contacts.clear()
        self._metadata_offsets.clear()
        self._shutdown_offsets.clear()
        self._registration_offsets.clear()

    def touch(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """Record a contact with this epoch of the broker."""
        self._contacts.pop(broker_id, None)
        self._contacts[broker_id] = (broker_epoch, now_ms)

    def has_valid_session(self, broker_id: int, broker_epoch: int, now_ms: int) -> bool:
        """Report whether this epoch of the broker had a contact within the session timeout."""
        epoch, contact_ms = self._contacts.get(broker_id, (-1, 0))
        return epoch == broker_epoch and contact_ms + self._session_timeout_ms >= now_ms

    def last_contact_ms(self, broker_id: int) -> int | None:
        """Return the time of the broker's last contact; None without one since its session expired."""
        contact = self._contacts.get(broker_id)
        return None if contact is None else contact[1]

    def remove_expired(self, now_ms: int) -> tuple[int, int] | None:
        """Remove the broker with the oldest contact if its session has expired; return its id and epoch."""
        for broker_id, (epoch, contact_ms) in self._contacts.items():
            if contact_ms + self._session_timeout_ms < now_ms:
                del self._contacts[broker_id]
                return broker_id, epoch
            break
        return None

    def registered(self, broker_id: int, offset: int, *, new_incarnation: bool) -> None:
        """Record the offset of the broker's registration; a new incarnation starts without contacts."""
        if new_incarnation:
            self.forget(broker_id)
        self._registration_offsets[broker_id] = offset

    def forget(self, broker_id: int) -> None:
        """Remove all state of a broker."""
        self._contacts.pop(broker_id, None)
        self._metadata_offsets.pop(broker_id, None)
        self._shutdown_offsets.pop(broker_id, None)
        self._registration_offsets.pop(broker_id, None)

    def registration_offset(self, broker: BrokerRegistration) -> int:
        """Return the offset that the broker must have read to be caught up.

        Exact for registrations of this active controller; for older ones it is the broker epoch, which is the offset at
        which the batch of the registration starts.
        """
        return self._registration_offsets.get(broker.id, broker.epoch)

    def update(self, broker_id: int, metadata_offset: int, *, fenced: bool) -> None:
        """Record the broker's metadata offset. A fenced broker leaves controlled shutdown."""
        self._metadata_offsets[broker_id] = metadata_offset
        if fenced:
            self._shutdown_offsets.pop(broker_id, None)

    def begin_controlled_shutdown(self, broker_id: int, offset: int) -> None:
        """Record the offset that all active brokers must read before this one may stop. Later calls change nothing."""
        self._shutdown_offsets.setdefault(broker_id, offset)

    def shutting_down(self, broker_id: int) -> bool:
        """Report whether the broker is in controlled shutdown under this controller."""
        return broker_id in self._shutdown_offsets

    def lowest_active_offset(self, cluster: ClusterImage) -> int:
        """Return the lowest offset of an unfenced broker that is not shutting down; 2**63 - 1 without one."""
        return min(
            (
                self._metadata_offsets.get(broker.id, -1)
                for broker in cluster.brokers.values()
                if not broker.fenced and broker.id not in self._shutdown_offsets
            ),
            default=2**63 - 1,
        )

    def next_state(
        self,
        broker: BrokerRegistration,
        request: BrokerHeartbeatRequest,
        cluster: ClusterImage,
        has_leaderships: Callable[[], bool],
    ) -> tuple[BrokerControlState, BrokerControlState]:
        """Return the broker's state, and the state that its heartbeat leads to.

        After a controlled shutdown a broker must register again. Kafka unfences it on a heartbeat, which could elect a
        leader whose registration says that it is shutting down.
        Source: BrokerHeartbeatManager.calculateNextBrokerState.
        """
        state = BrokerControlState
        if self.shutting_down(broker.id):
            shut_down = self._shutdown_offsets[broker.id]
            may_go = not has_leaderships() and shut_down <= self.lowest_active_offset(cluster)
            return state.CONTROLLED_SHUTDOWN, state.SHUTDOWN_NOW if may_go else state.CONTROLLED_SHUTDOWN
        if broker.fenced:
            if request.want_shut_down:
                return state.FENCED, state.SHUTDOWN_NOW
            caught_up = request.current_metadata_offset >= self.registration_offset(broker)
            may_return = caught_up and not request.want_fence and not broker.in_controlled_shutdown
            return state.FENCED, state.UNFENCED if may_return else state.FENCED
        if request.want_fence:
            return state.UNFENCED, state.SHUTDOWN_NOW if request.want_shut_down else state.FENCED
        if request.want_shut_down:
            return state.UNFENCED, state.CONTROLLED_SHUTDOWN if has_leaderships() else state.SHUTDOWN_NOW
        return state.UNFENCED, state.UNFENCED
