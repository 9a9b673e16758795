"""Forms that arrive after their session has ended, kept for a few minutes so that the input is not lost.

A form is kept only with the CSRF token of the session whose cookie was sent with it, so a logged-in user had loaded it.
There is one per session. The browser gets a key as a cookie; the database has the form encrypted with that key, and the
digest of the key. After a login the form is shown again, and sent only by the user's click: never as confirmed, and
without passwords.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from sqlalchemy import delete, select
from sqlalchemy.orm import Session as OrmSession

from app.db.database import Database
from app.db.models import KeptForm
from app.security.sealing import seal, unseal
from app.security.secrets import digest

LIFETIME: Final = dt.timedelta(minutes=15)
FORMS_MAX: Final = 200
LEFT_OUT: Final = ("csrf_token", "confirmed", "present", "code", "sealed")
"""Fields that are never kept; the last three are the present password, a code and a new secret of a second factor."""
NEVER_KEPT: Final = "password"
"""Part of the names of such fields."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form: the address that it is sent to, and its fields."""

    address: str
    fields: Sequence[tuple[str, str]]


class KeptForms:
    """The kept forms of all web processes on one database."""

    def __init__(self, database: Database, clock: Callable[[], dt.datetime]) -> None:
        self._database = database
        self._clock = clock

    async def keep(self, key: str, address: str, body: bytes, fields_max: int) -> None:
        """Keep a form under a key, in place of the one there. Raises ValueError for a body that is not a form."""
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=fields_max)
        kept = [(name, value) for name, value in fields if name not in LEFT_OUT and NEVER_KEPT not in name.lower()]
        await self._database.write(_store, digest(key), _sealed(key, Form(address, kept)), self._clock())

    async def find(self, key: str) -> Form | None:
        """Return the form under a key, None when there is none or it has expired."""
        sealed = await self._database.read(_load, digest(key), self._clock())
        return None if sealed is None else _opened(key, sealed)


def _store(session: OrmSession, name: str, sealed: bytes, now: dt.datetime) -> None:
    session.execute(delete(KeptForm).where((KeptForm.key_digest == name) | (KeptForm.expires_at <= now)))
    newest = select(KeptForm.key_digest).order_by(KeptForm.expires_at.desc())
    surplus = list(session.scalars(newest.offset(FORMS_MAX - 1)))
    if surplus:
        session.execute(delete(KeptForm).where(KeptForm.key_digest.in_(surplus)))
    session.add(KeptForm(key_digest=name, sealed=sealed, expires_at=now + LIFETIME))


def _load(session: OrmSession, name: str, now: dt.datetime) -> bytes | None:
    return session.scalars(
        select(KeptForm.sealed).where(KeptForm.key_digest == name, KeptForm.expires_at > now)
    ).one_or_none()


def _cipher_key(key: str) -> bytes:
    return hashlib.sha256(f"kept form\0{key}".encode()).digest()


def _sealed(key: str, form: Form) -> bytes:
    return seal(_cipher_key(key), json.dumps([form.address, form.fields]).encode())


def _opened(key: str, sealed: bytes) -> Form | None:
    text = unseal(_cipher_key(key), sealed)
    if text is None:
        return None
    address, fields = json.loads(text)
    return Form(address, [(name, value) for name, value in fields])
