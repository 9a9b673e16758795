"""The second factor of users with a password: codes of an authenticator program, and recovery codes.

A login with the right password of a user who has one ends with a signed step instead of a session; step and code
together open the session. One-time links need no code: they restore access. Users of an OpenID issuer have their
factors there.
"""

import asyncio
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlalchemy.orm import Session as OrmSession

from app.config import Settings
from app.db.database import Database
from app.db.models import User
from app.http.errors import UnauthorizedError
from app.security import totp
from app.security.accounts import (
    AccountConflictError,
    AccountError,
    AccountForbiddenError,
    end_sessions,
    has_session_from,
    known_user,
    opened_by_link,
)
from app.security.forwarded import network_of
from app.security.rate_limit import RateLimit
from app.security.recorder import RequestInfo
from app.security.roles import Actor, Principal
from app.security.secrets import same
from app.security.service import Security, check_may_make_users, too_many
from app.texts import phrase

STEP_LIFETIME: Final = dt.timedelta(minutes=5)
SETUP_LIFETIME: Final = dt.timedelta(minutes=30)
CODE_REFUSED: Final = phrase("The code is wrong, or it has been used.")
STEP_REFUSED: Final = phrase("This login began too long ago. Log in again.")


@dataclass(frozen=True, slots=True)
class Entered:
    """Result of a right password: a session, or the step that asks for a code; the other one is empty."""

    session_id: str = ""
    step: str = ""


@dataclass(frozen=True, slots=True)
class Setup:
    """A secret that is not in use yet. `sealed` is sent back with the first code; `text` and `uri` are for programs."""

    sealed: str
    text: str
    uri: str


