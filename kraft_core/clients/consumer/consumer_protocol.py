"""Subscriptions and assignments of a classic consumer group as members send them. Source: ConsumerProtocol, 4.3.1."""

from collections.abc import Iterable
from itertools import groupby

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import Assignment, Subscription
from kraft_core.protocol.consumer_protocol import decode_consumer_protocol, encode_consumer_protocol
from kraft_core.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kraft_core.protocol.messages.consumer_groups import (
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscriptionTopicPartition,
)


def encode_subscription(subscription: Subscription) -> bytes:
    """Return what a member sends to join."""
    owned = tuple(
        ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=indexes)
        for topic, indexes in _by_topic(sorted(subscription.owned_partitions))
    )
    return encode_consumer_protocol(
        ConsumerProtocolSubscription(
            topics=tuple(sorted(subscription.topics)),
            user_data=subscription.user_data,
            owned_partitions=owned,
            generation_id=subscription.generation_id,
            rack_id=subscription.rack_id,
        )
    )


def decode_subscription(data: bytes, group_instance_id: str | None = None) -> Subscription:
    """Return a member's subscription. Raises DecodeError."""
    message = decode_consumer_protocol(ConsumerProtocolSubscription, data)
    return Subscription(
        topics=message.topics,
        user_data=message.user_data,
        owned_partitions=tuple(
            TopicPartition(each.topic, index) for each in message.owned_partitions for index in each.partitions
        ),
        generation_id=message.generation_id,
        rack_id=message.rack_id or None,
        group_instance_id=group_instance_id,
    )


def encode_assignment(assignment: Assignment) -> bytes:
    """Return what the leader sends for one member."""
    topics: dict[str, list[int]] = {}
    for topic, index in assignment.partitions:
        topics.setdefault(topic, []).append(index)
    assigned = tuple(
        ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=tuple(indexes))
        for topic, indexes in topics.items()
    )
    return encode_consumer_protocol(
        ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=assignment.user_data)
    )


def decode_assignment(data: bytes) -> Assignment:
    """Return a member's assignment. Raises DecodeError."""
    message = decode_consumer_protocol(ConsumerProtocolAssignment, data)
    partitions = (
        TopicPartition(each.topic, index) for each in message.assigned_partitions for index in each.partitions
    )
    return Assignment(tuple(partitions), message.user_data)


def _by_topic(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, tuple[int, ...]]]:
    for topic, group in groupby(partitions, key=lambda each: each.topic):
        yield topic, tuple(index for _, index in group)
