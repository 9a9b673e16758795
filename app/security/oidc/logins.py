"""Logins at the OpenID issuer of the settings: from our link to the issuer and back into a session.

A pending login is not stored: the browser keeps a random text in a cookie, and state, nonce and the verifier of PKCE
are our signatures over it. So an answer is valid only in the browser in which its login began, and on any web process
with the same key.
"""

import base64
import binascii
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog
from sqlalchemy.exc import IntegrityError

from app.config import Settings
from app.db.database import Database
from app.db.models import User
from app.group_roles import GroupRole
from app.http.cluster_paths import key_of
from app.http.errors import ApiError, ForbiddenError, UnavailableError
from app.security import identities
from app.security.accounts import AccountError, grants_of
from app.security.forwarded import network_of
from app.security.oidc.provider import Client, Login, Provider, error_code, refused
from app.security.oidc.returned import LOGIN_LIFETIME, Returned
from app.security.rate_limit import RateLimit
from app.security.recorder import RequestInfo
from app.security.roles import ANONYMOUS, Grant, Role
from app.security.secrets import new_token, same
from app.security.service import SOURCE_FACTOR, Security, too_many
from app.security.text import plain_text
from app.texts import phrase

log = structlog.get_logger(__name__)

CALLBACK: Final = "/login/oidc/callback"
NEXT_MAX: Final = 1_000
CODE_MAX: Final = 4_096
GROUPS_MAX: Final = 10_000
EVERYBODY: Final = "*"
FALLBACK_NAMES: Final = ("preferred_username", "email", "sub")