class SecondFactors:
    """The second factors of one installation."""

    def __init__(self, settings: Settings, security: Security, database: Database) -> None:
        self._security = security
        self._database = database
        attempts, window = settings.login_attempts_max, settings.login_window_seconds
        self._by_account = RateLimit(database, "code of account", attempts, window, security.now)
        self._by_pair = RateLimit(database, "code of account and source", attempts, window, security.now)
        self._checking = asyncio.Lock()

    # logins

    async def login(self, name: str, password: str, info: RequestInfo) -> Entered:
        """Open a session with a password, or return the step that a user with a second factor has to take.

        Raises what `Security.check_password` does.
        """
        user = await self._security.check_password(name, password, info)
        if user.totp_secret is None:
            return Entered(session_id=await self._security.open_session(user, "login", "password", info))
        began = int(self._security.now().timestamp())
        return Entered(step=f"{user.id}.{began}.{self._signature(user, began)}")

    async def finish(self, step: str, code: str, info: RequestInfo) -> str:
        """Return a new session's id for a step and a code.

        Raises UnauthorizedError for a wrong code or an old step, and TooManyRequestsError after too many wrong codes.
        """
        user = await self._user_of(step)
        if user is None:
            raise UnauthorizedError(STEP_REFUSED, code="login-refused")
        if not await self._spend(user, code, info, "login.second-factor"):
            raise UnauthorizedError(CODE_REFUSED, code="login-refused")
        return await self._security.open_session(user, "login", "password", info)

    def _signature(self, user: User, began: int) -> str:
        changed = "" if user.password_changed_at is None else user.password_changed_at.isoformat()
        return self._security.signed("second-step", f"{user.id}.{began}.{changed}.{user.totp_secret}")

    async def _user_of(self, step: str) -> User | None:
        """Return the user of a step, None when it is forged, too old, or of an earlier password or secret."""
        number, _, rest = step.partition(".")
        began, _, signature = rest.partition(".")
        if not all(each.isascii() and each.isdigit() and len(each) < 16 for each in (number, began)):
            return None
        user = await self._database.read(lambda session: session.get(User, int(number)))
        now, start = self._security.now().timestamp(), int(began)
        if user is None or not user.is_active or not start <= now <= start + STEP_LIFETIME.total_seconds():
            return None
        return user if same(signature, self._signature(user, start)) else None

    async def _spend(self, user: User, code: str, info: RequestInfo, action: str) -> bool:
        """Use a code up and return whether it was right. Raises TooManyRequestsError after too many wrong ones."""
        pair, account = f"{user.id}\0{network_of(info.source)}", str(user.id)
        limits = [(self._by_pair, pair)]
        if not await self._database.read(has_session_from, user.name, info.source):
            limits.append((self._by_account, account))  # a returning user is not locked out by attempts of others
        async with self._checking:  # one at a time, so that concurrent attempts cannot exceed a limit
            wait = max([await limit.retry_after_seconds(key) for limit, key in limits])
            is_right = not wait and await self._database.write(self._use_code, user.id, totp.normal(code))
            if is_right:
                await self._by_pair.succeeded(pair)
                return True
            for limit, key in () if wait else limits:
                await limit.failed(key)
        error = "too many attempts" if wait else CODE_REFUSED
        await self._security.record(
            Actor(user.name, "anonymous"), action, f"user/{user.name}", "denied", info, error=error
        )
        if wait:
            raise too_many(phrase("Too many wrong codes; try again in %(seconds)s s.", seconds=wait), wait)
        return False

    def _use_code(self, session: OrmSession, user_id: int, code: str) -> bool:
        user = session.get(User, user_id, with_for_update=True)
        if user is None or user.totp_secret is None:
            return False
        digest, codes = self._digest(user_id, code), list(user.recovery_digests or ())
        if any([same(digest, each) for each in codes]):  # noqa: C419 - all of them, in constant time
            user.recovery_digests = [each for each in codes if each != digest]
            return True
        secret = totp.unseal(self._key, str(user_id), user.totp_secret)
        now = self._security.now().timestamp()
        step = None if secret is None else totp.step_of(secret, code, now, user.totp_last_step or 0)
        if step is None:
            return False
        user.totp_last_step = step
        return True

    # one's own factor

    async def start(self, principal: Principal, present: str, host: str, info: RequestInfo) -> Setup:
        """Return a new secret for the caller. Raises AccountError, and what `Security.confirm_password` does."""
        user = await self._security.user(principal.name)
        self._check_can_have(user)
        await self._security.confirm_password(principal, present, "user.second-factor", info)
        secret = totp.new_secret()
        until = int((self._security.now() + SETUP_LIFETIME).timestamp())
        return _setup(f"{until}.{totp.seal(self._key, _setup_of(user.id, until), secret)}", secret, host, user.name)

    def setup_again(self, principal: Principal, sealed: str, host: str) -> Setup:
        """Return the same secret again, after a wrong code. Raises AccountError for an old one."""
        return _setup(sealed, self._unsealed_setup(principal.id, sealed), host, principal.name)

    async def turn_on(self, principal: Principal, sealed: str, code: str, info: RequestInfo) -> list[str]:
        """Turn the factor on with a first code, end the other sessions, and return recovery codes. Raises AccountError.

        Wrong codes are not limited: the page with the sealed secret also shows the secret itself.
        """
        secret = self._unsealed_setup(principal.id, sealed)
        step = totp.step_of(secret, totp.normal(code), self._security.now().timestamp(), 0)
        if step is None:
            raise AccountError(CODE_REFUSED, "code")
        codes = totp.new_recovery_codes()

        def change(user: User, session: OrmSession) -> None:
            self._check_can_have(user)
            user.totp_secret = totp.seal(self._key, str(user.id), secret)
            user.totp_last_step = step
            user.recovery_digests = self._digests(user.id, codes)
            end_sessions(session, user.id, principal.session_id)

        await self._change(principal, principal.name, "on", change, info)
        return codes

    async def turn_off(self, principal: Principal, code: str, info: RequestInfo) -> None:
        """Turn the caller's factor off, which needs a code. Raises AccountError."""
        await self._require_code(principal, code, info)
        await self._change(principal, principal.name, "off", lambda user, _session: _forget(user), info)

    async def renew_recovery_codes(self, principal: Principal, code: str, info: RequestInfo) -> list[str]:
        """Return new recovery codes in place of the old ones, which needs a code. Raises AccountError."""
        await self._require_code(principal, code, info)
        codes = totp.new_recovery_codes()

        def change(user: User, _session: OrmSession) -> None:
            user.recovery_digests = self._digests(user.id, codes)

        await self._change(principal, principal.name, "new recovery codes", change, info)
        return codes

    async def reset(self, principal: Principal, name: str, info: RequestInfo, *, validate_only: bool = False) -> None:
        """Turn off the factor of another user who has lost it. The user's sessions end. Raises AccountError."""
        check_may_make_users(principal)
        own = principal.session_id if principal.kind == "user" and principal.name == name else None
        if own is not None and not await self._database.read(opened_by_link, own):
            raise AccountForbiddenError(phrase("Turn your own second factor off with a code, on Your account."))

        def change(user: User, session: OrmSession) -> None:
            if user.totp_secret is None:
                raise AccountConflictError(phrase("'%(name)s' has no second factor.", name=name), "name")
            _forget(user)
            end_sessions(session, user.id, principal.session_id)

        await self._change(principal, name, "reset", change, info, validate_only=validate_only)

    async def _change(
        self,
        principal: Principal,
        name: str,
        what: str,
        change: Callable[[User, OrmSession], None],
        info: RequestInfo,
        *,
        validate_only: bool = False,
    ) -> None:
        def work(session: OrmSession) -> None:
            change(known_user(session, name), session)

        await (self._database.dry_run(work) if validate_only else self._database.write(work))
        if not validate_only:
            self._security.streams.check_soon()
            detail = {"change": what}
            await self._security.record(
                principal.actor, "user.second-factor", f"user/{name}", "ok", info, detail=detail
            )

    async def _require_code(self, principal: Principal, code: str, info: RequestInfo) -> None:
        user = await self._security.user(principal.name)
        if user.totp_secret is None:
            raise AccountConflictError(phrase("'%(name)s' has no second factor.", name=user.name), "code")
        if not await self._spend(user, code, info, "user.second-factor"):
            raise AccountForbiddenError(CODE_REFUSED, "code")

    def _unsealed_setup(self, user_id: int, sealed: str) -> bytes:
        until, _, rest = sealed.partition(".")
        is_number = until.isascii() and until.isdigit() and len(until) < 16
        secret = totp.unseal(self._key, _setup_of(user_id, int(until)), rest) if is_number else None
        if secret is None or int(until) < self._security.now().timestamp():
            raise AccountError(phrase("The set-up began too long ago. Begin again."), "code")
        return secret

    @staticmethod
    def _check_can_have(user: User) -> None:
        if user.password_hash is None:
            raise AccountConflictError(phrase("A second factor needs a password first."), "code")
        if user.totp_secret is not None:
            raise AccountConflictError(phrase("A second factor is on already."), "code")

    @property
    def _key(self) -> bytes:
        return bytes.fromhex(self._security.signed("second-factor-key", ""))

    def _digest(self, user_id: int, code: str) -> str:
        return self._security.signed("recovery-code", f"{user_id}\0{code}")

    def _digests(self, user_id: int, codes: list[str]) -> list[str]:
        return [self._digest(user_id, totp.normal(code)) for code in codes]


def _setup(sealed: str, secret: bytes, host: str, name: str) -> Setup:
    return Setup(sealed, totp.base32(secret), totp.otpauth_uri(secret, f"Conclave {host}", name))


def _setup_of(user_id: int, until: int) -> str:
    return f"setup {user_id} {until}"


def _forget(user: User) -> None:
    user.totp_secret = user.totp_last_step = user.recovery_digests = None
