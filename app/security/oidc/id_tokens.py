"""Checks of ID tokens (OpenID Connect Core 1.0, 3.1.3.7). joserfc checks the signatures.

Only asymmetric signatures are accepted, so that public data is not enough to sign: neither `none`, nor an HMAC whose
secret is the text of a public key.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey, import_key

from app.security.secrets import same
from app.security.text import plain_text
from app.texts import phrase

SKEW_SECONDS: Final = 60
SUBJECT_MAX: Final = 255
RSA_BITS_MIN: Final = 2_048
KEYS_MAX: Final = 100
TIME_MAX: Final = 1 << 53  # seconds that a float holds exactly
TOKEN_CHARACTERS_MAX: Final = 64 << 10
ALGORITHMS: Final[Mapping[str, type[Key]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), RSAKey),
    **dict.fromkeys(("ES256", "ES384", "ES512"), ECKey),
    "Ed25519": OKPKey,
}
"""Accepted signature algorithms, and the type of their keys."""
_REGISTRY: Final = jws.JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)


class IdTokenError(Exception):
    """The ID token is refused. The text says why, without anything of the token's content."""


class UnknownKeyError(IdTokenError):
    """The token names an unknown key: the issuer may have new ones."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Required values of a token: its issuer, its audience, and the nonce of the login."""

    issuer: str
    client_id: str
    nonce: str


def signing_keys(document: Any) -> list[Key]:
    """Return the keys of a JWK set that can check a signature. Keys of other kinds, and weak ones, are left out."""
    found: list[Key] = []
    entries = document.get("keys") if isinstance(document, dict) else None
    for entry in entries[:KEYS_MAX] if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or entry.get("kty") not in _KINDS:
            continue
        if entry["kty"] == "RSA" and len(str(entry.get("n", ""))) * 6 < RSA_BITS_MIN:
            continue
        try:
            found.append(import_key(entry))
        except (JoseError, KeyError, TypeError, ValueError):
            continue
    return found


_KINDS: Final = tuple({kind.key_type for kind in ALGORITHMS.values()})  # compared with values of any type


def checked_claims(text: str, keys: Sequence[Key], expected: Expected, now: float) -> dict[str, Any]:
    """Return the claims of a good ID token. `now` is seconds since 1970.

    Raises UnknownKeyError when no key fits, IdTokenError for every other reason.
    """
    claims = _signed_claims(text, keys)
    if claims.get("iss") != expected.issuer:
        raise IdTokenError(phrase("its token is of another issuer"))
    _check_audience(claims, expected.client_id)
    if _time(claims, "exp") <= now - SKEW_SECONDS:
        raise IdTokenError(phrase("its token has expired"))
    if max(_time(claims, "iat"), _time(claims, "nbf") if "nbf" in claims else 0) > now + SKEW_SECONDS:
        raise IdTokenError(phrase("its token is not valid yet: the clocks differ"))
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not same(nonce, expected.nonce):
        raise IdTokenError(phrase("its token is of another login"))
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_MAX or subject != plain_text(subject):
        raise IdTokenError(phrase("its token names no user"))
    return claims


def _signed_claims(text: str, keys: Sequence[Key]) -> dict[str, Any]:
    header = _header(text)
    algorithm, key_id = header.get("alg"), header.get("kid")
    kind = ALGORITHMS.get(algorithm) if isinstance(algorithm, str) else None
    if kind is None:
        raise IdTokenError(phrase("its token is not signed in an accepted way"))
    fitting = [
        key
        for key in keys
        if isinstance(key, kind) and key.alg in {None, algorithm} and (key_id is None or key.kid == key_id)
    ]
    if not fitting:
        raise UnknownKeyError(phrase("its token is signed with an unknown key"))
    for key in fitting:
        try:
            content = jws.deserialize_compact(text, key, registry=_REGISTRY).payload
            claims = json.loads(content)
        except (JoseError, TypeError, ValueError, RecursionError):  # a key of another curve is an error too
            continue
        if isinstance(claims, dict):
            return claims
    raise IdTokenError(phrase("its token has a wrong signature"))


def _header(text: str) -> dict[str, Any]:
    first = text.partition(".")[0]
    try:
        if len(text) > TOKEN_CHARACTERS_MAX:
            raise ValueError(first[:20])
        header = json.loads(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise IdTokenError(phrase("its token cannot be read"))
    return header


def _check_audience(claims: Mapping[str, Any], client_id: str) -> None:
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    party = claims.get("azp")
    if client_id not in named or (party is None and len(named) > 1) or party not in (None, client_id):
        raise IdTokenError(phrase("its token is for another application"))


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < TIME_MAX:
        raise IdTokenError(phrase("its token has no valid %(claim)s", claim=name))
    return value
