"""NodeSecurity: TLS and SASL of a node's listeners and of its connections to controllers, and its authorizer.

Source: KafkaConfig and StandardAuthorizer.configure, Kafka 4.3.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kraft_core.image.standard_authorizer import StandardAuthorizer, parse_super_users
from kraft_core.security.listener_security import (
    PLAINTEXT_CLIENT,
    PLAINTEXT_SERVER,
    ClientSecurity,
    ServerSecurity,
    node_security,
    server_security,
)
from kraft_core.security.properties import SecurityConfigError
from kraft_core.server.config.abstract_kafka_config import AbstractKafkaConfig
from kraft_core.server.config.server_properties import ConfigError

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
AUTHORIZER_KEYS: Final = ("super.users", "allow.everyone.if.no.acl.found")
"""Keys of the authorizer, which are not among Kafka's config definitions."""
_CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"


@dataclass(frozen=True, slots=True)
class NodeSecurity:
    """Security of `listeners` by name and of connections to `controllers`; `authorizer` None: no authorization."""

    listeners: Mapping[str, ServerSecurity] = field(default_factory=dict)
    controllers: ClientSecurity = PLAINTEXT_CLIENT
    authorizer: StandardAuthorizer | None = None

    def of_listener(self, name: str) -> ServerSecurity:
        """Return the security of a listener; PLAINTEXT for an unknown one."""
        return self.listeners.get(name, PLAINTEXT_SERVER)


def read_node_security(config: AbstractKafkaConfig) -> NodeSecurity:
    """Parse and validate the security settings. Raises ConfigError."""
    originals = config.originals
    name = config.controller_listener_names[0].upper()
    protocol = config.listener_security_protocol_map.get(name, "PLAINTEXT")
    try:
        listeners = {
            each.name: server_security(originals, each.name, each.security_protocol) for each in config.listeners
        }
        controllers = node_security(originals, name, protocol, _CONTROLLER_MECHANISM)
    except SecurityConfigError as error:
        raise ConfigError(str(error)) from None
    own = listeners.get(name)
    if own is not None and own.has_sasl and controllers.mechanism not in own.max_reauth_ms:
        raise ConfigError(
            f"Invalid value {controllers.mechanism} for configuration {_CONTROLLER_MECHANISM}: "
            f"it is not among the sasl.enabled.mechanisms of the listener {name}"
        )
    return NodeSecurity(listeners, controllers, _authorizer(config))


def _authorizer(config: AbstractKafkaConfig) -> StandardAuthorizer | None:
    class_name = str(config.values["authorizer.class.name"] or "")
    if not class_name:
        return None
    if class_name != STANDARD_AUTHORIZER:
        raise ConfigError(
            f"Invalid value {class_name} for configuration authorizer.class.name: must be {STANDARD_AUTHORIZER}"
        )
    text = config.originals.get("allow.everyone.if.no.acl.found", "false").strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(
            f"Invalid value {text} for configuration allow.everyone.if.no.acl.found: must be true or false"
        )
    users = config.originals.get("super.users", "")
    try:
        return StandardAuthorizer(parse_super_users(users), text == "true")
    except ValueError as error:
        raise ConfigError(f"Invalid value {users} for configuration super.users: {error}") from error
