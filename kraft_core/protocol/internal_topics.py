"""Topics that Kafka keeps for itself. Source: Topic, Kafka 4.3.1."""

from typing import Final

METADATA_TOPIC: Final = "__cluster_metadata"
"""The metadata log; it has one partition, and no record of the log names it."""
METADATA_PARTITION: Final = 0

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, "__share_group_state"})
"""The topics of the brokers' coordinators, which clients see marked as internal."""
