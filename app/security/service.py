"""The security service: logins, sessions, tokens and the audit.

A failed login has the same text after the same work for every cause, so that it reveals nothing about the account.
"""

import asyncio
import contextlib
import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Concatenate, Final, ParamSpec, TypeVar

import structlog
from sqlalchemy.orm import Session as OrmSession

from app.config import Settings
from app.db.base import utc_now
from app.db.database import Database
from app.db.models import ApiToken, User
from app.db.outage import DatabaseUnavailableError
from app.http.errors import TooManyRequestsError, UnauthorizedError, UnavailableError
from app.security import accounts, api_tokens
from app.security.forwarded import network_of
from app.security.kept_forms import KeptForms
from app.security.known_callers import KnownCallers
from app.security.passwords import PasswordChecks, check_new_password
from app.security.rate_limit import RateLimit
from app.security.recorder import Recorder, RequestInfo
from app.security.roles import ANONYMOUS, Actor, Principal
from app.security.secrets import digest, load_or_make_key, sign, write_private
from app.security.streams import Streams
from app.security.text import plain_text
from app.texts import phrase, sentence_of

log = structlog.get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

LOGIN_REFUSED: Final = phrase("The name or the password is wrong.")
LINK_REFUSED: Final = phrase("This login link is unknown, used, or too old.")
LINK_LIFETIME: Final = dt.timedelta(hours=24)
SOURCE_FACTOR: Final = 4  # a source may fail with this many accounts, or tokens, before it must wait
CHECKS_WAITING_MAX: Final = 64  # logins that wait for their password check; each check takes about 30 ms


