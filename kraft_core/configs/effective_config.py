"""The effective value of a config, its source and its synonyms.

Precedence of a topic config: the topic's value, then the broker's dynamic value for the node, the dynamic value for the
whole cluster (the broker resource named ""), server.properties, the default. The controller, a broker's DescribeConfigs
and the web all use this module. `node_id` and `static_configs` are those of the answering node; the web is not a node
and leaves them out, so it shows the metadata log and Kafka's defaults.

Source: ConfigHelper, KafkaConfigSchema, DynamicBrokerConfig, Kafka 4.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kraft_core.configs.config_def import ConfigException, ConfigKey, ConfigType, UpdateMode, parse_type
from kraft_core.configs.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.configs.definitions import broker_synonyms, config_def, convert_synonym
from kraft_core.configs.definitions_topic import TOPIC_SYNONYMS, group_synonym

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kraft_core.configs.config_resource import DynamicConfigs


class ConfigSource(IntEnum):
    """The source of a value, with its number in DescribeConfigs. Source: DescribeConfigsResponse.ConfigSource."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A possible source of a value, with its own name and unit; sensitive values are None."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A key's effective value; None when it is null or sensitive. Synonyms are ordered by precedence, highest first.

    `type` is None for an undefined key: a custom config of a plug-in.
    """

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    key: ConfigKey | None = None

    @property
    def is_default(self) -> bool:
        """Whether the value is the default."""
        return self.source is ConfigSource.DEFAULT_CONFIG

    @property
    def type(self) -> ConfigType | None:
        """The key's type; None for an unknown key."""
        return None if self.key is None else self.key.type

    @property
    def documentation(self) -> str:
        """The key's description in one or two sentences; "" for an unknown key, or a listener's form of a known one."""
        return "" if self.key is None or self.key.name != self.name else self.key.documentation


_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NodeConfigs:
    """The broker configs from which topics and groups inherit values, as seen by one node.

    `node`: dynamic configs of this node; `cluster`: dynamic configs of all brokers; `static`: server.properties.
    """

    node: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    cluster: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    static: Mapping[str, str] = field(default_factory=lambda: _EMPTY)

    @classmethod
    def of(
        cls, configs: DynamicConfigs, node_id: int | None = None, static_configs: Mapping[str, str] = _EMPTY
    ) -> NodeConfigs:
        """Return the broker configs from the metadata log's configs and `static_configs`."""
        node = _EMPTY if node_id is None else configs.of(BROKER, str(node_id))
        return cls(node, configs.of(BROKER, ""), static_configs)

    @property
    def layers(self) -> tuple[tuple[Mapping[str, str], ConfigSource], ...]:
        """The configs and their sources, highest precedence first."""
        return (
            (self.node, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self.static, ConfigSource.STATIC_BROKER_CONFIG),
        )


def topic_fallback(name: str, nodes: NodeConfigs) -> tuple[str | None, ConfigSource]:
    """Return value and source of a topic config that is not set on the topic.

    Source: KafkaConfigSchema.resolveEffectiveTopicConfig.
    """
    synonyms = TOPIC_SYNONYMS.get(name, ())
    for configs, source in nodes.layers:
        for synonym, factor in synonyms:
            value = configs.get(synonym)
            if value is not None:
                return convert_synonym(value, factor), source
    return config_def(TOPIC)[name].default, ConfigSource.DEFAULT_CONFIG


def topic_config(name: str, topic_configs: Mapping[str, str], nodes: NodeConfigs) -> str | None:
    """Return the effective value of one topic config as text, None for null. Raises KeyError for an unknown name."""
    value = topic_configs.get(name)
    return value if value is not None else topic_fallback(name, nodes)[0]


def topic_entries(topic_configs: Mapping[str, str], nodes: NodeConfigs) -> list[ConfigEntry]:
    """Return the configs of a topic that sets `topic_configs`, sorted by name; internal keys only if set."""
    entries = []
    for name, key in config_def(TOPIC).items():
        own = topic_configs.get(name)
        if own is None and key.is_internal:
            continue
        synonyms = _synonyms_from(TOPIC_SYNONYMS[name][0][0], nodes) if name in TOPIC_SYNONYMS else ()
        value, source = (own, ConfigSource.DYNAMIC_TOPIC_CONFIG) if own is not None else topic_fallback(name, nodes)
        if own is not None:
            synonyms = (ConfigSynonym(name, own, source), *synonyms)
        entries.append(
            ConfigEntry(name, value, source, key.is_sensitive, is_read_only=False, synonyms=synonyms, key=key)
        )
    return entries


def broker_entries(nodes: NodeConfigs) -> list[ConfigEntry]:
    """Return all configs of one broker, sorted by name; internal and custom ones only if set."""
    keys = config_def(BROKER)
    set_names = {name for configs, _ in nodes.layers for name in configs}
    public = {name for name, key in keys.items() if not key.is_internal}
    return [_broker_entry(name, nodes) for name in sorted(public | set_names)]


