"""What an accumulator keeps of each topic: its queues, its sticky partition, and how well its records compress.

Source: RecordAccumulator.TopicInfo and NodeLatencyStats, CompressionRatioEstimator of Kafka 4.3.1; KIP-794.
"""

from collections import deque
from random import Random
from typing import Final

from kraft_core.clients.client_metadata import ClientMetadata
from kraft_core.clients.producer.partitioner import BuiltInPartitioner
from kraft_core.clients.producer.producer_batch import ProducerBatch
from kraft_core.protocol.batch_header import HEADER_BYTES

_RATIO_IMPROVING_STEP: Final = 0.005
_RATIO_DETERIORATE_STEP: Final = 0.05
_RATIO_FACTOR: Final = 1.05
_RATIO_LEAST: Final = 0.001


class NodeLatencyStats:
    """When each node last had batches to send, and when it last could take them. 0 ms as the limit turns it off."""

    def __init__(self, availability_timeout_ms: int) -> None:
        self._timeout_ms = availability_timeout_ms
        self._ready_and_drain_ms: dict[int, tuple[float, float]] = {}

    def update(self, node_id: int, now_ms: float, *, can_drain: bool) -> None:
        """Take note that a node has batches to send, and whether it can take them."""
        if self._timeout_ms > 0:
            _, drain_ms = self._ready_and_drain_ms.get(node_id, (now_ms, now_ms))
            self._ready_and_drain_ms[node_id] = now_ms, now_ms if can_drain else drain_ms

    def is_available(self, node_id: int) -> bool:
        """Whether the node took batches within the limit."""
        ready_ms, drain_ms = self._ready_and_drain_ms.get(node_id, (0, 0))
        return self._timeout_ms <= 0 or ready_ms - drain_ms <= self._timeout_ms


class TopicInfo:
    """One topic. `has_load_stats` says whether the queues were compared since the last check for due batches."""

    __slots__ = (
        "_available",
        "_compression_ratio",
        "_is_adaptive",
        "_seen_changes",
        "_topic",
        "batches",
        "has_load_stats",
        "last_used_ms",
        "partitioner",
        "value_bytes",
    )

    def __init__(self, topic: str, batch_size: int, random: Random, *, is_adaptive: bool) -> None:
        self.batches: dict[int, deque[ProducerBatch]] = {}
        self.partitioner = BuiltInPartitioner(batch_size, random)
        self.has_load_stats = False
        self.last_used_ms: float = 0
        self.value_bytes = -1  # of the last record whose partition was chosen here
        self._topic = topic
        self._available: list[int] = []
        self._seen_changes = -1
        self._compression_ratio = 1.0
        self._is_adaptive = is_adaptive

    # Records without a key

    def draw_partition(self, metadata: ClientMetadata, nodes: NodeLatencyStats) -> None:
        """Draw the next partition for records without a key, by the length of the queues.

        The one before is kept while the metadata lacks the topic, as after an answer of a broker that has just started.
        """
        found = metadata.topics.get(self._topic)
        known = {} if found is None else found.partitions
        if not known:
            self.partitioner.draw([max(0, self.partitioner.partition)], 1)
            return
        if not self.has_load_stats or self._seen_changes != metadata.changes:
            self.has_load_stats, self._seen_changes = True, metadata.changes
            self._available = [index for index, each in known.items() if each.leader in metadata.nodes]
            compared: list[int] = []
            if self._is_adaptive and len(self.batches) >= len(known):  # every partition has had a batch
                compared = [index for index in self._available if nodes.is_available(known[index].leader)]
            sizes = [len(self.batches[index]) for index in compared]
            self.partitioner.update_partition_load_stats(sizes, compared, len(known))
        self.partitioner.draw(self._available, len(known))

    # Compression

    def content_limit(self, write_limit: int, content_limit_max: int) -> int:
        """Return how many uncompressed bytes are expected to fill a batch of `write_limit` bytes."""
        expected = (write_limit - HEADER_BYTES) / max(self._compression_ratio * _RATIO_FACTOR, _RATIO_LEAST)
        return min(HEADER_BYTES + int(expected), content_limit_max)

    def observe_compression(self, batch: ProducerBatch) -> None:
        """Follow the ratio of a closed batch: at once if it is worse than expected, slowly if it is better."""
        observed, expected = batch.compression_ratio(), self._compression_ratio
        if observed > expected:
            self._compression_ratio = max(expected + _RATIO_DETERIORATE_STEP, observed)
        elif observed < expected:
            self._compression_ratio = max(expected - _RATIO_IMPROVING_STEP, observed)

    def observe_split(self, batch: ProducerBatch) -> None:
        """Expect no shrinking any more, after a batch was found too large."""
        self._compression_ratio = max(1.0, batch.compression_ratio())
