"""What the loss of any set of brokers and racks does, answered from a report's files without Spark."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.reports.aggregates import Brokers
from app.reports.states import VERDICTS, Outcomes, PartitionState
from app.texts import phrase

PARTITIONS_LISTED = 100


class UnknownDomainError(ValueError):
    """A broker or rack that the report does not have."""


class NoPlacementError(FileNotFoundError):
    """The files of the run that the question needs no longer exist."""


@dataclass(frozen=True, slots=True)
class Lost:
    """What is lost: `racks` by name, and all `brokers` by id, those of the racks included."""

    racks: tuple[str, ...]
    brokers: tuple[int, ...]
    only_racks: bool


def lost_brokers(body: Mapping[str, Any], brokers: str, racks: str) -> Lost:
    """Return what lists separated by commas name. A rack whose name has commas is only found alone.

    Raises UnknownDomainError for an id or name that the report does not have, and when both lists are empty.
    """
    rack_of = {str(row["broker_id"]): row["rack"] for row in body["brokers"]}
    known = {row["rack"] for row in body["racks"]}
    named = {racks} if racks in known else _items(racks)
    single = _items(brokers)
    for broker in sorted(single - rack_of.keys()):
        raise UnknownDomainError(phrase("broker '%(id)s' is not in the report.", id=broker[:40]))
    for rack in sorted(named - known):
        raise UnknownDomainError(
            phrase("rack '%(rack)s' is not in the report; it has %(racks)s.", rack=rack[:40], racks=_some(known))
        )
    if not single and not named:
        raise UnknownDomainError(phrase("'brokers' or 'racks' must name what is lost."))
    dead = {int(broker) for broker, rack in rack_of.items() if broker in single or rack in named}
    return Lost(tuple(sorted(named)), tuple(sorted(dead)), not single)


def _items(text: str) -> set[str]:
    return {item.strip() for item in text.split(",") if item.strip()}


def _some(racks: Iterable[str]) -> str:
    names = sorted(racks)
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "") if names else phrase("no racks")


def what_if(out: Path, body: Mapping[str, Any], lost: Lost) -> dict[str, Any]:
    """Return the verdicts of all partitions after a loss, in the words of the body's `what_if` rows.

    `out` is the output folder of the report's run. `partitions` lists those newly down, refusing writes or lost, the
    worst first, up to 100. Where `placement.arrow` is gone, sets of racks are answered from the body's cube: then
    `hottest_leaders` is null and `partitions` is empty. Takes about 0.2 s of one core per million partitions.

    Raises NoPlacementError.
    """
    try:
        found = {"source": "placement", **_from_placement(out, set(lost.brokers))}
    except FileNotFoundError as gone:
        if not lost.only_racks or not body.get("cube"):
            raise NoPlacementError(
                phrase("The files of this report's run no longer exist; run another report.")
            ) from gone
        found = {"source": "cube", **_from_cube(body["cube"], set(lost.racks))}
    return {"racks": list(lost.racks), "brokers": list(lost.brokers), **found}


class _Tally:
    """Counts outcomes."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self.verdicts: Counter[str] = Counter()
        self.down = self.refused = self.lost = self.moved = 0

    def add(self, state: int, lost: int, partitions: int) -> None:
        after = self._outcomes.after(state, lost)
        down, refused, gone = self._outcomes.newly(state, lost)
        self.verdicts[after.verdict] += partitions
        self.down += partitions * down
        self.refused += partitions * refused
        self.lost += partitions * gone
        self.moved += partitions * (after.heir >= 0)

    def result(self, hottest: int | None, partitions: list[Any]) -> dict[str, Any]:
        return {
            "verdicts": {verdict: self.verdicts[verdict] for verdict in VERDICTS},
            "newly_down": self.down,
            "newly_refused": self.refused,
            "newly_lost": self.lost,
            "leaders_moved": self.moved,
            "hottest_leaders": hottest,
            "partitions": partitions,
        }


def _outcomes(states: Sequence[Any]) -> Outcomes:
    return Outcomes(
        [PartitionState(tuple(codes), factor, config, bool(unclean)) for codes, factor, config, unclean in states]
    )


def _from_cube(cube: Mapping[str, Any], racks: set[str]) -> dict[str, Any]:
    dead = {index for index, rack in enumerate(cube["racks"]) if rack in racks}
    tally = _Tally(_outcomes(cube["states"]))
    for state, places, partitions in cube["rows"]:
        tally.add(state, sum(1 << position for position, rack in enumerate(places) if rack in dead), partitions)
    return tally.result(None, [])


def _from_placement(out: Path, dead: set[int]) -> dict[str, Any]:
    import numpy as np

    from app.reports import columns as c
    from app.reports.leader_columns import LeaderColumns
    from app.reports.placement_file import FILE, read_placement

    meta, name, chunks = read_placement(out / FILE)
    brokers = Brokers(meta["brokers"])
    outcomes = _outcomes(meta["states"])
    width = len(brokers.rows)
    gone = np.array([row["broker_id"] in dead for row in brokers.rows] or [False])
    tally, worst, flow = _Tally(outcomes), c.Worst(PARTITIONS_LISTED), LeaderColumns(outcomes.states, brokers)
    led, taken = np.zeros(width, np.int64), np.zeros(width, np.int64)
    for chunk in chunks:
        hits = c.set_hits(chunk, gone)
        judgement = c.judge(chunk, hits, outcomes)
        for kind, count in zip(judgement.kinds, np.bincount(judgement.kind).tolist(), strict=True):
            tally.add(*kind, count)
        rest = np.bincount(chunk.state, minlength=len(outcomes.states))
        rest -= np.bincount(chunk.state[hits.row], minlength=len(outcomes.states))
        for state, count in enumerate(rest.tolist()):
            if count:
                tally.add(state, 0, count)
        worst.add(chunk, hits, judgement)
        leaders = flow.leaders(chunk)
        led += np.bincount(leaders[leaders >= 0], minlength=width)
        taken += np.bincount(judgement.heir[judgement.heir >= 0], minlength=width)
    heirs = taken > 0
    return tally.result(int((led + taken)[heirs].max(initial=0)), worst.pages(name).get(0, []))
