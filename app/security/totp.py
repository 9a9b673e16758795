"""One-time codes by time (RFC 6238: SHA-1, 30 s, 6 digits), recovery codes, and the seal over stored secrets.

A secret is sealed with AES-GCM and recovery codes are stored as an HMAC, both under the key of the installation. The
key is in a file, so the database alone is not enough to generate a code.
"""

import base64
import hmac
import secrets
import struct
from typing import Final
from urllib.parse import quote

from app.security import sealing
from app.security.secrets import same

STEP_SECONDS: Final = 30
DIGITS: Final = 6
SECRET_BYTES: Final = 20
RECOVERY_CODES: Final = 10
_RECOVERY_BYTES: Final = 10  # 80 bits: 16 letters and digits


def code_at(secret: bytes, step: int) -> str:
    """Return the code of a step: the number of half minutes since 1970."""
    digest = hmac.digest(secret, struct.pack(">Q", step), "sha1")
    number = struct.unpack_from(">I", digest, digest[-1] & 0x0F)[0] & 0x7FFF_FFFF
    return f"{number % 10**DIGITS:0{DIGITS}}"


def step_of(secret: bytes, code: str, now: float, last_step: int) -> int | None:
    """Return the step of a code, None for a wrong or used one. The clocks may differ by one step."""
    present = int(now) // STEP_SECONDS
    fitting = [step for step in (present - 1, present, present + 1) if same(code, code_at(secret, step))]
    return next((step for step in fitting if step > last_step), None)


def new_secret() -> bytes:
    """Return a new secret."""
    return secrets.token_bytes(SECRET_BYTES)


def base32(secret: bytes) -> str:
    """Return a secret as people and authenticator programs write it."""
    return base64.b32encode(secret).decode()


def otpauth_uri(secret: bytes, issuer: str, name: str) -> str:
    """Return the address that authenticator programs read from a QR code."""
    label = f"{quote(issuer, safe='')}:{quote(name, safe='')}"
    return f"otpauth://totp/{label}?secret={base32(secret)}&issuer={quote(issuer, safe='')}"


def qr_code(text: str) -> str:
    """Return a QR code as the address of an image."""
    import segno  # imported only where a code is shown

    return segno.make(text, error="m", micro=False).svg_data_uri(scale=5, light="white", dark="black")


def new_recovery_codes() -> list[str]:
    """Return new recovery codes, in four groups of four."""
    texts = [base64.b32encode(secrets.token_bytes(_RECOVERY_BYTES)).decode().lower() for _ in range(RECOVERY_CODES)]
    return ["-".join(text[at : at + 4] for at in range(0, 16, 4)) for text in texts]


def normal(code: str) -> str:
    """Return a code as typed, without the spaces and hyphens with which people write it."""
    return "".join(code.split()).replace("-", "").lower()


def seal(key: bytes, owner: str, secret: bytes) -> str:
    """Return a secret, encrypted for an owner, as text."""
    return base64.urlsafe_b64encode(sealing.seal(key, secret, owner)).decode()


def unseal(key: bytes, owner: str, sealed: str) -> bytes | None:
    """Return a sealed secret, None when it was sealed with another key or for another owner."""
    try:
        data = base64.urlsafe_b64decode(sealed)
    except ValueError:
        return None
    return sealing.unseal(key, data, owner)
