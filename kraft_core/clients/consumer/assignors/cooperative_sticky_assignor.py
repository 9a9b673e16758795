"""CooperativeStickyAssignor: as StickyAssignor, but members keep their partitions during a rebalance.

A partition that changes its owner is given to nobody first, so that the old owner revokes it; the rebalance after
that gives it to the new owner. Source: CooperativeStickyAssignor of Kafka 4.3.1, KIP-429.
"""

import struct
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.assignors.abstract_sticky_assignor import AbstractStickyAssignor, Claims, MemberData
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import (
    DEFAULT_GENERATION,
    Assignment,
    RebalanceProtocol,
    Subscription,
)

_GENERATION: Final = struct.Struct(">i")


class CooperativeStickyAssignor(AbstractStickyAssignor):
    """Kafka's rule `cooperative-sticky`."""

    name = "cooperative-sticky"

    def __init__(self) -> None:
        self._generation = DEFAULT_GENERATION

    def supported_protocols(self) -> tuple[RebalanceProtocol, ...]:
        """Return both: with members of other rules the group is eager."""
        return (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Remember the generation for the next subscription."""
        self._generation = generation_id

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return the generation of the last assignment, for leaders that know no field for it."""
        return _GENERATION.pack(self._generation)

    def member_data(self, subscription: Subscription) -> MemberData:
        """Return the owned partitions with the generation of the field, or else of the user data."""
        generation = subscription.generation_id
        if generation < 0 and subscription.user_data is not None and len(subscription.user_data) >= _GENERATION.size:
            (generation,) = _GENERATION.unpack_from(subscription.user_data)
        return MemberData(subscription.owned_partitions, generation)

    def adjusted(
        self, assignment: Mapping[str, Iterable[TopicPartition]], claims: Claims
    ) -> Mapping[str, Iterable[TopicPartition]]:
        """Leave out what another member still owns."""
        return {
            member: [partition for partition in assigned if claims.is_free_for(partition, member)]
            for member, assigned in assignment.items()
        }
