"""Names and nonces of SCRAM messages. The cryptography is in `image.scram_mechanism`.

Source: RFC 5802 section 5.1; ScramFormatter, Kafka 4.3.1. As in Kafka, names are not normalised with SASLprep.
"""

import secrets
from typing import Final

_NONCE_BYTES: Final = 24


def xor(first: bytes, second: bytes) -> bytes:
    """Return the bitwise exclusive or of two byte strings. Raises ValueError if their lengths differ."""
    return bytes(one ^ other for one, other in zip(first, second, strict=True))


def sasl_name(username: str) -> str:
    """Escape a name for a SCRAM message."""
    return username.replace("=", "=3D").replace(",", "=2C")


def username_of(name: str) -> str | None:
    """Undo `sasl_name`; None for a text with an unknown escape."""
    username = name.replace("=2C", ",")
    if "=" in username.replace("=3D", ""):
        return None
    return username.replace("=3D", "=")


def new_nonce() -> str:
    """Return 192 random bits in characters that SCRAM allows in a nonce."""
    return secrets.token_urlsafe(_NONCE_BYTES)
