"""Passwords: argon2id, computed off the event loop and a few at a time.

An unknown user takes the same time as a wrong password: the check uses the hash of a random password.
"""

import asyncio
import secrets
from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from app.security.common_passwords import is_common
from app.texts import phrase

LENGTH_MIN: Final = 15  # minimum for a password as the only factor: NIST SP 800-63B-4, 3.1.1.2
LENGTH_MAX: Final = 256
PARALLEL_CHECKS: Final = 2  # each takes 19 MiB and about 20 ms of a core

_hasher = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)  # OWASP's second recommended setting


@cache
def _decoy_hash() -> str:
    return _hasher.hash(secrets.token_urlsafe(32))


def check_new_password(password: str, user_name: str) -> None:
    """Raise ValueError if the password is too short, too long or common.

    Source: NIST SP 800-63B-4; ASVS 6.2.1, 6.2.4, 6.2.9.
    """
    if len(password) < LENGTH_MIN:
        raise ValueError(
            phrase(
                "The password has %(count)s characters; it needs at least %(least)s.",
                count=len(password),
                least=LENGTH_MIN,
            )
        )
    if len(password) > LENGTH_MAX:
        raise ValueError(
            phrase(
                "The password has %(count)s characters; at most %(most)s are allowed.",
                count=len(password),
                most=LENGTH_MAX,
            )
        )
    if is_common(password, user_name):
        raise ValueError(
            phrase(
                "The password is too easy to guess: it is made of common words, the user's name, runs or repetitions. "
                "Use several unusual words."
            )
        )


def hash_password(password: str) -> str:
    """Return an argon2id hash with its salt and parameters. Takes tens of milliseconds."""
    return _hasher.hash(password)


def verify_password(password: str, password_hash: str | None) -> bool:
    """Return whether the password matches. Without a hash (unknown user, no password) False after the same time."""
    try:
        return _hasher.verify(password_hash or _decoy_hash(), password) and password_hash is not None
    except (VerificationError, InvalidHashError):
        return False


class PasswordChecks:
    """Runs checks on threads, at most PARALLEL_CHECKS at once, so that a flood of logins cannot exhaust the memory."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(PARALLEL_CHECKS)

    async def verify(self, password: str, password_hash: str | None) -> bool:
        """Check as `verify_password` does."""
        async with self._free:
            return await asyncio.to_thread(verify_password, password, password_hash)

    async def hash(self, password: str) -> str:
        """Hash as `hash_password` does."""
        async with self._free:
            return await asyncio.to_thread(hash_password, password)
