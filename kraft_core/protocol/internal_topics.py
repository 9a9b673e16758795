"""Kafka's internal topics. Source: Topic, Kafka 4.3.1."""

from typing import Final

METADATA_TOPIC: Final = "__cluster_metadata"
"""The metadata log; it has one partition, and there is no TopicRecord for it."""
METADATA_PARTITION: Final = 0

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, "__share_group_state"})
"""The topics of the brokers' coordinators; clients see them as internal."""