def default_broker_entries(nodes: NodeConfigs) -> list[ConfigEntry]:
    """Return the configs that are set for all brokers: the broker resource named ""."""
    entries = []
    for name in sorted(nodes.cluster):
        key = config_def(BROKER).get(name)
        is_sensitive = key is None or key.is_sensitive
        value = None if is_sensitive else nodes.cluster[name]
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        synonyms = (ConfigSynonym(name, value, source),)
        entries.append(ConfigEntry(name, value, source, is_sensitive, _is_read_only(key), synonyms, key))
    return entries


def client_metrics_entries(configs: Mapping[str, str]) -> list[ConfigEntry]:
    """Return the configs of a client-metrics subscription, sorted by name."""
    return [
        _own_or_default(key, configs.get(name), ConfigSource.CLIENT_METRICS_CONFIG, ())
        for name, key in config_def(CLIENT_METRICS).items()
    ]


def group_entries(configs: Mapping[str, str], nodes: NodeConfigs) -> list[ConfigEntry]:
    """Return the configs of a group, sorted by name; values that the group does not set come from the broker."""
    entries = []
    for name, key in config_def(GROUP).items():
        synonym = group_synonym(name)
        synonyms: tuple[ConfigSynonym, ...]
        if synonym is not None:
            synonyms = _synonyms_from(synonym, nodes)
        else:
            synonyms = (ConfigSynonym(name, key.default, ConfigSource.DEFAULT_CONFIG),)
        entries.append(_own_or_default(key, configs.get(name), ConfigSource.GROUP_CONFIG, synonyms))
    return entries


def normalize(key: ConfigKey, text: str | None) -> str | None:
    """Return a value as Kafka shows it: `true` for " TRUE ", `1.0` for the double 1; an invalid one unchanged."""
    try:
        value = parse_type(key.name, text, key.type)
    except ConfigException:
        return text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _java_double(value)
    return None if value is None else str(value)


def _java_double(value: float) -> str:
    """Return a double as Java writes it: 0.5, 1.0, 1.0E7."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    whole, rest = digits[0], "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{whole}.{rest}E{int(exponent) + len(digits) - 1}"


def _own_or_default(
    key: ConfigKey, own: str | None, source: ConfigSource, fallbacks: tuple[ConfigSynonym, ...]
) -> ConfigEntry:
    synonyms = fallbacks if own is None else (ConfigSynonym(key.name, normalize(key, own), source), *fallbacks)
    value, at = (synonyms[0].value, synonyms[0].source) if synonyms else (key.default, ConfigSource.DEFAULT_CONFIG)
    return ConfigEntry(
        key.name, normalize(key, value), at, key.is_sensitive, is_read_only=False, synonyms=synonyms, key=key
    )


def _broker_entry(name: str, nodes: NodeConfigs) -> ConfigEntry:
    key = _broker_key(name)
    is_sensitive = key is None or key.is_sensitive
    synonyms = _synonyms_from(name, nodes)
    if synonyms:
        value, source = synonyms[0].value, synonyms[0].source
    else:
        value, source = (None if key is None else key.default), ConfigSource.DEFAULT_CONFIG
    if is_sensitive or key is None:
        value = None
    return ConfigEntry(
        name,
        value if key is None else normalize(key, value),
        source,
        is_sensitive,
        _is_read_only(config_def(BROKER).get(name)),
        synonyms,
        key,
    )


def _broker_key(name: str) -> ConfigKey | None:
    """Return a broker config's key, also for a listener's override such as `listener.name.client.ssl.client.auth`."""
    keys = config_def(BROKER)
    return keys.get(name) or next((keys[each] for each in broker_synonyms(name) if each in keys), None)


def _synonyms_from(name: str, nodes: NodeConfigs) -> tuple[ConfigSynonym, ...]:
    """Return all sources that set the broker config or a synonym, from the first that sets this name."""
    keys = config_def(BROKER)
    names = broker_synonyms(name)
    defaults = {each: keys[each].default for each in names if each in keys}
    known = _broker_key(name)
    is_sensitive = known is None or known.is_sensitive
    found = [
        ConfigSynonym(each, None if is_sensitive else value, source)
        for configs, source in (*nodes.layers, (defaults, ConfigSource.DEFAULT_CONFIG))
        for each, value in _present(names, configs)
    ]
    first = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
    return tuple(found[first:])


def _present(names: Iterable[str], configs: Mapping[str, str | None]) -> Iterable[tuple[str, str]]:
    for name in names:
        value = configs.get(name)
        if value is not None:
            yield name, value


def _is_read_only(key: ConfigKey | None) -> bool:
    return key is None or key.update_mode is UpdateMode.READ_ONLY
