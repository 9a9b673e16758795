"""The definitions of server.properties and the parser of its values.

They are the broker configs that nodes also describe to clients, and a few settings that Kafka does not have.
Source: AbstractKafkaConfig.CONFIG_DEF, Kafka 4.3.1; tests/interop compares the two.
"""

from functools import cache
from typing import Final

from kraft_core.configs.config_def import ConfigDef, ConfigException, ConfigKey, ConfigType, Value, between
from kraft_core.configs.config_resource import BROKER
from kraft_core.configs.definitions import config_def

HIDDEN: Final = "[hidden]"


class ConfigError(ValueError):
    """An invalid setting; the message is one line for the author of the file."""


OURS: Final = (
    ConfigKey(
        name="conclave.metrics.host",
        type=ConfigType.STRING,
        default="127.0.0.1",
        importance="low",
        documentation="Address on which the metrics are served.",
    ),
    ConfigKey(
        name="conclave.metrics.port",
        type=ConfigType.INT,
        default=None,
        importance="low",
        validator=between(0, 65535),
        documentation="Port on which the metrics are served; 0 for any free port, unset for no metrics.",
    ),
)
"""Settings that Kafka does not have."""


@cache
def definitions() -> ConfigDef:
    """Return all config definitions by name: Kafka's and ours."""
    return ConfigDef([*config_def(BROKER).values(), *OURS])


def parse_value(key: ConfigKey, text: str | None) -> Value:
    """Return the value for the text in the file; the default for None, a setting that is not in the file.

    Raises ConfigError for a wrong type, a value out of range or not among the choices, and a missing required setting.
    """
    if text is None:
        if key.is_required:
            raise ConfigError(f'Missing required configuration "{key.name}" which has no default value.')
        return definitions().default_value(key.name)
    try:
        return key.parse(text)
    except ConfigException as error:
        raise ConfigError(error.message) from None
