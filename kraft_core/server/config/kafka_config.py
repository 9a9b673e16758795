"""KafkaConfig: the validated server.properties of one node.

All settings are validated before any socket is opened and any file but key stores is read; an error is one line with
the key, the value and what is allowed. An unknown key is logged once as a warning. Kafka's settings that this version
does not support are refused if the cluster would be less safe without them (Java classes, other SASL mechanisms).

Source: KafkaConfig, KRaftConfigs and QuorumConfig, Kafka 4.3.1.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from kraft_core.configs.config_def import Value
from kraft_core.security.config_providers import resolve_variables
from kraft_core.security.properties import SecurityConfigError
from kraft_core.server.config.abstract_kafka_config import AbstractKafkaConfig
from kraft_core.server.config.listeners import Listener, Voter
from kraft_core.server.config.node_security import AUTHORIZER_KEYS, read_node_security
from kraft_core.server.config.server_properties import HIDDEN, ConfigError, definitions, parse_value
from kraft_core.server.config.validation import validate
from kraft_core.storage.properties import parse_properties

__all__ = ["ConfigError", "KafkaConfig", "Listener", "Voter", "unknown_keys"]

log = logging.getLogger(__name__)

_PREFIXES: Final = ("listener.name.", "config.providers.")  # keys that Kafka reads by prefix
_SUFFIXES: Final = (".sasl.jaas.config", ".connections.max.reauth.ms")  # settings of one SASL mechanism
_WARNED: Final[set[str]] = set()


def unknown_keys(properties: Mapping[str, str]) -> list[str]:
    """Return the keys that neither Kafka nor this program defines."""
    known = definitions()
    return [
        key
        for key in properties
        if key not in known
        and key not in AUTHORIZER_KEYS
        and not key.startswith(_PREFIXES)
        and not key.endswith(_SUFFIXES)
    ]


class KafkaConfig(AbstractKafkaConfig):
    """The validated settings of one node; immutable. The constructor raises ConfigError for invalid ones.

    `node.id` and the older `broker.id` are synonyms, as in Kafka. `security` holds TLS, SASL and the authorizer.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        try:
            originals = resolve_variables(properties)
        except SecurityConfigError as error:
            raise ConfigError(str(error)) from None
        given = dict(originals)
        if "node.id" not in given and "broker.id" in given:
            given["node.id"] = given["broker.id"]
        values = {name: parse_value(key, given.get(name)) for name, key in definitions().items()}
        if "broker.id" not in given:
            values["broker.id"] = values["node.id"]
        super().__init__(originals, values)
        validate(self)
        self.security = read_node_security(self)
        assert self.connection_limits is not None, "the first read validates them"

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a server.properties file; each unknown key is logged once as a warning.

        Raises ConfigError, also if the file cannot be read.
        """
        try:
            properties = parse_properties(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"Cannot read the properties file {path}: {reason}") from error
        config = cls(properties)
        for key in unknown_keys(properties):
            if key not in _WARNED:
                _WARNED.add(key)
                log.warning("unknown_config", extra={"key": key, "file": str(path)})
        return config

    def public_values(self) -> dict[str, Value]:
        """Return every setting with its value, secrets hidden."""
        known = definitions()
        return {
            name: HIDDEN if known[name].is_sensitive and value is not None else value
            for name, value in self.values.items()
        }
