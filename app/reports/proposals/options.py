"""The options of a proposal: its goals, what may be touched, and how much."""

from dataclasses import dataclass, field
from typing import Final

REPAIR: Final = "repair"
BALANCE: Final = "balance"
BYTES: Final = "bytes"
LEADERS: Final = "leaders"
DRAIN: Final = "drain"
EXPAND: Final = "expand"
REPLICATION_FACTOR: Final = "replication_factor"
MOVE: Final = "move"
GOALS: Final = (REPAIR, BALANCE, BYTES, LEADERS, DRAIN, EXPAND, REPLICATION_FACTOR, MOVE)

DEFAULT_GOALS: Final = frozenset({REPAIR, BALANCE, LEADERS})
DEFAULT_TOLERANCE_PERCENT: Final = 5
MAX_REPLICATION_FACTOR: Final = 63


class InvalidOptionsError(ValueError):
    """The options contradict each other, or one of them is out of range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a proposal is for. Brokers are ids.

    goals:
      repair              replicas that break the rack rule, or are offline on a broker that is fenced or gone, or in a
                          lost log directory, are replaced
      balance             every broker's number of replicas comes into its band
      bytes               replicas of the fullest and the emptiest brokers of a rack change places, so that the bytes of
                          each broker come near its share and no number of replicas changes
      leaders             the first replicas change so that the busiest broker leads as few partitions as possible
      drain               `drain_brokers` and `drain_racks` become empty; `drain_replicas` (topic, partition, broker id)
                          move to other brokers, and their brokers get no replica
      expand              `expand_brokers` (default: the eligible brokers without replicas) are filled to their bands
      replication_factor  the partitions in scope get `replication_factor` replicas
      move                the partitions in scope leave every broker but `target_brokers`; the racks of other brokers
                          no longer count for the rack rule

    topics: the names in scope, None for all; partitions: the same for single ones (topic, partition).
    exclude_topics: left as they are. exclude_brokers: keep their replicas and get no more. max_moves, max_bytes: budget
    of replicas to copy and of their bytes; replicas of unknown size count as 0 bytes. tolerance_percent: how far from
    its exact share of replicas or bytes a broker may be.
    """

    goals: frozenset[str] = DEFAULT_GOALS
    drain_brokers: frozenset[int] = frozenset()
    drain_racks: frozenset[str] = frozenset()
    drain_replicas: frozenset[tuple[str, int, int]] = frozenset()
    expand_brokers: frozenset[int] = frozenset()
    replication_factor: int | None = None
    target_brokers: frozenset[int] = frozenset()
    topics: frozenset[str] | None = None
    partitions: frozenset[tuple[str, int]] | None = None
    exclude_topics: frozenset[str] = field(default_factory=frozenset)
    exclude_brokers: frozenset[int] = frozenset()
    max_moves: int | None = None
    max_bytes: int | None = None
    tolerance_percent: int = DEFAULT_TOLERANCE_PERCENT

    def __post_init__(self) -> None:
        """Check the options against each other. Raises InvalidOptionsError."""
        unknown = sorted(self.goals - set(GOALS))
        if unknown or not self.goals:
            named = f"goal '{unknown[0]}' is unknown" if unknown else "no goal is given"
            raise InvalidOptionsError(f"{named}; allowed: {', '.join(GOALS)}")
        draining = bool(self.drain_brokers or self.drain_racks or self.drain_replicas)
        if draining != (DRAIN in self.goals):
            raise InvalidOptionsError("the goal 'drain' needs brokers, racks or replicas to drain, and they it")
        if self.expand_brokers and EXPAND not in self.goals:
            raise InvalidOptionsError("brokers to expand to need the goal 'expand'")
        if {EXPAND, BALANCE} <= self.goals:
            raise InvalidOptionsError("the goals 'expand' and 'balance' exclude each other: balance fills new brokers")
        if (self.replication_factor is not None) != (REPLICATION_FACTOR in self.goals):
            raise InvalidOptionsError("the goal 'replication_factor' needs a replication factor, and it the goal")
        if self.replication_factor is not None and not 1 <= self.replication_factor <= MAX_REPLICATION_FACTOR:
            raise InvalidOptionsError(
                f"replication factor {self.replication_factor} is out of range; allowed: 1 to {MAX_REPLICATION_FACTOR}"
            )
        if bool(self.target_brokers) != (MOVE in self.goals):
            raise InvalidOptionsError("the goal 'move' needs target brokers, and they it")
        if MOVE in self.goals and self.goals - {MOVE, LEADERS}:
            raise InvalidOptionsError("the goal 'move' can be combined with 'leaders' only")
        for name in ("max_moves", "max_bytes"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InvalidOptionsError(f"{name} is {value}; allowed: 0 or more")
        if not 0 <= self.tolerance_percent <= 100:
            raise InvalidOptionsError(f"tolerance_percent is {self.tolerance_percent}; allowed: 0 to 100")


DEFAULT_OPTIONS: Final = Options()
"""The default plan: repair, balance and leaders."""
