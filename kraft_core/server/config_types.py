"""The settings of server.properties as values: how a text becomes one, and the refusal of a text that cannot.

The settings are the broker keys that the controller describes to clients: one table serves both.
Source: AbstractKafkaConfig.CONFIG_DEF, Kafka 4.3.1; tests/interop compares the two.
"""

from typing import Final

from kraft_core.controller.config_def import ConfigDef, ConfigException, ConfigKey, Value
from kraft_core.controller.config_definitions import config_def
from kraft_core.image.metadata_image import BROKER

HIDDEN: Final = "[hidden]"


class ConfigError(ValueError):
    """A setting that cannot be used; the message is one line for the person who wrote the file."""


def definitions() -> ConfigDef:
    """All settings by name."""
    return config_def(BROKER)


def parse_value(key: ConfigKey, text: str | None) -> Value:
    """Turn the text of a file, None for a setting that is not in it, into the setting's checked value.

    Raises ConfigError: wrong type, out of range, not one of the choices, or absent without a default.
    """
    if text is None:
        if key.is_required:
            raise ConfigError(f'Missing required configuration "{key.name}" which has no default value.')
        return definitions().default_value(key.name)
    try:
        return key.parse(text)
    except ConfigException as error:
        raise ConfigError(error.message) from None