class OidcLogins:
    """The logins of one web process at the issuer of its settings."""

    def __init__(self, settings: Settings, security: Security, database: Database) -> None:
        assert settings.oidc_issuer is not None, "only with an issuer"
        secret = settings.oidc_client_secret
        self._provider = Provider(
            Client(
                issuer=settings.oidc_issuer,
                id=settings.oidc_client_id,
                secret="" if secret is None else secret.get_secret_value(),
                scopes=settings.oidc_scopes,
                ca_file=settings.oidc_ca,
            )
        )
        self.label = settings.oidc_label
        self._issuer = settings.oidc_issuer
        self.given = settings.oidc_group_roles
        self._groups_claim = settings.oidc_groups_claim
        self._name_claim = settings.oidc_name_claim
        self._security = security
        self._database = database
        self._failures = RateLimit(
            database,
            "login at the issuer",
            settings.login_attempts_max * SOURCE_FACTOR,
            settings.login_window_seconds,
            security.now,
        )

    async def begin(self, base_url: str, location: str) -> tuple[str, str]:
        """Return the address of the issuer's login page, and the cookie of this login.

        Raises UnavailableError when the issuer cannot be reached.
        """
        kept = base64.urlsafe_b64encode((location if len(location) <= NEXT_MAX else "/").encode()).decode().rstrip("=")
        cookie = f"{new_token()}.{int(self._security.now().timestamp())}.{kept}"
        return await self._provider.login_url(self._login(base_url, cookie)), cookie

    async def finish(self, base_url: str, returned: Returned, info: RequestInfo) -> tuple[str, str]:
        """Return a new session's id and the page to open.

        Raises UnauthorizedError for an answer that is not accepted, ForbiddenError for a user without a role here,
        UnavailableError when the issuer cannot be reached, and TooManyRequestsError after too many failures.
        """
        source = network_of(info.source)
        wait = await self._failures.retry_after_seconds(source)
        if wait:
            raise too_many(phrase("Too many failed logins; try again in %(seconds)s s.", seconds=wait), wait)
        try:
            location = self._location_of(returned.cookie)
            subject, claims = await self._claims(base_url, returned)
            user = await self._user(subject, claims)
        except (ApiError, AccountError) as failed:
            if not isinstance(failed, UnavailableError):  # an unavailable issuer is no failed attempt
                await self._failures.failed(source)
            await self._security.record(ANONYMOUS, "login.oidc", "user", "denied", info, error=failed.message)
            raise
        given = [
            {
                "group": each.from_group,
                "cluster": each.cluster,
                "topic_prefix": each.topic_prefix,
                "role": each.role.text,
            }
            for each in grants_of(user)
            if each.from_group
        ]
        detail: dict[str, object] = {"role": user.role, "grants": given}
        return await self._security.open_session(user, "login.oidc", "oidc", info, detail), location

    def _login(self, base_url: str, cookie: str) -> Login:
        signed = self._security.signed
        return Login(
            redirect_uri=f"{base_url}{CALLBACK}",
            state=signed("oidc-state", cookie),
            nonce=signed("oidc-nonce", cookie),
            verifier=signed("oidc-verifier", cookie),
        )

    def _location_of(self, cookie: str) -> str:
        """Return the page to open after the login of a cookie. Raises UnauthorizedError for a cookie too old."""
        parts = cookie.split(".")
        try:
            _, seconds, kept = parts
            began = dt.datetime.fromtimestamp(int(seconds), dt.UTC)
            location = base64.urlsafe_b64decode(kept + "=" * (-len(kept) % 4)).decode()
        except (ValueError, OverflowError, OSError, binascii.Error):
            began, location = dt.datetime.fromtimestamp(0, dt.UTC), "/"
        if not began <= self._security.now() <= began + LOGIN_LIFETIME:
            raise refused(phrase("the login did not begin in this browser, or more than ten minutes ago"))
        return location

    async def _claims(self, base_url: str, returned: Returned) -> tuple[str, dict[str, Any]]:
        login = self._login(base_url, returned.cookie)
        if not same(returned.state, login.state):
            raise refused(phrase("it belongs to another login"))
        if returned.error or not 0 < len(returned.code) <= CODE_MAX:
            raise refused(phrase("it says %(error)s", error=error_code(returned.error)))
        now = self._security.now().timestamp()
        wanted = self._groups_claim.partition(".")[0]
        return await self._provider.claims(login, returned.code, returned.issuer, now, wanted)

    async def _user(self, subject: str, claims: Mapping[str, Any]) -> User:
        name = _name_of(claims, self._name_claim)
        role, grants = rights_of(groups_of(claims, self._groups_claim), self.given)
        identity = identities.Identity(self._issuer, subject)
        if role is Role.NONE and not grants:
            await self._database.write(identities.lose_role, identity, self._security.now())
            self._security.streams.check_soon()
            log.info("oidc_login_without_role", user=name)
            message = phrase(
                "You are logged in at the login service as %(name)s, and none of your groups has a role here. Ask an "
                "administrator of Conclave.",
                name=plain_text(name),
            )
            raise ForbiddenError(message, code="login-refused")
        given = (identity, name, role, grants, self._security.now())
        try:
            return await self._database.write(identities.log_in, *given)
        except IntegrityError:  # the same user's first login, twice at once
            return await self._database.write(identities.log_in, *given)


def groups_of(claims: Mapping[str, Any], claim: str) -> Sequence[str]:
    """Return the groups of a claim, a list or one text. `a.b` is the member b of the claim a, if there is no `a.b`."""
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, str):
        return [found]
    return [each for each in found[:GROUPS_MAX] if isinstance(each, str)] if isinstance(found, list) else []


def rights_of(groups: Sequence[str], given: Sequence[GroupRole]) -> tuple[Role, list[Grant]]:
    """Return the highest role that the groups give in all clusters, and in each other place.

    Everybody is in the group `*` of the settings.
    """
    own, grants, present = Role.NONE, dict[tuple[str, str], Grant](), {EVERYBODY, *groups}
    for each in given:
        role = Role.of(each.role)
        if each.group not in present:
            continue
        if not each.cluster:
            own = max(own, role)
            continue
        place = (key_of(each.cluster), each.topic_prefix)
        if place not in grants or grants[place].role < role:
            grants[place] = Grant(*place, role, plain_text(each.group, 255))
    return own, list(grants.values())


def _name_of(claims: Mapping[str, Any], claim: str) -> str:
    for each in (claim, *FALLBACK_NAMES):
        found = claims.get(each)
        if isinstance(found, str) and found.strip():
            return found.strip()
    return ""
