"""Encryption of what the database keeps: AES-GCM under a key that it does not have, with the nonce in front."""

import secrets
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES: Final = 12


def seal(key: bytes, content: bytes, owner: str = "") -> bytes:
    """Return the content, encrypted for an owner."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, content, owner.encode())


def unseal(key: bytes, sealed: bytes, owner: str = "") -> bytes | None:
    """Return the sealed content, None when it was sealed with another key or for another owner."""
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], owner.encode())
    except (InvalidTag, ValueError):
        return None
