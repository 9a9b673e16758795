"""The topics that consumers subscribe to, from the metadata of their JoinGroup.

Source: ConsumerProtocol.deserializeSubscription, Kafka 4.3.1.
"""

from kraft_core.broker.coordinator.classic_group import ClassicGroup, GroupState
from kraft_core.protocol.consumer_protocol import PROTOCOL_TYPE, decode_consumer_protocol
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import ConsumerProtocolSubscription


def subscribed_topics(group: ClassicGroup) -> frozenset[str]:
    """Return the topics of all members; none for a group of another type.

    Members with unreadable metadata are skipped.
    """
    if group.protocol_type != PROTOCOL_TYPE or group.protocol is None or group.state is GroupState.EMPTY:
        return frozenset()
    topics: set[str] = set()
    for member in group.members.values():
        try:
            subscription = decode_consumer_protocol(ConsumerProtocolSubscription, member.metadata(group.protocol))
        except KafkaError:
            continue
        topics.update(subscription.topics)
    return frozenset(topics)
