"""TLS contexts from Kafka's `ssl.…` settings, for listeners and for outgoing connections.

TLS 1.2 and 1.3 only, no renegotiation, no compression, no resumption. OpenSSL reads a private key only from a file, so
the key is passed in a temporary file of this user, encrypted with a password that only this process has.

Source: SslFactory and DefaultSslEngineFactory, Kafka 4.3.1.
"""

import secrets
import ssl
import tempfile
from typing import Final

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from kraft_core.security.properties import SecurityProperties
from kraft_core.security.ssl_stores import KeyStore, load_key_store, load_trust_store

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_REFUSED: Final = {
    "ssl.cipher.suites": "the choice of cipher suites is not supported; leave it out for OpenSSL's secure ones",
    "ssl.engine.factory.class": "Java classes cannot be loaded; leave it out",
    "ssl.provider": "Java's security providers cannot be loaded; leave it out",
    "security.providers": "Java's security providers cannot be loaded; leave it out",
}


def server_context(properties: SecurityProperties, *, has_sasl: bool) -> ssl.SSLContext:
    """Return the context of a listener.

    `has_sasl`: clients log in with SASL, so `ssl.client.auth` applies only if set for this listener in particular.
    Raises SecurityConfigError.
    """
    context = _context(properties, ssl.PROTOCOL_TLS_SERVER)
    store = load_key_store(properties)
    if store is None:
        raise properties.refused("ssl.keystore.location", "a listener with TLS needs a key store")
    _use_key(context, properties, store)
    client_auth = properties.text("ssl.client.auth") or "none"
    if not has_sasl or properties.is_listeners_own("ssl.client.auth"):
        context.verify_mode = _CLIENT_AUTH[client_auth]
    return context


def client_context(properties: SecurityProperties) -> ssl.SSLContext:
    """Return the context for outgoing connections. Raises SecurityConfigError.

    The peer's certificate is always checked; its name unless `ssl.endpoint.identification.algorithm` is empty.
    """
    context = _context(properties, ssl.PROTOCOL_TLS_CLIENT)
    algorithm = (properties.text("ssl.endpoint.identification.algorithm") or "").lower()
    if algorithm not in ("", "https"):
        raise properties.refused("ssl.endpoint.identification.algorithm", "must be https, or empty for no check")
    context.check_hostname = algorithm == "https"
    store = load_key_store(properties)
    if store is not None:
        _use_key(context, properties, store)
    return context


def _context(properties: SecurityProperties, protocol: int) -> ssl.SSLContext:
    for key, reason in _REFUSED.items():
        if properties.is_given(key):
            raise properties.refused(key, reason)
    enabled = properties.texts("ssl.enabled.protocols")
    unknown = [name for name in enabled if name not in _VERSIONS]
    if unknown or not enabled:
        raise properties.refused("ssl.enabled.protocols", "may hold TLSv1.2 and TLSv1.3; older ones are not safe")
    versions = sorted(_VERSIONS[name] for name in enabled)
    context = ssl.SSLContext(protocol)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    trusted = load_trust_store(properties)
    if trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        text = "".join(each.public_bytes(Encoding.PEM).decode() for each in trusted)
        context.load_verify_locations(cadata=text)
    return context


def _use_key(context: ssl.SSLContext, properties: SecurityProperties, store: KeyStore) -> None:
    password = secrets.token_hex(32)
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    with tempfile.NamedTemporaryFile() as file:  # readable by this user only
        file.write(key + b"".join(each.public_bytes(Encoding.PEM) for each in store.certificates))
        file.flush()
        try:
            context.load_cert_chain(file.name, password=password)
        except ssl.SSLError as error:
            name = "ssl.keystore.key" if properties.is_given("ssl.keystore.key") else "ssl.keystore.location"
            raise properties.refused(name, f"TLS cannot use its key and certificate: {error.reason}") from error
