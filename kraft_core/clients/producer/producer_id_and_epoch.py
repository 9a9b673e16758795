"""The id and the epoch that a broker gave a producer. Source: ProducerIdAndEpoch, Kafka 4.3.1."""

from typing import Final, NamedTuple

EPOCH_MAX: Final = 2**15 - 1


class ProducerIdAndEpoch(NamedTuple):
    """A producer's id and epoch; both are -1 before a broker gave them."""

    producer_id: int
    epoch: int

    @property
    def is_valid(self) -> bool:
        """Whether a broker gave this id."""
        return self.producer_id >= 0


NONE: Final = ProducerIdAndEpoch(-1, -1)
