"""The settings of server.properties as values: how a text becomes one, and the refusal of a text that cannot.

The settings are the broker keys that the controller describes to clients: one table serves both. A few are ours.
Source: AbstractKafkaConfig.CONFIG_DEF, Kafka 4.3.1; tests/interop compares the two.
"""

from functools import cache
from typing import Final

from kraft_core.configs.config_def import ConfigDef, ConfigException, ConfigKey, ConfigType, Value, between
from kraft_core.configs.config_resource import BROKER
from kraft_core.configs.definitions import config_def

HIDDEN: Final = "[hidden]"


class ConfigError(ValueError):
    """A setting that cannot be used; the message is one line for the person who wrote the file."""


OURS: Final = (
    ConfigKey(
        name="conclave.metrics.host",
        type=ConfigType.STRING,
        default="127.0.0.1",
        importance="low",
        documentation="Address that the page of metrics is served at.",
    ),
    ConfigKey(
        name="conclave.metrics.port",
        type=ConfigType.INT,
        default=None,
        importance="low",
        validator=between(0, 65535),
        documentation="Port of the page of metrics; 0 takes a free one. Without it there is none.",
    ),
)
"""Settings that Kafka does not have."""


@cache
def definitions() -> ConfigDef:
    """All settings by name: Kafka's and ours."""
    return ConfigDef([*config_def(BROKER).values(), *OURS])


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
