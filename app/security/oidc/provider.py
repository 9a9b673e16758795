"""A client of an OpenID issuer: discovery, the address of its login page, tokens and keys.

The discovery document and the keys are cached for an hour; an unknown key in a token makes the client read the keys
again. Errors name the issuer's host and the cause in a few words, never a code, a token or the content of an answer.
"""

import asyncio
import base64
import hashlib
import json
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
import structlog
from joserfc.jwk import Key

from app.http.errors import UnauthorizedError, UnavailableError
from app.security.oidc.id_tokens import Expected, IdTokenError, UnknownKeyError, checked_claims, signing_keys
from app.texts import Text, phrase

log = structlog.get_logger(__name__)

TIMEOUT_SECONDS: Final = 10.0
KEPT_SECONDS: Final = 3_600.0
FAILURE_SECONDS: Final = 2.0
NEW_KEYS_SECONDS: Final = 10.0
ANSWER_BYTES_MAX: Final = 1 << 20
OK: Final = 200
_CODE: Final = re.compile(r"[a-z_]{1,50}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Client:
    """This application, as it is registered at the issuer. `ca_file`: PEM certificates, None for the system's."""

    issuer: str
    id: str
    secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ("openid",)
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Content of the discovery document. `by_post`: the secret is sent in the body and not as Basic.

    `names_issuer`: redirects to us have the parameter `iss` (RFC 9207).
    """

    authorization: str
    token: str
    keys: str
    userinfo: str | None
    by_post: bool
    names_issuer: bool


@dataclass(frozen=True, slots=True)
class Login:
    """A pending login: the address to which the issuer redirects the browser, and the values derived for this login."""

    redirect_uri: str
    state: str
    nonce: str
    verifier: str


def refused(why: str) -> UnauthorizedError:
    """Return the error for an answer of the issuer that is not accepted."""
    message = phrase("The login service's answer is refused: %(why)s.", why=why)
    return UnauthorizedError(message, code="login-refused")


def error_code(text: Any) -> str:
    """Return the issuer's error code as it may be shown."""
    return text if isinstance(text, str) and _CODE.fullmatch(text) else "error"


class Provider:
    """One issuer. Used on the event loop."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tls = ssl.create_default_context(cafile=client.ca_file)
        self._endpoints: tuple[float, Endpoints] | None = None
        self._keys: tuple[float, list[Key]] | None = None
        self._new_keys_at = -NEW_KEYS_SECONDS
        self._failure: tuple[float, str] | None = None
        self._discovering = asyncio.Lock()
        self._reading_keys = asyncio.Lock()

    async def login_url(self, login: Login) -> str:
        """Return the address of the issuer's login page. Raises UnavailableError when the issuer cannot be reached."""
        endpoint = (await self._discovered()).authorization
        challenge = base64.urlsafe_b64encode(hashlib.sha256(login.verifier.encode()).digest()).decode().rstrip("=")
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._client.id,
                "redirect_uri": login.redirect_uri,
                "scope": " ".join(self._client.scopes),
                "state": login.state,
                "nonce": login.nonce,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
            }
        )
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"

    async def claims(
        self, login: Login, code: str, issuer: str | None, now: float, wanted: str
    ) -> tuple[str, dict[str, Any]]:
        """Exchange the code and return the user's subject and claims.

        `issuer` is the parameter of the redirect (RFC 9207). If the ID token does not have the claim `wanted`, the
        claims of the issuer's userinfo endpoint are added. Raises UnauthorizedError for an answer that is not accepted,
        and UnavailableError when the issuer cannot be reached.
        """
        endpoints = await self._discovered()
        if (issuer is None and endpoints.names_issuer) or issuer not in {None, self._client.issuer}:
            raise refused(phrase("it is of another issuer"))
        tokens = await self._tokens(endpoints, login, code)
        expected = Expected(self._client.issuer, self._client.id, login.nonce)
        try:
            claims = await self._checked(endpoints, tokens["id_token"], expected, now)
        except IdTokenError as wrong:
            log.warning("id_token_refused", cause=str(wrong))
            raise refused(wrong.args[0]) from None
        subject: str = claims["sub"]
        if wanted and wanted not in claims and endpoints.userinfo is not None:
            claims = {**await self._userinfo(endpoints.userinfo, tokens, subject), **claims}
        return subject, claims

    async def _checked(self, endpoints: Endpoints, token: str, expected: Expected, now: float) -> dict[str, Any]:
        try:
            return checked_claims(token, await self._signing_keys(endpoints), expected, now)
        except UnknownKeyError:
            keys = await self._signing_keys(endpoints, again=True)
        return checked_claims(token, keys, expected, now)

    async def _tokens(self, endpoints: Endpoints, login: Login, code: str) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": login.redirect_uri,
            "code_verifier": login.verifier,
        }
        headers: dict[str, str] = {}
        client = self._client
        if client.secret and not endpoints.by_post:
            pair = f"{quote_plus(client.id)}:{quote_plus(client.secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form["client_id"] = client.id
            if client.secret:
                form["client_secret"] = client.secret
        status, found = await self._fetch("POST", endpoints.token, headers, form)
        if status != OK:
            raise refused(phrase("it does not accept the code (%(error)s)", error=error_code(found.get("error"))))
        if not isinstance(found.get("id_token"), str):
            raise refused(phrase("it has no ID token"))
        return found

    async def _userinfo(self, url: str, tokens: Mapping[str, Any], subject: str) -> dict[str, Any]:
        token = tokens.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            return {}
        status, found = await self._fetch("GET", url, {"Authorization": f"Bearer {token}"})
        if status != OK:
            log.warning("userinfo_refused", status=status)
            return {}
        if found.get("sub") != subject:
            raise refused(phrase("its user information is about somebody else"))
        return found

    async def _discovered(self) -> Endpoints:
        async with self._discovering:
            now, known = time.monotonic(), self._endpoints
            if known is not None and now < known[0] + KEPT_SECONDS:
                return known[1]
            if self._failure is None or now >= self._failure[0] + FAILURE_SECONDS:
                try:
                    found = await self._discover()
                except UnavailableError as error:
                    self._failure = (time.monotonic(), error.message)
                else:
                    self._endpoints, self._failure = (now, found), None
                    return found
            if known is not None:
                return known[1]
            raise UnavailableError(self._failure[1], retry_after_seconds=1)

    async def _discover(self) -> Endpoints:
        issuer = self._client.issuer
        status, found = await self._fetch("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if status != OK:
            raise self._unavailable(phrase("it answers with HTTP %(status)s", status=status))
        if found.get("issuer") != issuer:
            raise self._unavailable(phrase("its discovery document names another issuer"))
        methods = found.get("token_endpoint_auth_methods_supported")
        methods = methods if isinstance(methods, list) else ["client_secret_basic"]
        return Endpoints(
            authorization=self._endpoint(found, "authorization_endpoint"),
            token=self._endpoint(found, "token_endpoint"),
            keys=self._endpoint(found, "jwks_uri"),
            userinfo=self._endpoint(found, "userinfo_endpoint") if "userinfo_endpoint" in found else None,
            by_post="client_secret_basic" not in methods and "client_secret_post" in methods,
            names_issuer=found.get("authorization_response_iss_parameter_supported") is True,
        )

    def _endpoint(self, found: Mapping[str, Any], name: str) -> str:
        """Return an address of the document. With an issuer in https it must have https too."""
        address = found.get(name)
        try:
            parts = urlsplit(address) if isinstance(address, str) else None
        except ValueError:
            parts = None
        schemes = {"https", urlsplit(self._client.issuer).scheme}
        if not isinstance(address, str) or parts is None or parts.scheme not in schemes or not parts.hostname:
            raise self._unavailable(phrase("its discovery document has no valid %(name)s", name=name))
        return address.partition("#")[0]

    async def _signing_keys(self, endpoints: Endpoints, *, again: bool = False) -> list[Key]:
        """Return the issuer's keys. `again`: a key is missing, so the issuer may have new ones."""
        async with self._reading_keys:
            now, known = time.monotonic(), self._keys
            if known is not None and now < known[0] + KEPT_SECONDS:
                if not again or now < self._new_keys_at + NEW_KEYS_SECONDS:
                    return known[1]
                self._new_keys_at = now
            status, found = await self._fetch("GET", endpoints.keys)
            if status != OK:
                raise self._unavailable(phrase("it answers with HTTP %(status)s", status=status))
            self._keys = (now, signing_keys(found))
            return self._keys[1]

    async def _fetch(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, form: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Return status and JSON object of an answer; {} for an error with another body. Raises UnavailableError."""
        sent = {"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})}
        content = bytearray()
        try:
            async with (
                asyncio.timeout(TIMEOUT_SECONDS),
                httpx.AsyncClient(verify=self._tls, timeout=TIMEOUT_SECONDS) as client,
                client.stream(method, url, headers=sent, data=form) as answer,
            ):
                async for piece in answer.aiter_raw():
                    content += piece
                    if len(content) > ANSWER_BYTES_MAX:
                        raise self._unavailable(phrase("its answer is too long"), url)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            log.warning("issuer_unreachable", host=urlsplit(url).netloc, error=f"{type(error).__name__}: {error}"[:300])
            raise self._unavailable(_cause(error), url) from None
        try:
            found = json.loads(bytes(content))
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return answer.status_code, found
        if answer.status_code == OK:
            raise self._unavailable(phrase("it answers with something else than a JSON object"), url)
        return answer.status_code, {}

    def _unavailable(self, why: str, url: str = "") -> UnavailableError:
        host = urlsplit(url or self._client.issuer)
        name = f"{host.hostname}:{host.port}" if host.port else host.hostname
        message = phrase("The login service %(host)s cannot be used: %(why)s.", host=name, why=why)
        return UnavailableError(message, retry_after_seconds=1)


def _cause(error: Exception) -> Text:
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return phrase("it does not answer in time")
    if "CERTIFICATE" in str(error) or "certificate" in str(error):
        return phrase("its certificate is not trusted")
    if isinstance(error, httpx.ConnectError):
        return phrase("it cannot be reached")
    return phrase("the connection failed")
