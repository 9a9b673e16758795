"""Security settings by Kafka's keys, for one listener or one client.

The key of a listener, `listener.name.<name>.<key>`, overrides the general one. Values are checked against Kafka's
config definitions; an error is one line that names the key and, unless it is a secret, the value.

Source: AbstractConfig.valuesWithPrefixOverride and ListenerName.configPrefix, Kafka 4.3.1.
"""

from collections.abc import Mapping
from typing import Final

from kraft_core.configs.config_def import ConfigException, ConfigKey
from kraft_core.configs.config_resource import BROKER
from kraft_core.configs.definitions import config_def

_HIDDEN: Final = "[hidden]"


class SecurityConfigError(ValueError):
    """An invalid security setting; the message is one line for the author of the file."""


class SecurityProperties:
    """The settings of the listener `listener_name`, or of a client if it is None."""

    def __init__(self, properties: Mapping[str, str], listener_name: str | None = None) -> None:
        self._properties = properties
        self._prefix = None if listener_name is None else f"listener.name.{listener_name.lower()}."

    def key_of(self, key: str) -> str:
        """Return the key in effect: the listener's if the file has it, else the general one."""
        own = "" if self._prefix is None else self._prefix + key
        return own if own in self._properties else key

    def is_listeners_own(self, key: str) -> bool:
        """Whether the file has the key for this listener in particular."""
        return self.key_of(key) != key

    def is_given(self, key: str) -> bool:
        """Whether the file has the key, for this listener or in general."""
        return self.key_of(key) in self._properties

    def text(self, key: str) -> str | None:
        """Return a checked text; None if the key is absent and its default is null."""
        value = self._value(key)
        assert value is None or isinstance(value, str), key
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a checked list."""
        value = self._value(key)
        assert isinstance(value, tuple), key
        return value

    def number(self, key: str) -> int:
        """Return a checked number."""
        value = self._value(key)
        assert isinstance(value, int), key
        return value

    def mechanism_text(self, mechanism: str, key: str) -> tuple[str, str | None]:
        """Return the key in effect of `<mechanism>.<key>` and its unchecked text, None if the file has none."""
        name = self.key_of(f"{mechanism.lower()}.{key}")
        return name, self._properties.get(name)

    def refused(self, key: str, reason: str) -> SecurityConfigError:
        """Return the error for a value that cannot be used."""
        name = self.key_of(key)
        definition = _definition(key)
        value = (
            _HIDDEN if definition is None or definition.is_sensitive else self._properties.get(name, self._default(key))
        )
        return SecurityConfigError(f"Invalid value {value} for configuration {name}: {reason}")

    def _default(self, key: str) -> str:
        definition = _definition(key)
        return "null" if definition is None or definition.default is None else definition.default

    def _value(self, key: str) -> object:
        name = self.key_of(key)
        definition = _definition(key)
        assert definition is not None, key
        if name not in self._properties:
            return config_def(BROKER).default_value(key)
        try:
            value = definition.parse(self._properties[name])
        except ConfigException:
            raise self.refused(key, f"not {definition.valid_values or 'a ' + definition.type.name}") from None
        return value


def _definition(key: str) -> ConfigKey | None:
    return config_def(BROKER).get(key)
