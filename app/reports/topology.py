"""The topology of a cluster as far as it starts reports: its brokers, those fenced for long, and running reassignments.

Each schedule that follows changes keeps the topology of its last look in SQL. A process whose topology differs from it,
without a change for DEBOUNCE_SECONDS, replaces it in the transaction that creates the run. So a change starts one run,
however many web processes see it, also when no process was running at the time of the change.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

FENCED_SECONDS: Final = 600.0
"""How long a broker must be fenced to count. A restart of a broker is shorter."""
DEBOUNCE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Topology:
    """The ids of the registered brokers, of those fenced for FENCED_SECONDS, and whether partitions are reassigned."""

    brokers: tuple[int, ...]
    fenced: tuple[int, ...]
    reassigning: bool

    def as_json(self) -> dict[str, Any]:
        """Return the topology as stored in SQL."""
        return {"brokers": list(self.brokers), "fenced": list(self.fenced), "reassigning": self.reassigning}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the topology that SQL has."""
        return cls(tuple(stored["brokers"]), tuple(stored["fenced"]), bool(stored["reassigning"]))

    def events_since(self, before: "Topology") -> list[str]:
        """Return what has happened since `before` and deserves a report, in words; empty if nothing."""
        events = [
            *_brokers("added", set(self.brokers) - set(before.brokers)),
            *_brokers("removed", set(before.brokers) - set(self.brokers)),
            *_brokers("fenced", set(self.fenced) - set(before.fenced)),
        ]
        return [*events, "reassignment finished"] if before.reassigning and not self.reassigning else events


def _brokers(what: str, ids: Collection[int]) -> list[str]:
    if not ids:
        return []
    shown = ", ".join(map(str, sorted(ids)[:5])) + (", …" if len(ids) > 5 else "")
    return [f"{'broker' if len(ids) == 1 else 'brokers'} {shown} {what}"]


@dataclass(frozen=True, slots=True)
class Sighting:
    """What the image says now: broker ids, those fenced, and whether partitions are being reassigned."""

    brokers: Collection[int]
    fenced: Collection[int]
    reassigning: bool


TopologySource = Callable[[], Sighting | None]
"""Returns the sighting of the current image, None while it is not known to be current."""


class TopologyWatch:
    """Tells how long brokers have been fenced and the topology has been unchanged, by this process's clock."""

    def __init__(self) -> None:
        self._fenced_since: dict[int, float] = {}
        self._last: Sighting | None = None
        self._since = 0.0

    def see(self, sighting: Sighting, now_s: float) -> bool:
        """Note a sighting. Return True if brokers and reassignments have not changed for DEBOUNCE_SECONDS."""
        self._fenced_since = {broker: self._fenced_since.get(broker, now_s) for broker in sighting.fenced}
        last = self._last
        if last is None or (set(last.brokers), last.reassigning) != (set(sighting.brokers), sighting.reassigning):
            self._since = now_s
        self._last = sighting
        return now_s - self._since >= DEBOUNCE_SECONDS

    def topology(self, sighting: Sighting, before: Topology | None, now_s: float) -> Topology:
        """Return the topology now. A fenced broker that `before` has as fenced stays so, whatever this clock says."""
        known = () if before is None else before.fenced
        fenced = [
            broker for broker, since in self._fenced_since.items() if broker in known or now_s - since >= FENCED_SECONDS
        ]
        return Topology(tuple(sorted(sighting.brokers)), tuple(sorted(fenced)), sighting.reassigning)
