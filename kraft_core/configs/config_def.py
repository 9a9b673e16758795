"""Config keys: types, defaults, allowed values and parsing.

A key is one line of a text table (see `parse_table`), so that the definitions of Apache Kafka 4.3.1 are readable data.
A validator returns None for an allowed value, else an error text.

Source: ConfigDef, Kafka 4.3.1.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kraft_core.protocol.errors import ErrorCode, KafkaError

Value = bool | int | float | str | tuple[str, ...] | None
Validator = Callable[[Value], str | None]

_COMMA: Final = re.compile(r"\s*,\s*", re.ASCII)
_BLANK: Final = "".join(map(chr, range(33)))  # what Java's String.trim removes
_DOUBLE: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_LIMITS: Final = {"SHORT": 2**15, "INT": 2**31, "LONG": 2**63}


class ConfigType(IntEnum):
    """The type of a key, with its number in DescribeConfigs. Source: DescribeConfigsResponse.ConfigType."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(IntEnum):
    """How a broker key changes: with a restart, on one broker at run time, or on the whole cluster at run time."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


class ConfigException(KafkaError):  # noqa: N818 - Kafka's name
    """A value is not allowed for a key; INVALID_CONFIG (40) on the wire."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """A config key.

    `default` is the default as text, None for null. `is_required` marks the few keys without a default.
    `valid_values` is the text for the allowed values in Kafka's documentation, "" for any value.
    `is_internal` keys are listed only if they are set.
    """

    name: str
    type: ConfigType
    default: str | None
    importance: str
    valid_values: str = ""
    validator: Validator | None = None
    documentation: str = ""
    is_internal: bool = False
    is_required: bool = False
    update_mode: UpdateMode = UpdateMode.CLUSTER_WIDE

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is a secret and must not be shown."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str | None) -> Value:
        """Parse and validate a text.

        Raises ConfigException with the key and the value when the text is not of the key's type or not allowed.
        """
        value = parse_type(self.name, text, self.type)
        if self.validator is not None:
            reason = self.validator(value)
            if reason is not None:
                raise ConfigException(reason.replace("{name}", self.name).replace("{value}", str(text)))
        return value


class ConfigDef(Mapping[str, ConfigKey]):
    """The keys of one resource type, ordered by name."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Iterable[ConfigKey]) -> None:
        self._keys: Final = {key.name: key for key in sorted(keys, key=lambda key: key.name)}

    def __getitem__(self, name: str) -> ConfigKey:
        return self._keys[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def default_value(self, name: str) -> Value:
        """Return the parsed default of a key; None when the default is null."""
        key = self._keys[name]
        return parse_type(name, key.default, key.type)


def parse_type(name: str, text: str | None, kind: ConfigType) -> Value:
    """Parse the text of a key; None stays None. Raises ConfigException. Source: ConfigDef.parseType."""
    if text is None:
        return None
    trimmed = text.strip(_BLANK)
    if kind is ConfigType.BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in {"true", "false"}:
            raise _invalid(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if kind is ConfigType.LIST:
        return tuple(_COMMA.split(trimmed)) if trimmed else ()
    if kind in {ConfigType.INT, ConfigType.LONG, ConfigType.SHORT}:
        limit = _LIMITS[kind.name]
        if not _INTEGER.fullmatch(trimmed) or not -limit <= int(trimmed) < limit:
            raise _invalid(name, text, f"Not a number of type {kind.name}")
        return int(trimmed)
    if kind is ConfigType.DOUBLE:
        if not _DOUBLE.fullmatch(trimmed):
            raise _invalid(name, text, "Not a number of type DOUBLE")
        return float(trimmed.rstrip("fFdD"))
    return trimmed


def between(minimum: float | None, maximum: float | None) -> Validator:
    """Allow numbers from minimum to maximum, both included; None means no bound."""

    def check(value: Value) -> str | None:
        if value is None:
            return "Invalid value null for configuration {name}: Value must be non-null"
        assert isinstance(value, int | float)
        if minimum is not None and not value >= minimum:
            return f"Invalid value {{value}} for configuration {{name}}: Value must be at least {minimum}"
        if maximum is not None and not value <= maximum:
            return f"Invalid value {{value}} for configuration {{name}}: Value must be no more than {maximum}"
        return None

    return check


def one_of(allowed: tuple[str, ...], *, ignore_case: bool = False) -> Validator:
    """Allow exactly these strings."""
    accepted = {text.upper() for text in allowed} if ignore_case else set(allowed)

    def check(value: Value) -> str | None:
        text = value.upper() if ignore_case and isinstance(value, str) else value
        if text in accepted:
            return None
        return f"Invalid value {{value}} for configuration {{name}}: String must be one of: {', '.join(allowed)}"

    return check


def distinct_list(allowed: tuple[str, ...], *, allow_empty: bool, allow_null: bool) -> Validator:
    """Allow lists without duplicates, of the `allowed` strings if there are any. Source: ConfigDef.ValidList."""

    def check(value: Value) -> str | None:
        if value is None:
            return None if allow_null else "Configuration '{name}' values must not be null."
        assert isinstance(value, tuple)
        if not value and not allow_empty:
            valid = f"[{', '.join(allowed)}]" if allowed else "any non-empty value"
            return f"Configuration '{{name}}' must not be empty. Valid values include: {valid}"
        if len(set(value)) != len(value):
            return "Configuration '{name}' values must not be duplicated."
        for item in value:
            if not item:
                return "Configuration '{name}' values must not be empty."
            if allowed and item not in allowed:
                return f"Invalid value {item} for configuration {{name}}: String must be one of: {', '.join(allowed)}"
        return None

    return check


def gzip_level(value: Value) -> str | None:
    """Allow 1 to 9, and -1 for zlib's default. Source: GzipCompression.LevelValidator."""
    if value == -1 or (isinstance(value, int) and 1 <= value <= 9):
        return None
    return (
        "Invalid value {value} for configuration {name}: Value must be between 1 and 9 or equal to -1"
        if value is not None
        else "Invalid value null for configuration {name}: Value must be non-null"
    )


_THROTTLED: Final = re.compile(r"([0-9]+:[0-9]+)?")


def throttled_replicas(value: Value) -> str | None:
    """Allow `*` or a list of partition:broker pairs. Source: ThrottledReplicaListValidator."""
    assert isinstance(value, tuple)
    if value == ("*",) or all(_THROTTLED.fullmatch(item) for item in value):
        return None
    return (
        "Invalid value [{value}] for configuration {name}: {name} must be the literal '*' or a list of "
        "replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


def non_empty(value: Value) -> str | None:
    """Allow null and any non-empty text. Source: ConfigDef.NonEmptyString."""
    return "Invalid value {value} for configuration {name}: String must be non-empty" if value == "" else None


def non_null(value: Value) -> str | None:
    """Allow any value except null. Source: ConfigDef.NonNullValidator."""
    return "Invalid value null for configuration {name}: entry must be non null" if value is None else None


_DURATION: Final = re.compile(r"P(?!$)(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+(?:[.,]\d{1,9})?S)?)?", re.IGNORECASE)


def offset_reset_strategy(value: Value) -> str | None:
    """Allow latest, earliest and by_duration:PnDTnHnMn.nS. Source: ShareGroupAutoOffsetResetStrategy.Validator."""
    text = str(value)
    if text in {"latest", "earliest"}:
        return None
    if text.startswith("by_duration:") and _DURATION.fullmatch(text.removeprefix("by_duration:")):
        return None
    return (
        "Invalid value {value} for configuration {name}: Invalid value `{value}` for configuration {name}. "
        "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS.>'."
    )


_NAMED: Final[dict[str, Validator]] = {
    "[1,...,9] or -1": gzip_level,
    "[partitionId]:[brokerId],[partitionId]:[brokerId],...": throttled_replicas,
    "non-empty string": non_empty,
    "non-null string": non_null,
    "[latest, earliest, by_duration:PnDTnHnMn.nS]": offset_reset_strategy,
}
_RANGE: Final = re.compile(r"\[(-?[0-9.]+)?,\.\.\.(?:,(-?[0-9.]+))?\]")
_UPDATE_MODES: Final = {"ro": UpdateMode.READ_ONLY, "pb": UpdateMode.PER_BROKER, "cw": UpdateMode.CLUSTER_WIDE}


def parse_validator(text: str, kind: ConfigType) -> Validator | None:
    """Return the validator for a table's text in Kafka's notation; None for "", which allows any value.

    A list may end in `?` (may be null) or `+` (must not be empty); `distinct` alone allows any strings.
    """
    if not text:
        return None
    if text in _NAMED:
        return _NAMED[text]
    match = _RANGE.fullmatch(text)
    if match is not None:
        low, high = (None if bound is None else _number(bound) for bound in match.groups())
        return between(low, high)
    ignore_case = text.startswith("(case insensitive) ")
    bare = text.removeprefix("(case insensitive) ").rstrip("?+")
    allowed = () if bare == "distinct" else tuple(bare.strip("[]").split(", "))
    if kind is ConfigType.LIST:
        return distinct_list(allowed, allow_empty="+" not in text, allow_null="?" in text)
    return one_of(allowed, ignore_case=ignore_case)


def parse_table(table: str) -> list[ConfigKey]:
    """Parse a table of keys: one per line, six fields separated by ` | `; lines that begin with `#` are headings.

    name | type | default | importance | valid values | documentation. The default `null` is null; `-` means that the
    key is required. A name may end in `!` (internal) and a type in `/ro`, `/pb` or `/cw` (update mode).
    """
    keys = []
    for line in table.strip().splitlines():
        if not line or line.startswith("#"):
            continue
        name, kind, default, importance, valid, documentation = (field.strip() for field in line.split(" | ", 5))
        type_name, _, mode = kind.partition("/")
        config_type = ConfigType[type_name]
        keys.append(
            ConfigKey(
                name=name.rstrip("!"),
                type=config_type,
                default=None if default in {"null", "-"} else default,
                importance=importance,
                valid_values="" if valid.startswith("distinct") else valid.rstrip("?+"),
                validator=parse_validator(valid, config_type),
                documentation=documentation,
                is_internal=name.endswith("!"),
                is_required=default == "-",
                update_mode=_UPDATE_MODES[mode or "cw"],
            )
        )
    return keys


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def _invalid(name: str, value: str, reason: str) -> ConfigException:
    return ConfigException(f"Invalid value {value} for configuration {name}: {reason}")
