"""Certificates that the tests generate; none is stored."""

import functools
import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A key, its certificate, and the certificate of the authority that issued it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    issuer: x509.Certificate

    @property
    def chain_pem(self) -> str:
        return "".join(each.public_bytes(Encoding.PEM).decode() for each in (self.certificate, self.issuer))

    def key_pem(self, password: str | None = None) -> str:
        encryption: KeySerializationEncryption = (
            NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        )
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pkcs12(self, password: str) -> bytes:
        encryption = (
            PrivateFormat.PKCS12.encryption_builder()
            .kdf_rounds(10_000)
            .key_cert_algorithm(pkcs12.PBES.PBESv2SHA256AndAES256CBC)
            .hmac_hash(hashes.SHA256())
            .build(password.encode())
        )
        return pkcs12.serialize_key_and_certificates(b"own", self.key, self.certificate, [self.issuer], encryption)

    def pem_file(self, folder: Path) -> Path:
        path = folder / f"{self.certificate.serial_number:x}.pem"
        path.touch(mode=0o600)
        path.write_text(self.key_pem() + self.chain_pem)
        return path


class CertificateAuthority:
    """Issues certificates for names; `hosts` may be names or addresses."""

    def __init__(self, name: str = "Test CA") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = (
            self._builder(self.name, self.key, 0 * DAY, 30 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(
                x509.KeyUsage(
                    digital_signature=True,
                    key_cert_sign=True,
                    crl_sign=True,
                    content_commitment=False,
                    key_encipherment=False,
                    data_encipherment=False,
                    key_agreement=False,
                    encipher_only=False,
                    decipher_only=False,
                ),
                critical=True,
            )
            .sign(self.key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def issue(
        self, subject: str | x509.Name, hosts: tuple[str, ...] = ("127.0.0.1", "localhost"), *, expired: bool = False
    ) -> Identity:
        """Issue a certificate; a text becomes the common name, within an organisation."""
        name = subject
        if isinstance(name, str):
            name = x509.Name(
                [
                    x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Conclave"),
                    x509.NameAttribute(NameOID.COMMON_NAME, name),
                ]
            )
        key = ec.generate_private_key(ec.SECP256R1())
        days = (-20 * DAY, -10 * DAY) if expired else (-1 * DAY, 20 * DAY)
        builder = self._builder(name, key, *days).add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return Identity(key, certificate, self.certificate)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, start: timedelta, end: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + start - timedelta(hours=1))
            .not_valid_after(now + end)
        )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


@functools.cache
def authority() -> CertificateAuthority:
    """Return the authority that the nodes of the tests trust."""
    return CertificateAuthority()


@functools.cache
def stranger_authority() -> CertificateAuthority:
    """Return an authority that no node trusts."""
    return CertificateAuthority("Another CA")


def ssl_properties(identity: Identity | None, prefix: str = "", trusted: str | None = None) -> dict[str, str]:
    """Return Kafka's TLS settings with inline PEM."""
    properties = {
        f"{prefix}ssl.truststore.type": "PEM",
        f"{prefix}ssl.truststore.certificates": authority().pem if trusted is None else trusted,
    }
    if identity is not None:
        properties |= {
            f"{prefix}ssl.keystore.type": "PEM",
            f"{prefix}ssl.keystore.key": identity.key_pem(),
            f"{prefix}ssl.keystore.certificate.chain": identity.chain_pem,
        }
    return properties
