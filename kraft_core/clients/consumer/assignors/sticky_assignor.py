"""StickyAssignor: balanced first, then as few moves as possible; members give up everything before each rebalance.

Members report what they own in their user data. Source: StickyAssignor of Kafka 4.3.1; KIP-54, KIP-341.
"""

from collections.abc import Collection
from typing import Annotated

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.assignors.abstract_sticky_assignor import AbstractStickyAssignor, MemberData
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import (
    DEFAULT_GENERATION,
    Assignment,
    Subscription,
)
from kraft_core.protocol.codec import decode_prefix, encode
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.wire import Message, wire


class StickyAssignorTopicAssignment(Message):
    """An element of StickyAssignorUserData.previous_assignment."""

    topic: Annotated[str, wire("string")] = ""
    partitions: Annotated[tuple[int, ...], wire("[]int32")] = ()


class StickyAssignorUserData(Message):
    """What a member owned, and in which generation (v1)."""

    VERSIONS = (0, 1)

    previous_assignment: Annotated[tuple[StickyAssignorTopicAssignment, ...], wire("[]TopicAssignment")] = ()
    generation: Annotated[int, wire("int32", since=1)] = DEFAULT_GENERATION


class StickyAssignor(AbstractStickyAssignor):
    """Kafka's rule `sticky`."""

    name = "sticky"

    def __init__(self) -> None:
        self._assignment: Assignment | None = None
        self._generation = DEFAULT_GENERATION

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Remember the assignment for the next subscription."""
        self._assignment = assignment
        self._generation = generation_id

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return the last assignment and its generation; None before the first."""
        if self._assignment is None:
            return None
        by_topic: dict[str, list[int]] = {}
        for topic, partition in self._assignment.partitions:
            by_topic.setdefault(topic, []).append(partition)
        previous = tuple(
            StickyAssignorTopicAssignment(topic=topic, partitions=tuple(indices)) for topic, indices in by_topic.items()
        )
        return encode(StickyAssignorUserData(previous_assignment=previous, generation=self._generation), 1)

    def member_data(self, subscription: Subscription) -> MemberData:
        """Return what the user data says; bytes that cannot be decoded count as none."""
        if not subscription.user_data:
            return MemberData(())
        for version in (1, 0):
            try:
                data, _ = decode_prefix(StickyAssignorUserData, version, subscription.user_data)
            except KafkaError:
                continue
            owned = [
                TopicPartition(item.topic, partition)
                for item in data.previous_assignment
                for partition in item.partitions
            ]
            return MemberData(owned, data.generation)
        return MemberData(())
