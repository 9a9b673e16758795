"""SCRAM's key derivation: the credential that a server stores, and the keys of proofs and signatures.

Source: RFC 5802 section 3, RFC 7677; ScramMechanism and ScramFormatter, Kafka 4.3.1. As in Kafka, passwords are not
normalized with SASLprep.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from kraft_core.image.metadata_image import ScramCredential
from kraft_core.protocol.metadata_records import UserScramCredentialRecord

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
SALT_BITS: Final = 130
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def salt_of(bits: int) -> bytes:
    """Return a salt from SALT_BITS random bits: text in base 36, usually 25 or 26 characters.

    Kafka's tools and this project's make salts of this form for all users, and the server for unknown ones too, so that
    a client cannot distinguish them. Source: ScramFormatter.secureRandomString.
    """
    digits = ""
    while bits or not digits:
        bits, digit = divmod(bits, 36)
        digits = _DIGITS[digit] + digits
    return digits.encode()


@dataclass(frozen=True, slots=True)
class ScramMechanism:
    """A variant of SCRAM. `type` is its number in records and on the wire. Source: ScramMechanism."""

    name: str
    type: int
    hash_name: str

    @property
    def digest_size(self) -> int:
        """Size of keys, proofs and signatures in bytes."""
        return hashlib.new(self.hash_name).digest_size

    def hmac(self, key: bytes, text: bytes) -> bytes:
        """RFC 5802's HMAC(key, str)."""
        return hmac.digest(key, text, self.hash_name)

    def hash(self, text: bytes) -> bytes:
        """RFC 5802's H(str)."""
        return hashlib.new(self.hash_name, text).digest()

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """RFC 5802's SaltedPassword. Takes milliseconds by design."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)

    def client_key(self, salted_password: bytes) -> bytes:
        """RFC 5802's ClientKey."""
        return self.hmac(salted_password, b"Client Key")

    def server_key(self, salted_password: bytes) -> bytes:
        """RFC 5802's ServerKey."""
        return self.hmac(salted_password, b"Server Key")

    def credential(self, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
        """Return the credential that a server stores: sufficient to verify a password, not to log in."""
        stored_key = self.hash(self.client_key(salted_password))
        return ScramCredential(salt, stored_key, self.server_key(salted_password), iterations)

    def record(self, name: str, salt: bytes, salted_password: bytes, iterations: int) -> UserScramCredentialRecord:
        """Return a user's credential as a record."""
        credential = self.credential(salt, salted_password, iterations)
        return UserScramCredentialRecord(
            name=name,
            mechanism=self.type,
            salt=salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=iterations,
        )


SCRAM_SHA_256: Final = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SCRAM_SHA_512: Final = ScramMechanism("SCRAM-SHA-512", 2, "sha512")
SCRAM_MECHANISMS: Final = {each.name: each for each in (SCRAM_SHA_256, SCRAM_SHA_512)}
SCRAM_MECHANISMS_BY_TYPE: Final = {each.type: each for each in SCRAM_MECHANISMS.values()}
