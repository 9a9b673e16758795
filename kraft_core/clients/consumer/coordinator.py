"""What the consumer's core asks of a group membership; the classic and the KIP-848 membership implement it.

The core calls `step` in every turn, whether or not the application waits in `KafkaConsumer.poll`: heartbeats, the
lookup of the coordinator, commits in flight. It calls `poll` only while the application waits there: that call marks
the records handed out before as processed (auto commit), restarts max.poll.interval.ms, and is where partitions may be
revoked and assigned. So no partition is given up between two polls while its records are being processed.

A listener is called by the front: a membership sets `pending_callback`, makes no further progress with its rebalance,
and continues with `callback_completed`. The core does the same at once if there is no listener.

Requests carry a callable `(request, now_ms)` as context, which the core calls when they are completed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_group_metadata import ConsumerGroupMetadata
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.pending import Pending


class CallbackKind(Enum):
    """The methods of ConsumerRebalanceListener."""

    ASSIGNED = "on_partitions_assigned"
    REVOKED = "on_partitions_revoked"
    LOST = "on_partitions_lost"


@dataclass(frozen=True, slots=True)
class RebalanceCallback:
    """A call of the rebalance listener that a membership waits for."""

    kind: CallbackKind
    partitions: tuple[TopicPartition, ...]


class Coordinator(Protocol):
    """A consumer's membership in a group, and the group's committed offsets. Times are ms of a monotonic clock."""

    @property
    def pending_callback(self) -> RebalanceCallback | None:
        """The call of the listener that is waited for."""

    def callback_completed(self, callback: RebalanceCallback, error: Exception | None, now_ms: float) -> None:
        """Continue a rebalance after the listener returned or raised `error`."""

    def step(self, now_ms: float) -> None:
        """Do what is due: find the coordinator, send heartbeats and commits, retry."""

    def poll(self, now_ms: float) -> None:
        """Advance the membership: the application waits for records. Raises errors that the application must see."""

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """Return when `step` has something to do without an event; None for never."""

    def metadata_changed(self, now_ms: float) -> None:
        """Take new metadata: topics of the subscription may have come, gone or grown."""

    def subscription_changed(self, now_ms: float) -> None:
        """Take a changed subscription, or its end."""

    def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: float | None, now_ms: float
    ) -> Pending[None]:
        """Commit offsets; retriable errors are retried until the deadline. None stands for one attempt.

        Commits end in the order in which they were asked for. A commit of nothing ends after those before it.
        """

    def fetch_committed_offsets(
        self, partitions: Collection[TopicPartition], deadline_ms: float, now_ms: float
    ) -> Pending[dict[TopicPartition, OffsetAndMetadata | None]]:
        """Look up committed offsets, None where there is none; retriable errors are retried until the deadline."""

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group and the member's present generation."""

    def enforce_rebalance(self, reason: str, now_ms: float) -> None:
        """Join again at the next poll (KIP-568)."""

    def unsubscribe(self, now_ms: float) -> Pending[None]:
        """Give up all partitions, through the listener, and leave the group.

        When it is done the owner ends the subscription. It fails if the listener raised an error.
        """

    def close(self, deadline_ms: float, now_ms: float) -> Pending[None]:
        """Commit if enable.auto.commit is set, and leave the group; done at the deadline at the latest.

        The listener was called by then, or `pending_callback` is served meanwhile.
        """
