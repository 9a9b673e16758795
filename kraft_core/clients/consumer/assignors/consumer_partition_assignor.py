"""The contract of an assignor: subscriptions of all members in, an assignment for each member out.

Source: ConsumerPartitionAssignor, AbstractPartitionAssignor of Kafka 4.3.1; KIP-54, KIP-341, KIP-429, KIP-881.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, Protocol

from kraft_core.clients.client_metadata import Node, TopicInfo, TopicPartition

DEFAULT_GENERATION: Final = -1
"""The generation of a member that has none yet."""


class RebalanceProtocol(IntEnum):
    """Whether a member gives up all its partitions before each rebalance (EAGER) or only those that move."""

    EAGER = 0
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member tells the leader. `owned_partitions` belonged to it in `generation_id`; -1 is none or unknown."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = DEFAULT_GENERATION
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader gives one member."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


class Cluster(Protocol):
    """The brokers and topics that an assignor sees; `ClientMetadata` is one."""

    @property
    def nodes(self) -> Mapping[int, Node]:
        """The brokers by id."""
        ...

    @property
    def topics(self) -> Mapping[str, TopicInfo]:
        """The topics by name."""
        ...


class ConsumerPartitionAssignor(ABC):
    """A rule that divides the partitions of a classic group. One object serves one consumer and may keep state.

    `name` identifies the rule within the group: the coordinator picks one that all members offer.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 0

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return the bytes to send to the leader with the subscription to `topics`, or None."""
        return None

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:  # noqa: B027 - optional
        """Take note of what this member received in a generation. The default does nothing."""

    def supported_protocols(self) -> tuple[RebalanceProtocol, ...]:
        """Return the rebalance protocols that this rule works with."""
        return (RebalanceProtocol.EAGER,)

    @abstractmethod
    def assign(self, cluster: Cluster, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        """Return one assignment for each member id in `subscriptions`. Topics without metadata are left out."""
