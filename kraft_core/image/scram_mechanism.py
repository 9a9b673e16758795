"""SCRAM's arithmetic: what a server keeps of a password, and the keys that proofs and signatures are made with.

Source: RFC 5802 section 3, RFC 7677; ScramMechanism and ScramFormatter, Kafka 4.3.1. As there, passwords are taken as
they are, without SASLprep.
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
    """Write a number of SALT_BITS random bits as a salt: text in base 36, 25 or 26 characters as a rule.

    Every salt of a cluster is of this form, made by Kafka's tools or by ours, and so are those of names that do not
    exist: nobody can tell them apart. Source: ScramFormatter.secureRandomString.
    """
    digits = ""
    while bits or not digits:
        bits, digit = divmod(bits, 36)
        digits = _DIGITS[digit] + digits
    return digits.encode()


@dataclass(frozen=True, slots=True)
class ScramMechanism:
    """One of SCRAM's variants. `type` is its number in records and on the wire. Source: ScramMechanism."""

    name: str
    type: int
    hash_name: str

    @property
    def digest_size(self) -> int:
        """Length of keys, proofs and signatures in bytes."""
        return hashlib.new(self.hash_name).digest_size

    def hmac(self, key: bytes, text: bytes) -> bytes:
        """RFC 5802's HMAC(key, str)."""
        return hmac.digest(key, text, self.hash_name)

    def hash(self, text: bytes) -> bytes:
        """RFC 5802's H(str)."""
        return hashlib.new(self.hash_name, text).digest()

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """RFC 5802's SaltedPassword. Takes milliseconds, on purpose."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)

    def client_key(self, salted_password: bytes) -> bytes:
        """RFC 5802's ClientKey."""
        return self.hmac(salted_password, b"Client Key")

    def server_key(self, salted_password: bytes) -> bytes:
        """RFC 5802's ServerKey."""
        return self.hmac(salted_password, b"Server Key")

    def credential(self, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
        """What a server keeps of a password: enough to check it, too little to log in with."""
        stored_key = self.hash(self.client_key(salted_password))
        return ScramCredential(salt, stored_key, self.server_key(salted_password), iterations)

    def record(self, name: str, salt: bytes, salted_password: bytes, iterations: int) -> UserScramCredentialRecord:
        """Say a user's credential as a record."""
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
