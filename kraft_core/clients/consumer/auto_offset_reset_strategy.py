"""The config auto.offset.reset: where reading begins without a valid offset.

Source: AutoOffsetResetStrategy of Kafka 4.3.1; KIP-1106 (by_duration).
"""

import re
from dataclasses import dataclass
from typing import Final

from kraft_core.configs.config_def import ConfigException, Value

EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1
_DAY_MS: Final = 86_400_000
_DURATION: Final = re.compile(
    r"P(?!$)(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+)(?:[.,](?P<fraction>\d{1,9}))?S)?)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class AutoOffsetResetStrategy:
    """`name` is earliest, latest, none or by_duration; the last has a `duration_ms`."""

    name: str
    duration_ms: int = 0

    @classmethod
    def from_text(cls, text: str) -> "AutoOffsetResetStrategy":
        """Parse a value of the config; raises ConfigException."""
        name = text.strip().lower()
        if name in {"earliest", "latest", "none"}:
            return cls(name)
        match = _DURATION.fullmatch(text.strip()[len("by_duration:") :]) if name.startswith("by_duration:") else None
        if match is None:
            raise ConfigException(
                f"Invalid value {text} for configuration auto.offset.reset: The value must be either 'earliest', "
                "'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'."
            )
        parts = {part: int(found) for part, found in match.groupdict(default="0").items() if part != "fraction"}
        seconds = parts["hours"] * 3600 + parts["minutes"] * 60 + parts["seconds"]
        fraction_ms = int((match["fraction"] or "").ljust(3, "0")[:3])
        return cls("by_duration", parts["days"] * _DAY_MS + seconds * 1000 + fraction_ms)

    def timestamp_ms(self, wall_ms: int) -> int:
        """Return the timestamp to ask ListOffsets for. `none` has no timestamp."""
        match self.name:
            case "earliest":
                return EARLIEST_TIMESTAMP
            case "latest":
                return LATEST_TIMESTAMP
            case "by_duration":
                return max(0, wall_ms - self.duration_ms)
        raise AssertionError("auto.offset.reset none has no timestamp")


EARLIEST: Final = AutoOffsetResetStrategy("earliest")
LATEST: Final = AutoOffsetResetStrategy("latest")
NONE: Final = AutoOffsetResetStrategy("none")


def auto_offset_reset(value: Value) -> str | None:
    """Validate a value of auto.offset.reset, for the config table."""
    try:
        AutoOffsetResetStrategy.from_text(str(value))
    except ConfigException as refused:
        return refused.message
    return None
