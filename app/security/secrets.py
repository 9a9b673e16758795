"""Random tokens, their digests, and the key of this installation. All from the standard library's CSPRNG."""

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
    """Return what is stored of a token: its SHA-256 in hex. Only for tokens with at least 128 random bits."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def sign(key: bytes, purpose: str, text: str) -> str:
    """Return an HMAC-SHA-256 over purpose and text, in hex; one key serves several purposes this way."""
    return hmac.new(key, f"{purpose}\0{text}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def same(given: str, expected: str) -> bool:
    """Compare two secrets in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass"))


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads (0600), whole or not at all; its folder becomes 0700."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.parent.chmod(0o700)
    replace_file(path, text.encode(), mode=0o600)


def load_or_make_key(path: Path) -> bytes:
    """Return the installation's key, made at the first start.

    Raises PermissionError when others may read it: a key that was readable is no secret any more.
    """
    if not path.exists():
        write_private(path, secrets.token_hex(TOKEN_BYTES))
    if path.stat().st_mode & 0o077:
        raise PermissionError(f"{path} can be read by others; delete it to get a new one, or chmod 600 it")
    return bytes.fromhex(path.read_text().strip())
