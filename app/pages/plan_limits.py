"""How fast a plan is carried out, in forms: throttle with its unit, copies at once, and when it is paused or stuck."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.pages.frame import size, whole_number
from app.reports.executor.plan_store import MOVES_PER_BROKER, STUCK_MINUTES
from app.texts import phrase

UNITS: Final = {"KiB/s": 2**10, "MiB/s": 2**20, "GiB/s": 2**30, "B/s": 1}
USUAL_UNIT: Final = "MiB/s"
THROTTLE_MAX: Final = 10**9
MOVES_MAX: Final = 1_000
STUCK_MAX: Final = 10_080


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The fields as typed; see `of`. `pause` is `yes` or `no`."""

    throttle: str = ""
    unit: str = USUAL_UNIT
    moves: str = str(MOVES_PER_BROKER)
    pause: str = "yes"
    stuck: str = str(STUCK_MINUTES)

    @classmethod
    def of(cls, form: Mapping[str, str]) -> "Limits":
        """Return the limits of a form or an address; what is absent is as usual."""
        given = {name: form[name].strip()[:40] for name in cls.__slots__ if name in form}
        if given.get("unit") not in UNITS:
            given["unit"] = USUAL_UNIT
        return cls(**given)

    @property
    def errors(self) -> dict[str, str]:
        """What is wrong, by field."""
        found: dict[str, str] = {}
        if self.throttle and whole_number(self.throttle, 1, THROTTLE_MAX) is None:
            found["throttle"] = phrase(
                "Throttle '%(typed)s' is not a whole number from 1 to %(most)s.", typed=self.throttle, most=THROTTLE_MAX
            )
        if whole_number(self.moves, 1, MOVES_MAX) is None:
            found["moves"] = phrase(
                "New replicas at once '%(typed)s' is not a whole number from 1 to %(most)s.",
                typed=self.moves,
                most=MOVES_MAX,
            )
        if whole_number(self.stuck, 1, STUCK_MAX) is None:
            found["stuck"] = phrase(
                "Minutes '%(typed)s' is not a whole number from 1 to %(most)s.", typed=self.stuck, most=STUCK_MAX
            )
        return found

    @property
    def bytes_per_second(self) -> int | None:
        """The throttle, None for none. Only without errors."""
        return int(self.throttle) * UNITS[self.unit] if self.throttle else None

    @property
    def moves_per_broker(self) -> int:
        """New replicas on a broker at once. Only without errors."""
        return int(self.moves)

    @property
    def stuck_minutes(self) -> int:
        """After how long without progress a partition is stuck. Only without errors."""
        return int(self.stuck)

    @property
    def pauses(self) -> bool:
        """Whether the plan pauses when a partition outside of it goes under min ISR."""
        return self.pause != "no"

    def pairs(self) -> list[tuple[str, str]]:
        """Return the fields that are not as usual."""
        usual = Limits()
        return [(name, getattr(self, name)) for name in self.__slots__ if getattr(self, name) != getattr(usual, name)]


def throttle_fields(throttle: int | None) -> tuple[str, str]:
    """Return a throttle as number and unit, in the largest unit that it is a whole number of."""
    if throttle is None:
        return "", USUAL_UNIT
    unit = next(name for name in ("GiB/s", "MiB/s", "KiB/s", "B/s") if throttle % UNITS[name] == 0)
    return str(throttle // UNITS[unit]), unit


def throttle_text(throttle: int | None) -> str:
    """Return a throttle in words."""
    return phrase("none") if throttle is None else phrase("%(rate)s/s per broker", rate=size(throttle))
