"""Which settings of server.properties the program acts on, read from its source.

A key counts when a module that runs (not one that only reads, checks or describes settings) uses its attribute, asks a
property of the config that reads it, or names it in `values[…]`; and when a topic setting that the logs obey falls back
on it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from kraft_core.broker.log.log_config import _INTEGERS, LogConfig
from kraft_core.configs.definitions import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE
from kraft_core.configs.definitions_topic import TOPIC_SYNONYMS
from kraft_core.security.listener_security import _CLASSES
from kraft_core.security.ssl_factory import _REFUSED
from kraft_core.server.config import abstract_kafka_config as config_module
from kraft_core.server.config.kafka_config import KafkaConfig
from kraft_core.server.config.server_properties import definitions
from kraft_core.server.config.settings import Setting

ROOT = Path(__file__).resolve().parents[2]
SECURITY = [
    ROOT / "kraft_core/security" / f"{name}.py"
    for name in ("listener_security", "ssl_factory", "ssl_stores", "config_providers")
]
RUNNING = (
    "kraft_core/kafka_raft_server.py",
    "kraft_core/server/node_config.py",
    "app/cli/format.py",
    "app/cli/quorum_describe.py",
)
CONTROLLER_TOPIC_SETTINGS = {MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE}
"""Topic settings that ConfigurationControlManager looks up for elections."""
ATTRIBUTES = {
    name: setting.key
    for owner in KafkaConfig.__mro__
    for name, setting in vars(owner).items()
    if isinstance(setting, Setting)
}


def _config_attributes(tree: ast.AST) -> Iterator[str]:
    """Names of attributes that are read from something called config."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).split(".")[-1] in {"config", "_config"}:
            yield node.attr


def _subscripts(tree: ast.AST) -> Iterator[str]:
    """Keys in `….values["key"]`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            yield str(node.slice.value)


def _properties() -> dict[str, set[str]]:
    """Keys that each property of the config reads, through other properties too."""
    tree = ast.parse(Path(config_module.__file__).read_text())
    owner = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "AbstractKafkaConfig")
    direct: dict[str, set[str]] = {}
    calls: dict[str, set[str]] = {}
    for function in owner.body:
        if isinstance(function, ast.FunctionDef):
            words = {str(node.value) for node in ast.walk(function) if isinstance(node, ast.Constant)}
            names = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
            keys = {word for word in words if word in definitions()}
            direct[function.name] = keys | {ATTRIBUTES[name] for name in names if name in ATTRIBUTES}
            calls[function.name] = names

    def closure(name: str, seen: frozenset[str] = frozenset()) -> set[str]:
        found = set(direct[name])
        for other in calls[name] & set(direct) - seen - {name}:
            found |= closure(other, seen | {name})
        return found

    return {name: closure(name) for name in direct if not name.startswith("__")}


def obeyed_topic_settings() -> set[str]:
    """Topic settings whose LogConfig field the broker's modules read."""
    fields = {field: name for name, field in _INTEGERS.items()} | {
        "min_cleanable_dirty_ratio": "min.cleanable.dirty.ratio",
        "cleanup_policy": "cleanup.policy",
        "is_compacted": "cleanup.policy",
        "is_deleted": "cleanup.policy",
        "compression_type": "compression.type",
        "log_append_time": "message.timestamp.type",
    }
    assert set(LogConfig.__dataclass_fields__) <= set(fields)
    read = {
        node.attr
        for path in (ROOT / "kraft_core/broker").rglob("*.py")
        if path.name != "log_config.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    return {name for field, name in fields.items() if field in read}


def security_settings() -> set[str]:
    """Keys that say how a listener knows its clients; those that are refused whatever they say are left out."""
    words = {
        str(node.value)
        for path in [*SECURITY, ROOT / "kraft_core/server/config/node_security.py"]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
    }
    return (words & set(definitions())) - set(_CLASSES) - set(_REFUSED) - {"principal.builder.class"}


def acted_keys() -> set[str]:
    """Every key that changes what a node does."""
    properties = _properties()
    known = definitions()
    found = security_settings()
    broker = (path for path in (ROOT / "kraft_core/broker").rglob("*.py") if path.name != "log_config.py")
    for path in [*(ROOT / name for name in RUNNING), *broker]:
        tree = ast.parse(path.read_text())
        for name in _config_attributes(tree):
            found |= {ATTRIBUTES[name]} if name in ATTRIBUTES else properties.get(name, set())
        found |= {key for key in _subscripts(tree) if key in known}
    for name in obeyed_topic_settings() | CONTROLLER_TOPIC_SETTINGS:
        found |= {key for key, _ in TOPIC_SYNONYMS.get(name, ())}
    return found
