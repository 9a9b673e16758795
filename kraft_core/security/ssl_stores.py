"""Key stores and trust stores: PEM (in a file or in the setting) and PKCS #12, checked as Kafka checks them.

Java reads and writes PKCS #12 also if the type is JKS. Only the old JKS format is refused, since no maintained library
reads it: `keytool -importkeystore -deststoretype PKCS12` converts a store.

Source: DefaultSslEngineFactory, Kafka 4.3.1; KIP-651 for PEM.
"""

import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12

from kraft_core.security.properties import SecurityProperties

PEM: Final = "PEM"
_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_STORE_TYPES: Final = (PEM, "PKCS12", "JKS")


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key and its certificate chain, the key's certificate first."""

    key: PrivateKeyTypes = field(repr=False)
    certificates: tuple[x509.Certificate, ...]


def load_key_store(properties: SecurityProperties) -> KeyStore | None:
    """Return the key store of the `ssl.keystore.…` settings, None if there is none. Raises SecurityConfigError."""
    kind = _store_type(properties, "ssl.keystore.type")
    location = properties.text("ssl.keystore.location")
    password = properties.text("ssl.keystore.password")
    key = properties.text("ssl.keystore.key")
    chain = properties.text("ssl.keystore.certificate.chain")
    if key is not None or chain is not None:
        named = "ssl.keystore.key" if key is not None else "ssl.keystore.certificate.chain"
        if key is None or chain is None:
            raise properties.refused(named, "ssl.keystore.key and ssl.keystore.certificate.chain are needed together")
        if kind != PEM:
            raise properties.refused("ssl.keystore.type", f"{named} can be specified only for PEM")
        if location is not None:
            raise properties.refused("ssl.keystore.location", f"both a key store location and {named} are specified")
        if password is not None:
            raise properties.refused("ssl.keystore.password", "PEM has no store password; use ssl.key.password")
        return _pem_key_store(properties, key, chain, "ssl.keystore.key", "ssl.keystore.certificate.chain")
    if location is None:
        if password is not None:
            raise properties.refused("ssl.keystore.password", "no key store is specified for it")
        return None
    data = _read(properties, "ssl.keystore.location", location, is_secret=True)
    if kind == PEM:
        if password is not None:
            raise properties.refused("ssl.keystore.password", "PEM has no store password; use ssl.key.password")
        text = _pem_text(properties, "ssl.keystore.location", data)
        return _pem_key_store(properties, text, text, "ssl.keystore.location", "ssl.keystore.location")
    if password is None:
        raise properties.refused("ssl.keystore.location", "the key store needs ssl.keystore.password")
    store = _pkcs12(properties, "ssl.keystore.location", data, password)
    if store.key is None or store.cert is None:
        raise properties.refused("ssl.keystore.location", "the key store holds no private key with its certificate")
    others = tuple(each.certificate for each in store.additional_certs)
    return KeyStore(store.key, _chain(store.cert.certificate, others))


def load_trust_store(properties: SecurityProperties) -> tuple[x509.Certificate, ...] | None:
    """Return the certificates of the `ssl.truststore.…` settings, None if there are none.

    Raises SecurityConfigError.
    """
    kind = _store_type(properties, "ssl.truststore.type")
    location = properties.text("ssl.truststore.location")
    password = properties.text("ssl.truststore.password")
    given = properties.text("ssl.truststore.certificates")
    if given is not None:
        if kind != PEM:
            raise properties.refused("ssl.truststore.type", "ssl.truststore.certificates can be specified only for PEM")
        if location is not None:
            raise properties.refused("ssl.truststore.location", "ssl.truststore.certificates is specified too")
        if password is not None:
            raise properties.refused("ssl.truststore.password", "PEM has no store password")
        return _certificates(properties, "ssl.truststore.certificates", given)
    if location is None:
        if password is not None:
            raise properties.refused("ssl.truststore.password", "no trust store is specified for it")
        return None
    data = _read(properties, "ssl.truststore.location", location, is_secret=False)
    if kind == PEM:
        if password is not None:
            raise properties.refused("ssl.truststore.password", "PEM has no store password")
        return _certificates(
            properties, "ssl.truststore.location", _pem_text(properties, "ssl.truststore.location", data)
        )
    store = _pkcs12(properties, "ssl.truststore.location", data, password)
    found = [*([] if store.cert is None else [store.cert]), *store.additional_certs]
    if not found:
        raise properties.refused("ssl.truststore.location", "the trust store holds no certificate")
    return tuple(each.certificate for each in found)


def _store_type(properties: SecurityProperties, key: str) -> str:
    kind = (properties.text(key) or "").upper()
    if kind not in _STORE_TYPES:
        raise properties.refused(key, f"must be one of {', '.join(_STORE_TYPES)}")
    return kind


def _read(properties: SecurityProperties, key: str, location: str, *, is_secret: bool) -> bytes:
    path = Path(location)
    try:
        if is_secret and path.stat().st_mode & stat.S_IRWXO:
            raise properties.refused(key, "every user of this machine can read the private key in it; chmod o-rwx")
        return path.read_bytes()
    except OSError as error:
        raise properties.refused(key, f"cannot be read: {error.strerror or error}") from error


def _pem_text(properties: SecurityProperties, key: str, data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise properties.refused(key, "not a PEM file") from None


def _pem_key_store(
    properties: SecurityProperties, key_text: str, chain_text: str, key_name: str, chain_name: str
) -> KeyStore:
    password = properties.text("ssl.key.password")
    try:
        key = load_pem_private_key(key_text.encode(), None if password is None else password.encode())
    except (TypeError, ValueError) as error:
        missing = "it is encrypted and needs ssl.key.password" if password is None else "is ssl.key.password right?"
        is_encrypted = "ENCRYPTED" in key_text
        reason = missing if is_encrypted else "no private key in PEM can be read from it"
        raise properties.refused(key_name, reason) from error
    own, *others = _certificates(properties, chain_name, chain_text)
    return KeyStore(key, _chain(own, tuple(others)))


def _certificates(properties: SecurityProperties, key: str, text: str) -> tuple[x509.Certificate, ...]:
    try:
        return tuple(x509.load_pem_x509_certificates(text.encode()))
    except ValueError as error:
        raise properties.refused(key, "no certificate in PEM can be read from it") from error


def _pkcs12(
    properties: SecurityProperties, key: str, data: bytes, password: str | None
) -> pkcs12.PKCS12KeyAndCertificates:
    if data.startswith(_JKS_MAGIC):
        reason = "the old JKS format is not supported; convert it: keytool -importkeystore -deststoretype PKCS12"
        raise properties.refused(key, reason)
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise properties.refused(key, "not a PKCS12 store, or its password is wrong") from error


def _chain(own: x509.Certificate, others: tuple[x509.Certificate, ...]) -> tuple[x509.Certificate, ...]:
    """Return the certificates in order: each is the issuer of the one before it."""
    chain, rest = [own], list(others)
    while rest and chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in rest if each.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        chain.append(issuer)
        rest.remove(issuer)
    return tuple(chain)
