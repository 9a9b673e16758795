"""Settings as values: what a definition line means, and how a text becomes a checked value.

Messages are Kafka's, one line each, naming the setting, the value and what is allowed. Source: ConfigDef, Kafka 4.3.1.
"""

from dataclasses import dataclass
from functools import cache
from typing import Final

from kraft_core.server.config_definitions import TABLE

ConfigValue = int | float | bool | str | list[str] | None

_INTEGER_BITS: Final = {"short": 16, "int": 32, "long": 64}
HIDDEN: Final = "[hidden]"


class ConfigError(ValueError):
    """A setting that cannot be used; the message is one line for the person who wrote the file."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One setting: Kafka's ConfigKey. `default` is a text as in a file; None: null; `required`: it must be given."""

    name: str
    type: str  # short, int, long, double, boolean, string, password, class or list
    default: str | None
    required: bool
    allowed: str

    @property
    def is_secret(self) -> bool:
        """Whether the value must never be shown."""
        return self.type == "password"


@cache
def definitions() -> dict[str, Definition]:
    """All settings by name, in the order of the table."""
    found: dict[str, Definition] = {}
    for line in TABLE.split("\n"):
        if line:
            name, kind, default, *allowed = line.split(" ")
            text = "" if default == '""' else None if default in ("-", "!") else default
            found[name] = Definition(name, kind, text, default == "!", allowed[0] if allowed else "")
    return found


def parse_value(definition: Definition, text: str) -> ConfigValue:
    """Turn the text of a file into the setting's value, checked.

    Raises ConfigError: wrong type, out of range, not one of the choices.
    """
    text = text.strip()
    value = _parse_type(definition, text)
    _check_allowed(definition, value)
    return value


def default_value(definition: Definition) -> ConfigValue:
    """Give the value that holds when the setting is not given. Raises ConfigError when it must be given."""
    if definition.required:
        raise ConfigError(f'Missing required configuration "{definition.name}" which has no default value.')
    return None if definition.default is None else _parse_type(definition, definition.default)


def _invalid(definition: Definition, value: object, reason: str) -> ConfigError:
    shown = HIDDEN if definition.is_secret else value
    return ConfigError(f"Invalid value {shown} for configuration {definition.name}: {reason}")


def _parse_type(definition: Definition, text: str) -> ConfigValue:
    kind = definition.type
    if kind in _INTEGER_BITS:
        return _parse_integer(definition, text, _INTEGER_BITS[kind])
    if kind == "boolean":
        if text.lower() not in ("true", "false"):
            raise _invalid(definition, text, "Expected value to be either true or false")
        return text.lower() == "true"
    if kind == "double":
        try:
            return float(text)
        except ValueError:
            raise _invalid(definition, text, "Not a number of type DOUBLE") from None
    if kind == "list":
        return [part.strip() for part in text.split(",")] if text else []
    return text


def _parse_integer(definition: Definition, text: str, bits: int) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()) or not -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1):
        raise _invalid(definition, text, f"Not a number of type {definition.type.upper()}")
    return int(text)


def _check_allowed(definition: Definition, value: ConfigValue) -> None:
    allowed = definition.allowed
    if not allowed or value is None:
        return
    if allowed == "nonempty":
        if value == "":
            raise _invalid(definition, value, "String must be non-empty")
    elif isinstance(value, list):
        choices = allowed.split("|")
        for item in value:
            if item not in choices:
                raise _invalid(definition, item, f"String must be one of: {', '.join(choices)}")
    elif isinstance(value, str):
        choices = allowed.lstrip("~").split("|")
        wanted, options = (value, choices) if allowed[0] != "~" else (value.lower(), [name.lower() for name in choices])
        if wanted not in options:
            raise _invalid(definition, value, f"String must be one of: {', '.join(choices)}")
    else:
        _check_range(definition, value)


def _check_range(definition: Definition, value: float) -> None:
    """Check a number against ``low..``, ``low..high`` or ``exact|low..high``."""
    *exact, bounds = definition.allowed.split("|")
    if str(value) in exact:
        return
    low, high = bounds.split("..")
    if value < float(low):
        raise _invalid(definition, value, f"Value must be at least {low}")
    if high and value > float(high):
        raise _invalid(definition, value, f"Value must be no more than {high}")
