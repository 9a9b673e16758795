"""The security service: logins, sessions, tokens and the audit, as the rest of the web process uses them.

All answers to a failed login are the same text after the same work, so that they tell nothing about the account.
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import structlog

from app.config import Settings
from app.db.base import utc_now
from app.db.database import Database
from app.db.models import ApiToken, User
from app.errors import ApiError
from app.security import accounts, audit
from app.security.passwords import PasswordChecks, check_new_password
from app.security.rate_limit import RateLimit
from app.security.roles import Principal, Role
from app.security.secrets import digest, load_or_make_key, sign, write_private

log = structlog.get_logger(__name__)

LOGIN_REFUSED: Final = "The name or the password is wrong."
LINK_REFUSED: Final = "This login link is unknown, used, or too old."
LINK_LIFETIME: Final = dt.timedelta(hours=24)
ENVIRONMENT_TOKEN: Final = "environment"  # noqa: S105 - the name of a token, not a token
SOURCE_FACTOR: Final = 4  # one source may fail with so many accounts before strangers from it must wait


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """Where a request comes from, for the audit."""

    source: str
    request_id: str


class Security:
    """Everything about who may do what. `clock` gives the current moment; tests move it."""

    def __init__(self, database: Database, settings: Settings, clock: Callable[[], dt.datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._idle = dt.timedelta(minutes=settings.session_idle_minutes)
        self._absolute = dt.timedelta(hours=settings.session_absolute_hours)
        self._link_path = settings.web_dir / "login-link"
        self._key_path = settings.web_dir / "session-key"
        self._admin_token = settings.admin_token.get_secret_value() if settings.admin_token else None
        self._passwords = PasswordChecks()
        attempts, window = settings.login_attempts_max, settings.login_window_seconds
        self._by_account = RateLimit(attempts, window)
        self._by_pair = RateLimit(attempts, window)
        self._by_source = RateLimit(attempts * SOURCE_FACTOR, window)
        self._key = b""

    @property
    def absolute_seconds(self) -> int:
        """Longest life of a session, for its cookie."""
        return int(self._absolute.total_seconds())

    def prepare(self, base_url: str) -> str | None:
        """Make the key, the first admin, the token from the environment and, until an admin came in, a login link.

        Returns the link, which is also in `<data>/web/login-link` (mode 0600). Blocking; called once at the start.
        Raises PermissionError when the key file can be read by others.
        """
        self._key = load_or_make_key(self._key_path)
        now = self._clock()
        somebody_came = self._database.write_now(lambda session: accounts.ensure_first_user(session, now))
        if self._admin_token is not None:
            self._database.write_now(lambda session: self._take_environment_token(session, now))
        if somebody_came:
            self._link_path.unlink(missing_ok=True)
            return None
        return self.new_login_link_now(accounts.FIRST_USER, base_url)

    def new_login_link_now(self, user_name: str, base_url: str) -> str:
        """Make a one-time link for a user and write it to the file; for the start and the command line. Blocking."""
        now = self._clock()
        token = self._database.write_now(
            lambda session: accounts.make_login_link(session, user_name, now, LINK_LIFETIME)
        )
        link = f"{base_url}/login/link?token={token}"
        write_private(self._link_path, link + "\n")
        return link

    def _take_environment_token(self, session: Any, now: dt.datetime) -> None:
        """Set up CONCLAVE_ADMIN_TOKEN at a first start; later starts leave what an admin may have revoked alone."""
        assert self._admin_token is not None
        if any(token.name == ENVIRONMENT_TOKEN for token in accounts.tokens(session)):
            return
        accounts.add_token(
            session,
            name=ENVIRONMENT_TOKEN,
            role=Role.ADMIN.text,
            scopes=[],
            created_by="CONCLAVE_ADMIN_TOKEN",
            now=now,
            expires_at=None,
            token=self._admin_token,
        )

    # who is asking

    async def principal_of_session(self, session_id: str) -> Principal | None:
        """Return whose session it is; None when it is unknown or over."""
        now = self._clock()
        found = await self._database.read(accounts.principal_of_session, session_id, now, self._idle)
        if found is None:
            return None
        principal, stale = found
        if stale:
            await self._database.write(accounts.touch_session, session_id, now)
        return principal

    async def principal_of_token(self, token: str) -> Principal | None:
        """Return whom an API token stands for; None when it is unknown, revoked or expired."""
        now = self._clock()
        found = await self._database.read(accounts.principal_of_token, token, now)
        if found is None:
            return None
        principal, stale = found
        if stale:
            await self._database.write(accounts.touch_token, token, now)
        return principal

    def csrf_token(self, session_or_visitor_id: str) -> str:
        """Return the token that forms of this session (or, before login, of this visitor) carry."""
        return sign(self._key, "csrf", session_or_visitor_id)

    def signed(self, purpose: str, text: str) -> str:
        """Return this installation's signature over a text."""
        return sign(self._key, purpose, text)

    # coming and going

    async def login(self, name: str, password: str, info: RequestInfo) -> str:
        """Check name and password and return a new session's id.

        Raises ApiError 401 (one text for every cause) or 429 with Retry-After after too many wrong attempts.
        """
        known = await self._database.read(accounts.was_here_before, name, info.source)
        await self._may_try(name, known, info)
        user = await self._database.read(accounts.user_by_name, name)
        usable = user if user is not None and user.disabled_at is None else None
        right = await self._passwords.verify(password, usable.password_hash if usable else None)
        if not right or usable is None:
            await self.record(name, "anonymous", "login", f"user/{name}", "denied", info, error=LOGIN_REFUSED)
            raise ApiError(401, LOGIN_REFUSED, code="login-refused")
        self._by_pair.succeeded(f"{name}\0{info.source}")
        if not known:
            self._by_account.succeeded(name)
        return await self._open(usable, "login", info)

    async def _may_try(self, name: str, known: bool, info: RequestInfo) -> None:
        """Count the attempt before it is checked, so that parallel ones cannot slip through.

        Who was here before from this source has a count of their own: strangers cannot lock them out.
        """
        pair = f"{name}\0{info.source}"
        limits = [(self._by_pair, pair)]
        if not known:
            limits += [(self._by_account, name), (self._by_source, info.source)]
        wait = max(limit.retry_after_seconds(key) for limit, key in limits)
        if wait:
            await self.record(name, "anonymous", "login", f"user/{name}", "denied", info, error="too many attempts")
            raise ApiError(
                429,
                f"Too many wrong logins; try again in {wait} s.",
                headers={"Retry-After": str(wait)},
                error_code=42901,
            )
        for limit, key in limits:
            limit.failed(key)

    async def login_by_link(self, token: str, info: RequestInfo) -> str:
        """Use a one-time link and return a new session's id. Raises ApiError 401 or 429."""
        wait = self._by_source.retry_after_seconds(info.source)
        if wait:
            raise ApiError(429, f"Too many attempts; try again in {wait} s.", headers={"Retry-After": str(wait)})
        user = await self._database.write(accounts.use_login_link, token, self._clock())
        if user is None:
            self._by_source.failed(info.source)
            await self.record("anonymous", "anonymous", "login.link", "user", "denied", info, error=LINK_REFUSED)
            raise ApiError(401, LINK_REFUSED, code="login-refused")
        self._link_path.unlink(missing_ok=True)
        return await self._open(user, "login.link", info)

    async def _open(self, user: User, action: str, info: RequestInfo) -> str:
        session_id = await self._database.write(
            accounts.open_session, user.id, info.source, self._clock(), self._absolute
        )
        await self.record(user.name, "user", action, f"user/{user.name}", "ok", info)
        return session_id

    async def logout(self, principal: Principal, info: RequestInfo) -> None:
        """End the caller's session."""
        if principal.session_id is not None:
            await self._database.write(accounts.close_session, principal.session_id)
        await self.record_of(principal, "logout", f"user/{principal.name}", "ok", info)

    async def has_password(self, name: str) -> bool:
        """Whether the user can log in without a link."""
        user = await self._database.read(accounts.user_by_name, name)
        return user is not None and user.password_hash is not None

    async def set_password(
        self, principal: Principal, name: str, password: str, info: RequestInfo, *, validate_only: bool = False
    ) -> None:
        """Give a user a new password; all of that user's sessions end. Raises AccountError."""
        try:
            check_new_password(password, name)
        except ValueError as weak:
            raise accounts.AccountError(str(weak), "password") from None
        hashed = await self._passwords.hash(password)
        write = self._database.rehearse if validate_only else self._database.write
        await write(accounts.set_password, name, hashed, self._clock())
        if not validate_only:
            await self.record_of(principal, "user.password", f"user/{name}", "ok", info)

    # users and tokens

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
        if password is not None:
            try:
                check_new_password(password, name)
            except ValueError as weak:
                raise accounts.AccountError(str(weak), "password") from None
        hashed = None if password is None else await self._passwords.hash(password)
        write = self._database.rehearse if validate_only else self._database.write
        user = await write(accounts.add_user, name, role, hashed, self._clock())
        if not validate_only:
            await self.record_of(principal, "user.create", f"user/{name}", "ok", info, detail={"role": role})
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
        """Change a user's role or state; the user's sessions end. Raises AccountError."""
        write = self._database.rehearse if validate_only else self._database.write
        user = await write(accounts.change_user, name, self._clock(), role, disabled)
        if not validate_only:
            detail = {"role": role, "disabled": disabled}
            await self.record_of(principal, "user.change", f"user/{name}", "ok", info, detail=detail)
        return user

    async def remove_user(
        self, principal: Principal, name: str, info: RequestInfo, *, validate_only: bool = False
    ) -> None:
        """Remove a user. Raises AccountError."""
        write = self._database.rehearse if validate_only else self._database.write
        await write(accounts.remove_user, name)
        if not validate_only:
            await self.record_of(principal, "user.delete", f"user/{name}", "ok", info)

    async def login_link(
        self, principal: Principal, name: str, base_url: str, info: RequestInfo, *, validate_only: bool = False
    ) -> str:
        """Make a one-time login link for a user; that of a dry run does not work. Raises AccountError."""
        write = self._database.rehearse if validate_only else self._database.write
        token = await write(accounts.make_login_link, name, self._clock(), LINK_LIFETIME)
        if not validate_only:
            await self.record_of(principal, "user.login-link", f"user/{name}", "ok", info)
        return f"{base_url}/login/link?token={token}"

    async def tokens(self) -> list[ApiToken]:
        """Return all API tokens by name, revoked ones too."""
        return await self._database.read(accounts.tokens)

    async def add_token(
        self,
        principal: Principal,
        *,
        name: str,
        role: str,
        scopes: list[str],
        expires_at: dt.datetime | None,
        info: RequestInfo,
        validate_only: bool = False,
    ) -> tuple[ApiToken, str]:
        """Add an API token; its text is returned this once. Raises AccountError."""
        write = self._database.rehearse if validate_only else self._database.write
        made, text = await write(
            lambda session: accounts.add_token(
                session,
                name=name,
                role=role,
                scopes=scopes,
                created_by=principal.audit_name,
                now=self._clock(),
                expires_at=expires_at,
            )
        )
        if not validate_only:
            detail = {"role": role, "scopes": scopes, "expires_at": expires_at.isoformat() if expires_at else None}
            await self.record_of(principal, "token.create", f"token/{name}", "ok", info, detail=detail)
        return made, text

    async def revoke_token(
        self, principal: Principal, name: str, info: RequestInfo, *, validate_only: bool = False
    ) -> None:
        """Revoke a token for good. Raises AccountError."""
        write = self._database.rehearse if validate_only else self._database.write
        await write(accounts.revoke_token, name, self._clock())
        if not validate_only:
            await self.record_of(principal, "token.revoke", f"token/{name}", "ok", info)

    # audit

    async def record(
        self,
        actor: str,
        actor_kind: str,
        action: str,
        resource: str,
        result: Literal["ok", "denied", "failed"],
        info: RequestInfo,
        *,
        error: str | None = None,
        detail: dict[str, Any] | None = None,
        metadata_offset: int | None = None,
    ) -> None:
        """Write one event to the log and the table."""
        event = audit.Event(
            actor=actor,
            actor_kind=actor_kind,
            source=info.source,
            action=action,
            resource=resource,
            result=result,
            request_id=info.request_id,
            error=error,
            detail=detail or {},
            metadata_offset=metadata_offset,
        )
        audit.log_event(event)
        await self._database.write(audit.store_event, event, self._clock())

    async def record_of(
        self,
        principal: Principal,
        action: str,
        resource: str,
        result: Literal["ok", "denied", "failed"],
        info: RequestInfo,
        *,
        error: str | None = None,
        detail: dict[str, Any] | None = None,
        metadata_offset: int | None = None,
    ) -> None:
        """Write one event of a known caller."""
        await self.record(
            principal.audit_name,
            principal.kind,
            action,
            resource,
            result,
            info,
            error=error,
            detail=detail,
            metadata_offset=metadata_offset,
        )


def fingerprint(*parts: str) -> str:
    """Return a digest that two equal requests share."""
    return digest("\0".join(parts))
