"""Random tokens, their digests, and the key of this installation, from the standard library's CSPRNG."""

import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Final

from kraft_core.storage.files import replace_file

TOKEN_BYTES: Final = 32


def new_token(prefix: str = "") -> str:
    """Return `prefix` and 256 random bits as URL-safe text."""
    return prefix + secrets.token_urlsafe(TOKEN_BYTES)


def digest(token: str) -> str:
    """Return the stored form of a token: its SHA-256 in hex. Only for tokens with at least 128 random bits."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def sign(key: bytes, purpose: str, text: str) -> str:
    """Return an HMAC-SHA-256 over purpose and text in hex, so that one key serves several purposes."""
    return hmac.new(key, f"{purpose}\0{text}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def same(given: str, expected: str) -> bool:
    """Return whether two secrets are equal, in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass"))


def write_private(path: Path, text: str) -> None:
    """Write a file atomically that only its owner can read (0600). Its folder becomes 0700."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.parent.chmod(0o700)
    replace_file(path, text.encode(), mode=0o600)


def load_or_make_key(path: Path) -> bytes:
    """Return the installation's key, created at the first start.

    Raises PermissionError when others can read the file: a key that was readable is not secret.
    """
    if not path.exists():
        write_private(path, secrets.token_hex(TOKEN_BYTES))
    if path.stat().st_mode & 0o077:
        raise PermissionError(f"{path} can be read by others; delete it to get a new one, or chmod 600 it")
    return bytes.fromhex(path.read_text().strip())
