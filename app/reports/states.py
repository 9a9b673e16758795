"""The states of partitions, and what the loss of replicas makes of them: one definition for every engine.

A state is what decides about a partition besides the brokers' names: for each position of its assignment whether the
replica stays, is in sync, is online and leads, with the replication factor and the topic's settings. A cluster of a
million partitions has some dozens of states, so an engine only counts (broker, state, position), and the verdicts are
computed here, in plain Python, once for each state and set of lost positions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

TARGET: Final = 1
"""The replica is part of the target: it is not being removed."""
IN_SYNC: Final = 2
ELIGIBLE: Final = 4
"""The replica is an eligible leader replica (KIP-966), in a cluster with ELR enabled."""
ONLINE: Final = 8
LEADER: Final = 16
ADDING: Final = 32

VERDICTS = ("lost", "offline", "unclean", "under_min", "at_min", "ok")
"""Effects on a partition of losing a broker or rack, the worst first. Each partition has exactly one."""
DOWN = ("lost", "offline", "unclean")
"""Verdicts of partitions without a leader."""
REFUSED = (*DOWN, "under_min")
"""Verdicts of partitions that refuse writes with acks=all."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of a partition; `codes` has the sum of the flags of each replica, in assignment order."""

    codes: tuple[int, ...]
    replication_factor: int
    min_isr_config: int
    unclean: bool
    min_isr: int = field(init=False)
    in_sync: int = field(init=False)
    leader: int = field(init=False)

    def __post_init__(self) -> None:
        """Derive the required and present number of in-sync replicas, and the leader's position, -1 for none."""
        leaders = [position for position, code in enumerate(self.codes) if code & LEADER]
        object.__setattr__(self, "min_isr", min(self.min_isr_config, self.replication_factor))
        object.__setattr__(self, "in_sync", sum(1 for code in self.codes if code & IN_SYNC))
        object.__setattr__(self, "leader", leaders[0] if leaders else -1)

    @property
    def margin(self) -> int:
        """In-sync replicas above the number that acks=all requires."""
        return self.in_sync - self.min_isr

    @property
    def target(self) -> int:
        """The number of replicas in the target."""
        return sum(1 for code in self.codes if code & TARGET)

    @property
    def fixable_by_election(self) -> bool:
        """Whether a preferred election changes the leader: it has one, and the first replica is in sync and online."""
        return self.leader > 0 and self.codes[0] & (IN_SYNC | ONLINE) == IN_SYNC | ONLINE


@dataclass(frozen=True, slots=True)
class Outcome:
    """A partition after a loss: its verdict, and the position of the new leader where the old one was lost, else -1."""

    verdict: str
    heir: int


class Outcomes:
    """The outcomes of losing positions, computed once for each (state, lost positions)."""

    def __init__(self, states: Sequence[PartitionState]) -> None:
        self.states = states
        self._found: dict[tuple[int, int], Outcome] = {}

    def after(self, state: int, lost: int) -> Outcome:
        """Return the outcome for the state at this index when the positions in the bit mask `lost` are lost."""
        found = self._found.get((state, lost))
        if found is None:
            found = self._found[state, lost] = outcome(self.states[state], lost)
        return found

    def now(self, state: int) -> str:
        """Return the verdict without a loss."""
        return self.after(state, 0).verdict

    def newly(self, state: int, lost: int) -> tuple[bool, bool, bool]:
        """Return whether the loss newly leaves the partition without leader, unwritable, without any replica."""
        before, after = self.now(state), self.after(state, lost).verdict
        return (
            after in DOWN and before not in DOWN,
            after in REFUSED and before not in REFUSED,
            after == "lost" != before,
        )


def outcome(state: PartitionState, lost: int) -> Outcome:
    """Return the outcome of losing the positions in the bit mask `lost`.

    The new leader is the first replica in assignment order that is in sync and online or, when no in-sync replica is
    left, an online eligible leader replica. Source: PartitionChangeBuilder.electAnyLeader.
    """
    left = [0 if lost >> position & 1 else code for position, code in enumerate(state.codes)]
    in_sync = sum(1 for code in left if code & IN_SYNC)
    leader, heir = state.leader, -1
    if leader >= 0 and lost >> leader & 1:
        able = (IN_SYNC if in_sync else ELIGIBLE) | ONLINE
        leader = heir = next((position for position, code in enumerate(left) if code & able == able), -1)
    if not any(code & TARGET for code in left):
        return Outcome("lost", heir)
    if leader < 0:
        unclean = state.unclean and any(code & ONLINE for code in left)
        return Outcome("unclean" if unclean else "offline", -1)
    if in_sync < state.min_isr:
        return Outcome("under_min", heir)
    return Outcome("at_min" if in_sync == state.min_isr else "ok", heir)


def codes_of(
    replicas: Sequence[int],
    *,
    in_sync: Iterable[int],
    eligible: Iterable[int],
    adding: Iterable[int],
    removing: Iterable[int],
    offline: Iterable[int],
    leader: int,
) -> tuple[int, ...]:
    """Return the codes of an assignment. `eligible` must be empty unless the cluster has ELR enabled."""
    synced, electable, joining = frozenset(in_sync), frozenset(eligible), frozenset(adding)
    leaving, away = frozenset(removing), frozenset(offline)
    return tuple(
        (0 if replica in leaving else TARGET)
        + (IN_SYNC if replica in synced else 0)
        + (ELIGIBLE if replica in electable else 0)
        + (0 if replica in away else ONLINE)
        + (LEADER if replica == leader else 0)
        + (ADDING if replica in joining else 0)
        for replica in replicas
    )