class Security(Recorder):
    """Authentication, accounts and the audit. `clock` returns the current time; tests change it."""

    def __init__(self, database: Database, settings: Settings, clock: Callable[[], dt.datetime] = utc_now) -> None:
        super().__init__(database, clock)
        self._idle = dt.timedelta(minutes=settings.session_idle_minutes)
        self._absolute = dt.timedelta(hours=settings.session_absolute_hours)
        self._link_path = settings.web_dir / "login-link"
        self._key_path = settings.web_dir / "session-key"
        self._admin_token = settings.admin_token.get_secret_value() if settings.admin_token else None
        self._passwords = PasswordChecks()
        attempts, window = settings.login_attempts_max, settings.login_window_seconds
        self._by_account = RateLimit(database, "account", attempts, window, self.now)
        self._by_pair = RateLimit(database, "account and source", attempts, window, self.now)
        self._by_source = RateLimit(database, "source", attempts * SOURCE_FACTOR, window, self.now)
        self._by_bearer = RateLimit(database, "token", attempts * SOURCE_FACTOR, window, self.now)
        self._by_present = RateLimit(database, "present password", attempts, window, self.now)
        self._checking = asyncio.Lock()
        self._checks_waiting = 0
        self.streams = Streams(self.present)
        self.kept_forms = KeptForms(database, self._clock)
        self._callers = KnownCallers(database)
        self._key = b""

    @property
    def absolute_seconds(self) -> int:
        """Longest life of a session in seconds, for its cookie."""
        return int(self._absolute.total_seconds())

    def prepare(self, base_url: str) -> str | None:
        """Create the key, the first admin, the environment's token and, until an admin has logged in, a login link.

        Returns the link, which is also in `<data>/web/login-link` (mode 0600). Blocking; called once at the start.
        Raises PermissionError when others can read the key file.
        """
        self._key = load_or_make_key(self._key_path)
        now = self._clock()
        has_logged_in = self._database.write_now(lambda session: accounts.ensure_first_user(session, now))
        token = self._admin_token
        if token is not None:
            self._database.write_now(lambda session: api_tokens.take_environment_token(session, token, now))
        if has_logged_in:
            self._link_path.unlink(missing_ok=True)
            return None
        return self.new_login_link_now(accounts.FIRST_USER, base_url)

    def new_login_link_now(self, user_name: str, base_url: str) -> str:
        """Create a one-time link for a user and write it to the file, replacing the earlier one. Blocking."""
        now = self._clock()
        token = self._database.write_now(
            lambda session: accounts.make_login_link(session, user_name, now, LINK_LIFETIME, is_way_in=True)
        )
        link = f"{base_url}/login/link?token={token}"
        write_private(self._link_path, link + "\n")
        return link

    def now(self) -> dt.datetime:
        """Return the current time."""
        return self._clock()

    # callers

    async def principal_of_session(self, session_id: str) -> Principal | None:
        """Return the caller of a session, None when it is unknown or has ended."""
        now = self._clock()
        found = await self._callers.find(session_id, now, accounts.principal_of_session, session_id, now, self._idle)
        if found is None:
            return None
        principal, until = found
        if until <= now:
            with contextlib.suppress(DatabaseUnavailableError):  # while only writes fail, readers stay logged in
                await self._database.write(accounts.touch_session, session_id, now)
        return principal

    async def principal_of_token(self, token: str, info: RequestInfo, key: str | None = None) -> Principal:
        """Return the caller of an API token. `key`, if given, must be its name.

        Raises UnauthorizedError for a token that is unknown, revoked or expired, and TooManyRequestsError after too
        many of them from one source. A valid token is accepted whatever else came from its source.
        """
        now = self._clock()
        found = await self._callers.find(token, now, api_tokens.principal_of_token, token, now)
        if found is not None and key in {None, found[0].name}:
            principal, until = found
            if until <= now:
                with contextlib.suppress(DatabaseUnavailableError):
                    await self._database.write(api_tokens.touch_token, token, now)
            return principal
        source = network_of(info.source)
        wait = await self._by_bearer.retry_after_seconds(source)
        if not wait:
            with contextlib.suppress(DatabaseUnavailableError):
                await self._by_bearer.failed(source)
        cause = "too many unknown tokens" if wait else "unknown or expired token"
        await self.record(ANONYMOUS, "authenticate", "token", "denied", info, error=cause)
        if wait:
            raise too_many(
                phrase("Too many unknown, revoked or expired tokens; try again in %(seconds)s s.", seconds=wait), wait
            )
        raise UnauthorizedError(
            phrase("The token is unknown, revoked or expired."),
            error_code=40101,
            headers={"WWW-Authenticate": 'Bearer realm="conclave", error="invalid_token"'},
        )

    async def present(self, callers: Sequence[Principal]) -> list[Principal | None]:
        """Return the present rights of each caller, None when its session or token is no longer valid."""
        now = self._clock()

        def look(session: OrmSession) -> list[Principal | None]:
            return [self._present(session, caller, now) for caller in callers]

        return await self._database.read(look)

    def _present(self, session: OrmSession, caller: Principal, now: dt.datetime) -> Principal | None:
        if caller.session_id is None:
            found = api_tokens.principal_of_token_id(session, caller.id, now)
        else:
            of_session = accounts.principal_of_session(session, caller.session_id, now, self._idle)
            found = None if of_session is None else of_session[0]
        return None if found is None else found.in_cluster(caller.cluster)

    def csrf_token(self, session_id: str) -> str:
        """Return the token that forms of this session carry."""
        return sign(self._key, "csrf", session_id)

    def csrf_token_of_visitor(self, visitor_id: str) -> str:
        """Return the token that forms before the login of this visitor carry. It is not one of a session."""
        return sign(self._key, "csrf of a visitor", visitor_id)

    def kept_form_key(self, session_id: str) -> str:
        """Return the key under which a form of an ended session is kept."""
        return sign(self._key, "kept form", session_id)

    def signed(self, purpose: str, text: str) -> str:
        """Return this installation's signature over a text."""
        return sign(self._key, purpose, text)

    # login and logout

    async def check_password(self, name: str, password: str, info: RequestInfo) -> User:
        """Check name and password and return the user, who may need a second factor.

        Raises UnauthorizedError, with the same text for every cause, and TooManyRequestsError after too many wrong
        attempts.
        """
        name = plain_text(name.strip(), 255)
        known = await self._database.read(accounts.has_session_from, name, info.source)
        source = network_of(info.source)
        limits = [(self._by_pair, f"{name}\0{source}")]
        if not known:  # a returning user has a separate count, so that strangers cannot lock the user out
            limits += [(self._by_account, name), (self._by_source, source)]
        await self._refuse_if_limited(limits, name, info)
        if self._checks_waiting >= CHECKS_WAITING_MAX:
            raise UnavailableError(phrase("Too many logins at once; try again."), retry_after_seconds=1)
        self._checks_waiting += 1
        try:
            async with self._checking:  # one at a time, so that concurrent attempts cannot exceed a limit
                await self._refuse_if_limited(limits, name, info)
                user = await self._database.read(accounts.user_by_name, name)
                usable = user if user is not None and user.is_active else None
                right = await self._passwords.verify(password, usable.password_hash if usable else None)
                if not right or usable is None:
                    for limit, key in limits:
                        await limit.failed(key)
        finally:
            self._checks_waiting -= 1
        if not right or usable is None:
            await self.record(Actor(name, "anonymous"), "login", f"user/{name}", "denied", info, error=LOGIN_REFUSED)
            raise UnauthorizedError(LOGIN_REFUSED, code="login-refused")
        await self._by_pair.succeeded(f"{name}\0{source}")
        return usable

    async def _refuse_if_limited(self, limits: list[tuple[RateLimit, str]], name: str, info: RequestInfo) -> None:
        wait = max([await limit.retry_after_seconds(key) for limit, key in limits])
        if wait:
            await self.record(
                Actor(name, "anonymous"), "login", f"user/{name}", "denied", info, error="too many attempts"
            )
            raise too_many(f"Too many wrong logins; try again in {wait} s.", wait)

    async def invited_by_link(self, token: str) -> str | None:
        """Return the name of the user who has to choose a password with this one-time link, None for other links."""
        return await self._database.read(accounts.invited_by_link, token, self._clock())

    async def login_by_link(self, token: str, info: RequestInfo, password: str = "") -> str:
        """Use a one-time link and return a new session's id. Raises UnauthorizedError.

        With the link of `invited_by_link` the password is set; AccountError for a weak one leaves the link as it was.
        There is no limit on attempts: a link is 256 random bits, and the way in for a user who is locked out.
        """
        invited = await self.invited_by_link(token)
        hashed = None if invited is None else await self._new_hash(password, invited)
        user = await self._database.write(self._use_link, token, hashed)
        if user is None:
            await self.record(ANONYMOUS, "login.link", "user", "denied", info, error=LINK_REFUSED)
            raise UnauthorizedError(LINK_REFUSED, code="login-refused")
        self._link_path.unlink(missing_ok=True)
        if hashed is None:
            return await self.open_session(user, "login.link", "link", info)
        await self.record(Actor(user.name, "user"), "user.password", f"user/{user.name}", "ok", info)
        return await self.open_session(user, "login.link", "password", info)

    def _use_link(self, session: OrmSession, token: str, password_hash: str | None) -> User | None:
        user = accounts.use_login_link(session, token, self._clock())
        if user is not None and password_hash is not None:
            accounts.set_password(session, user.name, password_hash, self._clock())
        return user

    async def open_session(
        self, user: User, action: str, opened_by: str, info: RequestInfo, detail: dict[str, object] | None = None
    ) -> str:
        """Start a session of a user who has logged in, and return its id. The audit gets the `detail`."""
        session_id = await self._database.write(
            lambda session: accounts.open_session(
                session,
                user.id,
                source=info.source,
                user_agent=info.user_agent,
                opened_by=opened_by,
                now=self._clock(),
                absolute=self._absolute,
            )
        )
        await self.record(Actor(user.name, "user"), action, f"user/{user.name}", "ok", info, detail=detail)
        return session_id

    async def logout(self, principal: Principal, info: RequestInfo) -> None:
        """End the caller's session."""
        if principal.session_id is not None:
            await self._database.write(accounts.close_session, principal.session_id)
            self.streams.check_soon()
        await self.record(principal.actor, "logout", f"user/{principal.name}", "ok", info)

    async def sessions_of(self, name: str | None, present: str | None = None) -> list[accounts.OpenSession]:
        """Return a user's open sessions, or those of all users, the last used first. Raises AccountError."""
        return await self._database.read(accounts.sessions_of, name, self._clock(), self._idle, present)

    async def end_session(
        self, principal: Principal, name: str, session_id: int, info: RequestInfo, *, validate_only: bool = False
    ) -> None:
        """End one session of a user. Raises AccountError."""
        await self._write(validate_only, accounts.end_session, name, session_id)
        if not validate_only:
            self.streams.check_soon()
            await self.record(
                principal.actor, "session.end", f"user/{name}", "ok", info, detail={"session": session_id}
            )

    async def end_sessions(
        self, principal: Principal, name: str, info: RequestInfo, *, validate_only: bool = False
    ) -> None:
        """End all sessions of a user, except that of the caller. Raises AccountError."""
        await self._write(validate_only, accounts.end_sessions_of, name, principal.session_id)
        if not validate_only:
            self.streams.check_soon()
            await self.record(principal.actor, "session.end-all", f"user/{name}", "ok", info)

    async def has_password(self, name: str) -> bool:
        """Return whether the user has a password."""
        user = await self._database.read(accounts.user_by_name, name)
        return user is not None and user.password_hash is not None

    async def set_password(
        self, principal: Principal, name: str, password: str, info: RequestInfo, *, validate_only: bool = False
    ) -> None:
        """Set another user's password. All sessions and links of that user end. Raises AccountError."""
        check_may_make_users(principal)
        hashed = await self._new_hash(password, name)
        await self._write(validate_only, accounts.set_password, name, hashed, self._clock())
        if not validate_only:
            self.streams.check_soon()
            await self.record(principal.actor, "user.password", f"user/{name}", "ok", info)

    async def set_own_password(
        self, principal: Principal, present: str, password: str, info: RequestInfo, *, validate_only: bool = False
    ) -> None:
        """Set the password of a session's caller. The caller's other sessions end.

        The present password is required, if there is one, except in a session that a one-time link opened. Raises
        AccountError, and TooManyRequestsError after too many wrong ones.
        """
        assert principal.session_id is not None, "a token has no password"
        name = principal.name
        await self.confirm_password(principal, present, "user.password", info)
        hashed = await self._new_hash(password, name)
        await self._write(validate_only, accounts.set_password, name, hashed, self._clock(), principal.session_id)
        if not validate_only:
            self.streams.check_soon()
            await self.record(principal.actor, "user.password", f"user/{name}", "ok", info)

    async def confirm_password(self, principal: Principal, present: str, action: str, info: RequestInfo) -> None:
        """Check the present password of a session's caller for an action, where it is needed.

        Raises AccountForbiddenError for a wrong one, and TooManyRequestsError after too many.
        """
        if not await self.needs_present_password(principal):
            return
        name = principal.name
        wait = await self._by_present.retry_after_seconds(name)
        if wait:
            raise too_many(phrase("Too many wrong passwords; try again in %(count)s s.", count=wait), wait)
        user = await self._database.read(accounts.user_by_name, name)
        if user is None or not await self._passwords.verify(present, user.password_hash):
            await self._by_present.failed(name)
            error = phrase("The current password is wrong.")
            await self.record(principal.actor, action, f"user/{name}", "denied", info, error=error)
            raise accounts.AccountForbiddenError(error, "present_password")
        await self._by_present.succeeded(name)

    async def needs_present_password(self, principal: Principal) -> bool:
        """Return whether the caller must enter the present password to change it."""
        if principal.session_id is None or not await self.has_password(principal.name):
            return False
        return not await self._database.read(accounts.opened_by_link, principal.session_id)

    async def _new_hash(self, password: str, name: str) -> str:
        try:
            check_new_password(password, name)
        except ValueError as weak:
            raise accounts.AccountError(sentence_of(weak), "password") from None
        return await self._passwords.hash(password)

    async def _write(
        self, validate_only: bool, work: Callable[Concatenate[OrmSession, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a change of accounts in a transaction, which a dry run rolls back."""
        write = self._database.dry_run if validate_only else self._database.write
        return await write(work, *args, **kwargs)

    # users and tokens

    async def user(self, name: str) -> User:
        """Return the user of this name. Raises AccountError."""
        return await self._database.read(accounts.known_user, name)

    async def users(self) -> list[User]:
        """Return all users by name."""
        return await self._database.read(accounts.users)

    async def add_user(
        self,
        principal: Principal,
        name: str,
        role: str,
        password: str | None,
        info: RequestInfo,
        *,
        validate_only: bool = False,
    ) -> User:
        """Add a user. Raises AccountError."""
        check_may_make_users(principal)
        hashed = None if password is None else await self._new_hash(password, name)
        user = await self._write(validate_only, accounts.add_user, name, role, hashed, self._clock())
        if not validate_only:
            await self.record(principal.actor, "user.create", f"user/{name}", "ok", info, detail={"role": role})
        return user

    async def change_user(
        self,
        principal: Principal,
        name: str,
        role: str | None,
        disabled: bool | None,
        info: RequestInfo,
        *,
        validate_only: bool = False,
    ) -> User:
        """Change a user's role or state. The user's sessions end. Raises AccountError."""
        check_may_make_users(principal)
        user = await self._write(validate_only, accounts.change_user, name, self._clock(), role, disabled)
        if not validate_only:
            self.streams.check_soon()
            detail = {"role": role, "disabled": disabled}
            await self.record(principal.actor, "user.change", f"user/{name}", "ok", info, detail=detail)
        return user

    async def remove_user(
        self, principal: Principal, name: str, info: RequestInfo, *, validate_only: bool = False
    ) -> None:
        """Remove a user. Raises AccountError."""
        await self._write(validate_only, accounts.remove_user, name)
        if not validate_only:
            self.streams.check_soon()
            await self.record(principal.actor, "user.delete", f"user/{name}", "ok", info)

    async def login_link(
        self, principal: Principal, name: str, base_url: str, info: RequestInfo, *, validate_only: bool = False
    ) -> str:
        """Create a one-time login link for a user. The link of a dry run is invalid. Raises AccountError."""
        check_may_make_users(principal)
        token = await self._write(validate_only, accounts.make_login_link, name, self._clock(), LINK_LIFETIME)
        if not validate_only:
            await self.record(principal.actor, "user.login-link", f"user/{name}", "ok", info)
        return f"{base_url}/login/link?token={token}"

    async def tokens(self) -> list[ApiToken]:
        """Return all API tokens by name, including revoked ones."""
        return await self._database.read(api_tokens.tokens)

    async def add_token(
        self, principal: Principal, wanted: api_tokens.NewToken, info: RequestInfo, *, validate_only: bool = False
    ) -> tuple[ApiToken, str]:
        """Add an API token. Its text is returned only here. Raises AccountError."""
        made, text = await self._write(validate_only, api_tokens.add_token, wanted, principal, self._clock())
        if not validate_only:
            detail: dict[str, object] = {
                "role": wanted.role,
                "scopes": list(wanted.scopes),
                "expires_at": wanted.expires_at.isoformat() if wanted.expires_at else None,
            }
            if wanted.place is not None:
                detail |= asdict(wanted.place)
            await self.record(principal.actor, "token.create", f"token/{wanted.name}", "ok", info, detail=detail)
        return made, text

    async def revoke_token(
        self, principal: Principal, name: str, info: RequestInfo, *, validate_only: bool = False
    ) -> None:
        """Revoke a token permanently. Raises AccountError."""
        await self._write(validate_only, api_tokens.revoke_token, name, self._clock())
        if not validate_only:
            self.streams.check_soon()
            await self.record(principal.actor, "token.revoke", f"token/{name}", "ok", info)


def too_many(message: str, wait_seconds: int) -> TooManyRequestsError:
    """Return the error of a caller that must wait."""
    return TooManyRequestsError(message, retry_after_seconds=wait_seconds, error_code=42901)


def check_may_make_users(principal: Principal) -> None:
    """Raise AccountForbiddenError for a token with scopes: users and their sessions have all scopes."""
    if principal.scopes:
        raise accounts.AccountForbiddenError(
            "A token with scopes cannot make or change users, passwords or login links, since users have all scopes."
        )


def fingerprint(*parts: str) -> str:
    """Return a digest that two equal requests share."""
    return digest("\0".join(parts))
