"""Which partition a record goes to: by a hash of its key, or sticky without one.

Records with equal keys go to the same partition as with Apache's clients. Records without a key fill a batch for one
partition before the next partition is drawn; partitions with shorter queues are drawn more often (KIP-794).

Source: Utils.murmur2, BuiltInPartitioner of Kafka 4.3.1.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from struct import Struct
from typing import Final

_MASK: Final = 0xFFFFFFFF
_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_WORDS: Final = [Struct(f"<{count}I").unpack_from for count in range(65)]


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash of `data` as Java's clients compute it, as an unsigned number."""
    length = len(data)
    h = _SEED ^ length
    words = length >> 2
    unpack = _WORDS[words] if words <= 64 else Struct(f"<{words}I").unpack_from
    for k in unpack(data):
        k = k * _M & _MASK  # noqa: PLW2901  # the steps of the algorithm
        h = (h * _M ^ (k ^ k >> 24) * _M) & _MASK
    rest = length & 3
    if rest:
        h = (h ^ int.from_bytes(data[-rest:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key among `partitions`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class BuiltInPartitioner:
    """The partition that records of one topic without a key go to now.

    `partition` is -1 before the first is drawn. `produced_bytes` counts what was appended to it since it was drawn.
    """

    __slots__ = ("_cumulative", "_ids", "_random", "partition", "produced_bytes", "sticky_batch_size")

    def __init__(self, sticky_batch_size: int, random: Random) -> None:
        self.sticky_batch_size = max(1, sticky_batch_size)
        self.partition = -1
        self.produced_bytes = 0
        self._random = random
        self._cumulative: list[int] = []
        self._ids: Sequence[int] = ()

    def draw(self, available: Sequence[int], partition_count: int) -> None:
        """Draw the next partition: by load where it differs, else from those with a leader, else from all."""
        self.produced_bytes = 0
        if self._cumulative:
            drawn = self._random.randrange(self._cumulative[-1])
            self.partition = self._ids[bisect_right(self._cumulative, drawn)]
        elif available:
            self.partition = available[self._random.randrange(len(available))]
        else:
            self.partition = self._random.randrange(partition_count)

    def update_partition_load_stats(self, queue_sizes: Sequence[int], partition_ids: Sequence[int], total: int) -> None:
        """Take the queue lengths of the available partitions, of `total`; none of them for an even choice.

        A partition is drawn with a weight of the longest queue's length + 1 less its own length.
        """
        self._cumulative, self._ids = [], ()
        if not queue_sizes or total < 2:
            return
        longest = max(queue_sizes)
        if len(queue_sizes) == total and min(queue_sizes) == longest:
            return
        self._cumulative = list(accumulate(longest + 1 - size for size in queue_sizes))
        self._ids = partition_ids

    def is_switch_due(self, *, all_batches_full: bool) -> bool:
        """Whether a batch's worth was produced and the last batch is full, or twice as much in any case."""
        produced = self.produced_bytes
        return produced >= self.sticky_batch_size and (all_batches_full or produced >= 2 * self.sticky_batch_size)
