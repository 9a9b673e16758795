"""The topics that consumers subscribe to, from the metadata of their JoinGroup.

Source: ConsumerProtocol.deserializeSubscription, Kafka 4.3.1.
"""

import struct
from typing import Final

from kraft_core.broker.coordinator.classic_group import ClassicGroup, GroupState
from kraft_core.protocol.codec import decode_prefix
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import ConsumerProtocolSubscription

_VERSION: Final = struct.Struct(">h")


def subscribed_topics(group: ClassicGroup) -> frozenset[str]:
    """Return the topics of all members; none for a group of another type.

    Members with unreadable metadata are skipped.
    """
    if group.protocol_type != "consumer" or group.protocol is None or group.state is GroupState.EMPTY:
        return frozenset()
    topics: set[str] = set()
    newest = ConsumerProtocolSubscription.VERSIONS[1]
    for member in group.members.values():
        metadata = member.metadata(group.protocol)
        try:
            (version,) = _VERSION.unpack_from(metadata)
            version = min(max(version, 0), newest)
            subscription, _ = decode_prefix(ConsumerProtocolSubscription, version, metadata, _VERSION.size)
        except (struct.error, KafkaError):
            continue
        topics.update(subscription.topics)
    return frozenset(topics)
