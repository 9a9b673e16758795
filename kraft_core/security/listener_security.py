"""TLS and SASL settings of listeners and clients, parsed and checked.

`server_security` is for a listener, `node_security` for the connections of a node to listeners of other nodes, and
`client_security` for a program that connects with a client's properties (`--command-config`).

Mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512. Settings that name Java classes are refused.
Source: ChannelBuilders, SaslChannelBuilder, SslChannelBuilder and JaasContext, Kafka 4.3.1.
"""

import secrets
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kraft_core.image.metadata_image import ScramCredential
from kraft_core.image.scram_mechanism import MIN_ITERATIONS, SCRAM_MECHANISMS, ScramMechanism
from kraft_core.protocol.security_protocol import SecurityProtocol
from kraft_core.security.jaas import JaasEntry, JaasError, parse_jaas
from kraft_core.security.plain import PLAIN, PlainSaslClient, PlainSaslServer
from kraft_core.security.properties import SecurityConfigError, SecurityProperties
from kraft_core.security.sasl import SaslClient, SaslServer
from kraft_core.security.sasl_client_authenticator import SaslClientAuthenticator
from kraft_core.security.sasl_server_authenticator import SaslMechanism
from kraft_core.security.scram import ScramSaslClient, ScramSaslServer, TokenOf, no_tokens
from kraft_core.security.scram_formatter import new_nonce
from kraft_core.security.ssl_principal_mapper import SslPrincipalMapper

MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS)
_PRINCIPAL_BUILDER: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
_CLASSES: Final = (
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)
_JAAS: Final = "sasl.jaas.config"
_REAUTH: Final = "connections.max.reauth.ms"
_DECOY_KEY: Final = secrets.token_bytes(32)

CredentialOf = Callable[[int, str], ScramCredential | None]
"""Returns the SCRAM credential for a mechanism's number and a user's name."""
UsualIterations = Callable[[int], int]
"""Returns the iterations of most users for a mechanism's number."""


@dataclass(frozen=True, slots=True)
class ServerSecurity:
    """Security settings of a listener. Times are ms; `plain_users` holds passwords by name."""

    tls: ssl.SSLContext | None = None
    principal_mapper: SslPrincipalMapper = field(default_factory=SslPrincipalMapper)
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)  # by enabled mechanism, in the file's order
    plain_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_receive_bytes: int = 524_288
    failed_delay_ms: int = 100

    @property
    def has_sasl(self) -> bool:
        """Whether clients log in with SASL."""
        return bool(self.max_reauth_ms)

    @property
    def security_protocol(self) -> SecurityProtocol:
        """The listener's security protocol."""
        return _protocol(has_sasl=self.has_sasl, has_tls=self.tls is not None)

    def mechanisms(
        self,
        credential_of: CredentialOf,
        token_of: TokenOf = no_tokens,
        usual_iterations: UsualIterations = lambda _mechanism: MIN_ITERATIONS,
    ) -> dict[str, SaslMechanism]:
        """Return the enabled mechanisms by name, for an authenticator.

        At each login SCRAM looks up users in `credential_of` and delegation tokens in `token_of`.
        """
        return {
            name: SaslMechanism(
                partial(self._new_server, name, credential_of, token_of, usual_iterations), max_reauth_ms
            )
            for name, max_reauth_ms in self.max_reauth_ms.items()
        }

    def _new_server(
        self, name: str, credential_of: CredentialOf, token_of: TokenOf, usual_iterations: UsualIterations
    ) -> SaslServer:
        if name == PLAIN:
            return PlainSaslServer(self.plain_users)
        mechanism = SCRAM_MECHANISMS[name]
        return ScramSaslServer(
            mechanism,
            partial(credential_of, mechanism.type),
            new_nonce(),
            _DECOY_KEY,
            token_of,
            partial(usual_iterations, mechanism.type),
        )


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """Security settings of a client; the default is PLAINTEXT. `mechanism` None: no SASL.

    `is_token`: `username` and `password` are the id and the HMAC of a delegation token.
    """

    tls: ssl.SSLContext | None = None
    mechanism: str | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    is_token: bool = False

    @property
    def security_protocol(self) -> str:
        """The name of the security protocol."""
        return _protocol(has_sasl=self.mechanism is not None, has_tls=self.tls is not None).name

    def new_login(self, server_versions: Mapping[int, tuple[int, int]]) -> SaslClientAuthenticator | None:
        """Return a new login for a server with these versions, None without SASL."""
        if self.mechanism is None:
            return None
        return SaslClientAuthenticator(self.mechanism, self._new_client(self.mechanism), server_versions)

    def _new_client(self, mechanism: str) -> SaslClient:
        scram: ScramMechanism | None = SCRAM_MECHANISMS.get(mechanism)
        if scram is None:
            return PlainSaslClient(self.username, self.password)
        return ScramSaslClient(scram, self.username, self.password, new_nonce(), is_token=self.is_token)


def _protocol(*, has_sasl: bool, has_tls: bool) -> SecurityProtocol:
    if has_sasl:
        return SecurityProtocol.SASL_SSL if has_tls else SecurityProtocol.SASL_PLAINTEXT
    return SecurityProtocol.SSL if has_tls else SecurityProtocol.PLAINTEXT


PLAINTEXT_SERVER: Final = ServerSecurity()
PLAINTEXT_CLIENT: Final = ClientSecurity()


def _server_context(properties: SecurityProperties, *, has_sasl: bool) -> ssl.SSLContext:
    from kraft_core.security.ssl_factory import server_context  # imports `cryptography`, which only TLS needs

    return server_context(properties, has_sasl=has_sasl)


def _client_context(properties: SecurityProperties) -> ssl.SSLContext:
    from kraft_core.security.ssl_factory import client_context  # as above

    return client_context(properties)


