"""Values of configs as people write them: 7 d, 1 GiB, and back."""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from app.texts import phrase
from kraft_core.configs.config_def import ConfigType
from kraft_core.configs.effective_config import ConfigEntry

_AMOUNT: Final = re.compile(r"(-?\d{1,20}(?:\.\d{1,9})?)\s*([A-Za-z]*)")
_NUMERIC: Final = (ConfigType.SHORT, ConfigType.INT, ConfigType.LONG)
_TIMES: Final = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES: Final = {
    "B": 1,
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)},
    **{f"{prefix}B": 1000**power for power, prefix in enumerate(("k", "M", "G", "T"), 1)},
}


@dataclass(frozen=True, slots=True)
class Unit:
    """What a number of a config counts: its `size` in the smallest unit of `known`, and the `example` for a form."""

    size: int
    known: dict[str, int]
    example: str


_MS: Final = Unit(1, _TIMES, phrase("as 7 d or 12 h"))
_SECONDS: Final = Unit(1_000, _TIMES, phrase("as 30 s or 2 h"))
_MINUTES: Final = Unit(60_000, _TIMES, phrase("as 30 min or 7 d"))
_HOURS: Final = Unit(3_600_000, _TIMES, phrase("as 12 h or 7 d"))
BYTES: Final = Unit(1, _SIZES, phrase("as 512 KiB or 1 GiB"))
_BY_ENDING: Final = (
    (".ms", _MS),
    (".seconds", _SECONDS),
    (".minutes", _MINUTES),
    (".hours", _HOURS),
    (".bytes", BYTES),
    (".bytes.per.second", BYTES),
    (".buffer.size", BYTES),
)


def unit_of(name: str, kind: ConfigType | None) -> Unit | None:
    """Return the unit of a config by its name, None if it has none. Kafka's names end with their unit."""
    if kind not in _NUMERIC:
        return None
    return next((unit for ending, unit in _BY_ENDING if name.endswith(ending)), None)


def unit_of_entry(entry: ConfigEntry) -> Unit | None:
    """Return the unit of a config, None if it has none or its definition is unknown."""
    return unit_of(entry.name, None if entry.key is None else entry.key.type)


def in_words(value: str | None, unit: Unit | None) -> str:
    """Return a number with the largest unit that divides it, "" where that says no more than the number."""
    if unit is None or value is None or not re.fullmatch(r"\d{1,20}", value):
        return ""
    total = int(value) * unit.size
    fitting = [(size, name) for name, size in unit.known.items() if size > unit.size and total and total % size == 0]
    if not fitting:
        return ""
    size, name = max(fitting)
    return f"{total // size} {name}"


def parsed(text: str, unit: Unit | None) -> str:
    """Return the config's value for what was typed; a text that is no amount with a unit is returned as it is.

    Raises ValueError for an unknown unit and an amount that is not a whole number of the config's unit.
    """
    found = _AMOUNT.fullmatch(text.strip())
    if unit is None or found is None or not found[2]:
        return text
    names = {name.lower(): size for name, size in unit.known.items()}
    size = names.get(found[2].lower())
    if size is None:
        allowed = ", ".join(unit.known)
        given = text.strip()[:60]
        raise ValueError(phrase("'%(given)s' has an unknown unit; allowed are %(units)s.", given=given, units=allowed))
    amount = Fraction(found[1]) * size / unit.size
    if amount.denominator != 1:
        own = next(name for name, each in unit.known.items() if each == unit.size)
        raise ValueError(phrase("'%(given)s' is not a whole number of %(unit)s.", given=text.strip()[:60], unit=own))
    return str(amount.numerator)
