"""A proposal: the changes, the numbers before and after, the bound, and what stays unsolved."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from app.reports.proposals.options import Options
from app.texts import phrase

IN_FLIGHT: Final = "in_flight"
OFFLINE: Final = "offline"
EXCLUDED_TOPIC: Final = "excluded_topic"
NO_TARGET: Final = "no_target"
TOO_FEW_BROKERS: Final = "too_few_brokers"
OUT_OF_BAND: Final = "out_of_band"
BUDGET: Final = "budget"
UNEVEN_BYTES: Final = "uneven_bytes"
UNSOLVED_REASONS: Final = {
    IN_FLIGHT: str(phrase("a reassignment of the partition is in progress")),
    OFFLINE: str(phrase("the partition has no leader to copy from")),
    EXCLUDED_TOPIC: str(phrase("the topic is excluded")),
    NO_TARGET: str(
        phrase("no eligible broker may take the replica: the rack rule, full disks or exclusions forbid the others")
    ),
    TOO_FEW_BROKERS: str(phrase("fewer brokers may hold replicas than the partition has replicas")),
    OUT_OF_BAND: str(phrase("no allowed move brings the broker into its band")),
    UNEVEN_BYTES: str(
        phrase("no allowed swap of two replicas in its rack brings the broker's bytes nearer to its share")
    ),
    BUDGET: str(phrase("the budget of moves or bytes is used up")),
}
"""Reason code to its sentence."""


@dataclass(frozen=True, slots=True)
class Change:
    """A partition whose assignment changes. Replicas are broker ids; `size_bytes` is that of one replica."""

    topic: str
    topic_id: UUID
    partition: int
    current: tuple[int, ...]
    proposed: tuple[int, ...]
    leader: int
    new_leader: int
    size_bytes: int | None

    @property
    def added(self) -> tuple[int, ...]:
        """Brokers that get a replica."""
        return tuple(broker for broker in self.proposed if broker not in self.current)

    @property
    def removed(self) -> tuple[int, ...]:
        """Brokers that lose theirs."""
        return tuple(broker for broker in self.current if broker not in self.proposed)


@dataclass(frozen=True, slots=True)
class Unsolved:
    """What the proposal leaves as it is, and why.

    `reason` is a key of UNSOLVED_REASONS. `count` is of replicas, of partitions for the first three reasons, and of
    brokers for UNEVEN_BYTES.
    `examples`: up to EXAMPLES partitions (topic, number), or none. `brokers`: ids of the brokers concerned, or none.
    """

    reason: str
    count: int
    examples: tuple[tuple[str, int], ...] = ()
    brokers: tuple[int, ...] = ()


EXAMPLES: Final = 20


@dataclass(frozen=True, slots=True)
class BrokerNumbers:
    """A broker's numbers before or after. The band is None for a broker that is not part of the balance."""

    broker_id: int
    rack: str | None
    replicas: int
    leaders: int
    preferred: int
    low: int | None
    high: int | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Numbers:
    """A layout in numbers. `rack_moves`: replicas that break the rack rule. `offline_replicas`: see Layout.

    `excess` and `deficit`: replicas above and below the bands.
    """

    brokers: tuple[BrokerNumbers, ...]
    replicas: int
    excess: int
    deficit: int
    rack_violated: int
    rack_moves: int
    offline_replicas: int
    max_leaders: int
    non_preferred: int


@dataclass(frozen=True, slots=True)
class ByteShare:
    """The bytes of the fullest and of the emptiest broker of a rack that may get replicas, before and after.

    `rack` None: the brokers without one. `bound`: with the replicas that the rack has after the plan, the fullest
    broker cannot have less. It is the largest of three: the bytes divided by the brokers, the largest replica, and the
    bytes on one broker that may not move.
    """

    rack: str | None
    brokers: int
    before_max: int
    before_min: int
    after_max: int
    after_min: int
    bound: int

    @property
    def gap(self) -> int:
        """Bytes of the fullest broker above the bound: at most so many could be saved."""
        return self.after_max - self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A plan for one layout, or the reasons why none is made (`refused`; it has no changes then).

    moves: replicas to copy. bytes: their size as far as known, None if no size is known; `moves_of_unknown_size` are
    not in it. bound: no plan with the same result copies fewer replicas. exact: the number of moves is the fewest
    possible. leader_changes: partitions whose leader changes, `leader_bound` the fewest for the same maximum;
    leader_optimum: the fewest partitions that the busiest broker can lead without moving data after the moves.
    elections: partitions whose preferred leader must be elected when the assignments are complete. swaps: pairs of
    replicas that change places for the goal `bytes`; byte_shares: what this does to each rack.
    """

    options: Options
    offset: int
    epoch: int
    refused: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    elections: tuple[tuple[str, int], ...] = ()
    moves: int = 0
    bytes: int | None = None
    moves_of_unknown_size: int = 0
    bound: int = 0
    exact: bool = False
    leader_changes: int = 0
    leader_bound: int = 0
    leader_optimum: int | None = None
    before: Numbers | None = None
    after: Numbers | None = None
    unsolved: tuple[Unsolved, ...] = ()
    swaps: int = 0
    byte_shares: tuple[ByteShare, ...] = ()

    @property
    def gap(self) -> int:
        """Moves above the bound: at most so many could be saved."""
        return self.moves - self.bound
