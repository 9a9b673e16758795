"""Configs of clients: the keys that all clients share, and one client's parsed configs.

A client adds its own table to the shared one (`client_config_def`) and parses what its user gives (`ClientConfig`).
Unknown keys and invalid values are refused: a misspelled key never falls back to its default in silence. Keys that
Apache's clients have and that would have no effect here (metrics reporters, socket buffers) are unknown too.

Source: CommonClientConfigs, AbstractConfig, ClientUtils.parseAndValidateAddresses, Kafka 4.3.1.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Final

from kraft_core.clients.client_metadata import MetadataConfig
from kraft_core.clients.network_requests import NetworkConfig
from kraft_core.configs.config_def import ConfigDef, ConfigException, ConfigKey, ConfigType, parse_table
from kraft_core.configs.definitions_client import COMMON_TABLE, SOME_CLIENTS_TABLE
from kraft_core.configs.definitions_security import SECURITY_TABLE
from kraft_core.protocol.host_port import parse_host_port
from kraft_core.security.config_providers import PREFIX as PROVIDERS
from kraft_core.security.config_providers import resolve_variables
from kraft_core.security.listener_security import ClientSecurity, client_security
from kraft_core.security.properties import SecurityConfigError

_SERVER_ONLY: Final = ("ssl.allow.", "ssl.client.auth", "ssl.principal.mapping.rules")


@cache
def _shared_keys() -> tuple[ConfigKey, ...]:
    security = [
        key
        for key in parse_table(SECURITY_TABLE)
        if (key.name.startswith("ssl.") and not key.name.startswith(_SERVER_ONLY)) or key.name == "sasl.jaas.config"
    ]
    return (*parse_table(COMMON_TABLE), *security)


def client_config_def(table: str, *also: str) -> ConfigDef:
    """Return the keys of a client: the shared ones, `also` of SOME_CLIENTS_TABLE, and `table` (config_def.parse_table).

    A key of `table` replaces the shared key of that name, for clients with other defaults.
    """
    some = [key for key in parse_table(SOME_CLIENTS_TABLE) if key.name in also]
    assert len(some) == len(also), also
    return ConfigDef([*_shared_keys(), *some, *parse_table(table)])


class ClientConfig:
    """The parsed configs of one client: every key of `definitions` has a value, the given one or its default.

    Values are given as text, numbers, booleans or None; a LIST also as a list or tuple. A CLASS may be any object and
    a LIST may hold any objects (serializers, listeners): these are kept as they are. `${…}` variables of config
    providers are resolved. Raises ConfigException, which names the key, the value unless it is a secret, and what is
    allowed.
    """

    def __init__(self, definitions: ConfigDef, given: Mapping[str, object]) -> None:
        self._definitions = definitions
        self._given = {name for name, value in given.items() if value is not None}
        unknown = sorted(name for name in given if name not in definitions and not name.startswith(PROVIDERS + "."))
        if unknown:
            raise ConfigException(_unknown_text(unknown[0], definitions))
        objects = {name: value for name, value in given.items() if name in definitions and _is_object(value)}
        texts = {name: _text(name, value) for name, value in given.items() if name not in objects}
        try:
            resolved = resolve_variables({name: text for name, text in texts.items() if text is not None})
        except SecurityConfigError as error:
            raise ConfigException(str(error)) from error
        self._texts: dict[str, str] = resolved
        self._values: dict[str, object] = {}
        for name, key in definitions.items():
            self._values[name] = self._value(key, objects, texts)

    def _value(self, key: ConfigKey, objects: Mapping[str, object], texts: Mapping[str, str | None]) -> object:
        name = key.name
        if name in objects:
            return self._object(key, objects[name])
        if name in texts:
            return _parsed(key, self._texts.get(name))
        if key.is_required:
            raise ConfigException(f"Missing required configuration {name}, which has no default: {_allowed(key)}")
        return self._definitions.default_value(name)

    def _object(self, key: ConfigKey, value: object) -> object:
        if key.type is ConfigType.CLASS:
            return value
        if key.type is ConfigType.LIST and isinstance(value, list | tuple):
            if all(isinstance(item, str) for item in value):
                return _parsed(key, ",".join(value))
            return tuple(value)
        raise _refused(key, value)

    def is_given(self, name: str) -> bool:
        """Whether the user gave the key; else its value is the default."""
        return name in self._given

    def get(self, name: str) -> object:
        """Return a value of any type. Raises KeyError for a key that the client does not have."""
        return self._values[name]

    def text(self, name: str) -> str:
        """Return a text; "" for null."""
        value = self._values[name]
        assert value is None or isinstance(value, str), name
        return value or ""

    def number(self, name: str) -> int:
        """Return an INT, SHORT or LONG."""
        value = self._values[name]
        assert isinstance(value, int), name
        return value

    def fraction(self, name: str) -> float:
        """Return a DOUBLE."""
        value = self._values[name]
        assert isinstance(value, float), name
        return value

    def flag(self, name: str) -> bool:
        """Return a BOOLEAN."""
        value = self._values[name]
        assert isinstance(value, bool), name
        return value

    def items(self, name: str) -> tuple[object, ...]:
        """Return a LIST."""
        value = self._values[name]
        assert isinstance(value, tuple), name
        return value

    def bootstrap(self) -> tuple[tuple[str, int], ...]:
        """Return the addresses to connect to first, as (host, port). Raises ConfigException."""
        try:
            return tuple(parse_host_port(str(text)) for text in self.items("bootstrap.servers"))
        except ValueError as error:
            raise ConfigException(
                f"Invalid value {self._texts['bootstrap.servers']} for configuration bootstrap.servers: {error}; "
                "allowed are HOST:PORT,… with IPv6 addresses in brackets"
            ) from None

    def network_config(self, max_in_flight: int = 5) -> NetworkConfig:
        """Return the settings of the client's connections."""
        backoff_ms = self.number("reconnect.backoff.ms")
        backoff_max_ms = self.number("reconnect.backoff.max.ms")
        if self.is_given("reconnect.backoff.ms") and not self.is_given("reconnect.backoff.max.ms"):
            backoff_max_ms = backoff_ms  # as CommonClientConfigs.postProcessReconnectBackoffConfigs
        return NetworkConfig(
            client_id=self.text("client.id"),
            request_timeout_ms=self.number("request.timeout.ms"),
            reconnect_backoff_ms=backoff_ms,
            reconnect_backoff_max_ms=backoff_max_ms,
            socket_connection_setup_timeout_ms=self.number("socket.connection.setup.timeout.ms"),
            socket_connection_setup_timeout_max_ms=self.number("socket.connection.setup.timeout.max.ms"),
            connections_max_idle_ms=self.number("connections.max.idle.ms"),
            max_in_flight_requests_per_connection=max_in_flight,
        )

    def metadata_config(self, *, allow_auto_topic_creation: bool) -> MetadataConfig:
        """Return when the client asks for metadata."""
        return MetadataConfig(
            metadata_max_age_ms=self.number("metadata.max.age.ms"),
            retry_backoff_ms=self.number("retry.backoff.ms"),
            retry_backoff_max_ms=self.number("retry.backoff.max.ms"),
            rebootstrap=self.text("metadata.recovery.strategy").lower() == "rebootstrap",
            rebootstrap_trigger_ms=self.number("metadata.recovery.rebootstrap.trigger.ms"),
            allow_auto_topic_creation=allow_auto_topic_creation,
        )

    def security(self) -> ClientSecurity:
        """Return the TLS and SASL settings; reads the key stores. Raises ConfigException."""
        try:
            return client_security(self._texts)
        except SecurityConfigError as error:
            raise ConfigException(str(error)) from error


def _parsed(key: ConfigKey, text: str | None) -> object:
    try:
        return key.parse(text)
    except ConfigException:
        raise _refused(key, text) from None


def _refused(key: ConfigKey, value: object) -> ConfigException:
    shown = "[hidden]" if key.is_sensitive else str(value)
    return ConfigException(f"Invalid value {shown} for configuration {key.name}: {_allowed(key)}")


def _allowed(key: ConfigKey) -> str:
    return f"must be of type {key.type.name}" + (f" and {key.valid_values}" if key.valid_values else "")


def _is_object(value: object) -> bool:
    return not (value is None or isinstance(value, str | bool | int | float))


def _text(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise ConfigException(f"Invalid value {value!r} for configuration {name}: must be text, a number or a boolean")


def _unknown_text(name: str, definitions: ConfigDef) -> str:
    close = get_close_matches(name, definitions, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known are: {', '.join(definitions)}"
    return f"Unknown configuration {name}: {hint}"
