"""The lag of groups over the last minutes, sampled only while somebody looks at them; nothing is stored."""

import datetime as dt
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

SAMPLES_MAX: Final = 120
STEP: Final = dt.timedelta(seconds=4)
"""The least time between two samples of a group: 120 samples are 8 minutes or more."""
GAP: Final = dt.timedelta(minutes=10)
"""Samples before a longer pause are dropped: a line across it would show nothing that was seen."""
GROUPS_MAX: Final = 2_000


class LagSample(NamedTuple):
    """The total lag of a group at a time."""

    at: dt.datetime
    lag: int


@dataclass(frozen=True, slots=True)
class LagTrend:
    """The samples of a group, oldest first."""

    samples: Sequence[LagSample] = ()

    @property
    def change(self) -> int | None:
        """By how much the lag has grown since the oldest sample, None before the second one."""
        return self.samples[-1].lag - self.samples[0].lag if len(self.samples) > 1 else None

    @property
    def span(self) -> dt.timedelta:
        """The time from the oldest sample to the newest."""
        return self.samples[-1].at - self.samples[0].at if self.samples else dt.timedelta()


NO_TREND: Final = LagTrend()


class LagHistory:
    """Rings of samples by group. The groups that were looked at least recently are forgotten first."""

    def __init__(self) -> None:
        self._rings: OrderedDict[str, deque[LagSample]] = OrderedDict()

    def add(self, group_id: str, at: dt.datetime, lag: int) -> None:
        """Note the total lag of a group, unless the last sample is too new."""
        ring = self._rings.setdefault(group_id, deque(maxlen=SAMPLES_MAX))
        self._rings.move_to_end(group_id)
        if ring and at - ring[-1].at > GAP:
            ring.clear()
        if not ring or at - ring[-1].at >= STEP:
            ring.append(LagSample(at, lag))
        while len(self._rings) > GROUPS_MAX:
            self._rings.popitem(last=False)

    def of(self, group_id: str) -> LagTrend:
        """Return the samples of a group."""
        return LagTrend(tuple(self._rings.get(group_id, ())))

    def forget(self, group_id: str) -> None:
        """Forget a group that was deleted, or whose offsets were set."""
        self._rings.pop(group_id, None)