def server_security(originals: Mapping[str, str], listener_name: str, protocol: str) -> ServerSecurity:
    """Return the security of one listener from the settings of its node. Raises SecurityConfigError."""
    if protocol == "PLAINTEXT":
        return PLAINTEXT_SERVER
    properties = SecurityProperties(originals, listener_name)
    _refuse_classes(properties)
    has_sasl = protocol.startswith("SASL_")
    context = _server_context(properties, has_sasl=has_sasl) if protocol.endswith("SSL") else None
    try:
        mapper = SslPrincipalMapper(properties.text("ssl.principal.mapping.rules") or "")
    except ValueError as error:
        raise properties.refused("ssl.principal.mapping.rules", str(error)) from error
    if not has_sasl:
        return ServerSecurity(tls=context, principal_mapper=mapper)
    max_reauth_ms: dict[str, int] = {}
    users: dict[str, str] = {}
    for mechanism in properties.texts("sasl.enabled.mechanisms"):
        _require_known(properties, "sasl.enabled.mechanisms", mechanism)
        entry = _jaas(properties, mechanism)
        max_reauth_ms[mechanism] = _max_reauth_ms(properties, mechanism)
        if mechanism == PLAIN:
            users = entry.users
    if not max_reauth_ms:
        raise properties.refused("sasl.enabled.mechanisms", "a listener with SASL needs a mechanism")
    return ServerSecurity(
        tls=context,
        principal_mapper=mapper,
        max_reauth_ms=max_reauth_ms,
        plain_users=users,
        max_receive_bytes=properties.number("sasl.server.max.receive.size"),
        failed_delay_ms=properties.number("connection.failed.authentication.delay.ms"),
    )


def node_security(
    originals: Mapping[str, str], listener_name: str, protocol: str, mechanism_key: str
) -> ClientSecurity:
    """Return the security of a node's connections to a listener of other nodes, which has the same settings there.

    `mechanism_key` is `sasl.mechanism.controller.protocol` or `sasl.mechanism.inter.broker.protocol`; the name and the
    password come from the listener's JAAS line. Raises SecurityConfigError.
    """
    if protocol == "PLAINTEXT":
        return PLAINTEXT_CLIENT
    properties = SecurityProperties(originals, listener_name)
    _refuse_classes(properties)
    context = _client_context(properties) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL_"):
        return ClientSecurity(tls=context)
    mechanism = properties.text(mechanism_key) or ""
    _require_known(properties, mechanism_key, mechanism)
    name, _ = properties.mechanism_text(mechanism, _JAAS)
    return _sasl_client(context, mechanism, _jaas(properties, mechanism), name)


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """Return the security of a client from its properties: security.protocol, sasl.mechanism, sasl.jaas.config, ssl.….

    Raises SecurityConfigError.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in SecurityProtocol.__members__:
        raise SecurityConfigError(
            f"Invalid value {protocol} for configuration security.protocol: "
            f"must be one of {', '.join(SecurityProtocol.__members__)}"
        )
    if protocol == "PLAINTEXT":
        return PLAINTEXT_CLIENT
    view = SecurityProperties(properties)
    _refuse_classes(view)
    context = _client_context(view) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL_"):
        return ClientSecurity(tls=context)
    mechanism = properties.get("sasl.mechanism", "GSSAPI").strip()
    if mechanism not in MECHANISMS:
        raise SecurityConfigError(
            f"Invalid value {mechanism} for configuration sasl.mechanism: must be one of {', '.join(MECHANISMS)}"
        )
    entry = _parsed(_JAAS, properties.get(_JAAS), mechanism)
    return _sasl_client(context, mechanism, entry, _JAAS)


def _sasl_client(context: ssl.SSLContext | None, mechanism: str, entry: JaasEntry, key: str) -> ClientSecurity:
    if entry.username is None or entry.password is None:
        raise SecurityConfigError(f"Invalid value [hidden] for configuration {key}: it has no username and password")
    is_token = mechanism != PLAIN and entry.options.get("tokenauth", "").lower() == "true"
    return ClientSecurity(context, mechanism, entry.username, entry.password, is_token)


def _jaas(properties: SecurityProperties, mechanism: str) -> JaasEntry:
    name, text = properties.mechanism_text(mechanism, _JAAS)
    return _parsed(name, text, mechanism)


def _parsed(key: str, text: str | None, mechanism: str) -> JaasEntry:
    if text is None:
        raise SecurityConfigError(f'Missing required configuration "{key}": {mechanism} needs a login module')
    try:
        return parse_jaas(text, mechanism)
    except JaasError as error:
        raise SecurityConfigError(f"Invalid value [hidden] for configuration {key}: {error}") from error


def _max_reauth_ms(properties: SecurityProperties, mechanism: str) -> int:
    name, text = properties.mechanism_text(mechanism, _REAUTH)
    if text is None:
        return properties.number(_REAUTH)
    try:
        return int(text)
    except ValueError:
        raise SecurityConfigError(f"Invalid value {text} for configuration {name}: Not a number of type LONG") from None


def _require_known(properties: SecurityProperties, key: str, mechanism: str) -> None:
    if mechanism not in MECHANISMS:
        raise properties.refused(key, f"{mechanism} is not supported; these mechanisms are: {', '.join(MECHANISMS)}")


def _refuse_classes(properties: SecurityProperties) -> None:
    for key in _CLASSES:
        if properties.is_given(key):
            raise properties.refused(key, "Java classes cannot be loaded; leave it out")
    if properties.text("principal.builder.class") != _PRINCIPAL_BUILDER:
        raise properties.refused("principal.builder.class", "Java classes cannot be loaded; leave it out")
