"""SASL SCRAM-SHA-256 and SCRAM-SHA-512, both sides: each proves to know the password, and neither says it.

A name that the server does not know is led through the whole exchange with a made-up salt, the same at each try and of
the same form as real ones, with as many iterations as most users have, and fails where a wrong password fails; Kafka's
server gives it away after the first message.

A client that says `tokenauth=true` logs in with a delegation token: its id for a name, its HMAC for a password.

Source: RFC 5802, RFC 7677, KIP-48; ScramSaslServer and ScramSaslClient, Kafka 4.3.1.
"""

import base64
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kraft_core.image.metadata_image import ScramCredential
from kraft_core.image.scram_mechanism import MAX_ITERATIONS, MIN_ITERATIONS, SALT_BITS, ScramMechanism, salt_of
from kraft_core.security import scram_messages
from kraft_core.security.sasl import SaslError
from kraft_core.security.scram_formatter import sasl_name, username_of, xor

_GS2_HEADER: Final = b"n,,"

CredentialOf = Callable[[str], ScramCredential | None]
UsualIterations = Callable[[], int]
"""Says how many iterations most users of the mechanism have."""


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """What a delegation token is to a login: whose it is, what its holder shows, and for how long it is still good."""

    owner: str
    password: str = field(repr=False)
    lifetime_ms: int


TokenOf = Callable[[str], TokenLogin | None]
"""Finds a token that is good, by its id."""


def no_tokens(_token_id: str) -> TokenLogin | None:
    """Find none: the answer of a node that has no key for delegation tokens."""
    return None


class ScramSaslServer:
    """The server's side. `credential_of` finds a user; `nonce` is fresh.

    For a name that does not exist `decoy_key` makes up the salt, and `usual_iterations` says the number of iterations.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential_of: CredentialOf,
        nonce: str,
        decoy_key: bytes,
        token_of: TokenOf = no_tokens,
        usual_iterations: UsualIterations = lambda: MIN_ITERATIONS,
    ) -> None:
        self._usual_iterations = usual_iterations
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._token_of = token_of
        self._nonce = nonce
        self._decoy_key = decoy_key
        self._credential: ScramCredential | None = None
        self._is_known = False
        self._name = ""
        self.token_lifetime_ms: int | None = None
        self._client_first_bare = ""
        self._server_first: scram_messages.ServerFirst | None = None
        self.is_complete = False

    @property
    def authorization_id(self) -> str:
        """Who has logged in."""
        assert self.is_complete, "asked before the login was complete"
        return self._name

    def evaluate_response(self, token: bytes) -> bytes:
        """Take the client's first or last message. Raises SaslError when the login failed."""
        if self.is_complete:
            raise SaslError("a message after the end of the login")
        return self._first(token) if self._server_first is None else self._final(token, self._server_first)

    def _first(self, token: bytes) -> bytes:
        message = scram_messages.parse_client_first(token)
        name = username_of(message.name)
        if name is None:
            raise SaslError("a name with an unknown escape")
        if message.authorization_id and username_of(message.authorization_id) != name:
            raise SaslError("asked to act for another user")
        known = self._token_credential(name) if message.is_token else self._credential_of(name)
        self._is_known = known is not None and known.iterations >= MIN_ITERATIONS
        self._credential = known if known is not None and self._is_known else self._decoy(name)
        self._name = self._name or name
        self._client_first_bare = message.bare
        self._server_first = scram_messages.ServerFirst(
            message.nonce + self._nonce, self._credential.salt, self._credential.iterations
        )
        return str(self._server_first).encode()

    def _final(self, token: bytes, server_first: scram_messages.ServerFirst) -> bytes:
        assert self._credential is not None, "set with the first message"
        credential, self._credential = self._credential, None
        message = scram_messages.parse_client_final(token)
        if not hmac.compare_digest(message.nonce, server_first.nonce):
            raise SaslError("the nonce of another login")
        if not message.channel_binding.startswith(b"n,"):
            raise SaslError("channel binding was not agreed on")
        auth_message = f"{self._client_first_bare},{server_first},{message.without_proof}".encode()
        if len(message.proof) != self._mechanism.digest_size:
            raise SaslError("a proof of the wrong length")
        client_signature = self._mechanism.hmac(credential.stored_key, auth_message)
        stored_key = self._mechanism.hash(xor(message.proof, client_signature))
        if not hmac.compare_digest(stored_key, credential.stored_key) or not self._is_known:
            raise SaslError("unknown user or wrong password")
        self.is_complete = True
        return b"v=" + base64.b64encode(self._mechanism.hmac(credential.server_key, auth_message))

    def _token_credential(self, token_id: str) -> ScramCredential | None:
        """Find a token, note whose it is, and make its credential, with the salt that it would have if there was none."""
        token = self._token_of(token_id)
        if token is None:
            return None
        self._name, self.token_lifetime_ms = token.owner, token.lifetime_ms
        salt = self._decoy_salt(token_id)
        iterations = self._usual_iterations()
        salted_password = self._mechanism.salted_password(token.password, salt, iterations)
        return self._mechanism.credential(salt, salted_password, iterations)

    def _decoy_salt(self, name: str) -> bytes:
        drawn = int.from_bytes(hmac.digest(self._decoy_key, self._mechanism.name.encode() + name.encode(), "sha256"))
        return salt_of(drawn >> (256 - SALT_BITS))

    def _decoy(self, name: str) -> ScramCredential:
        """Make up what an unknown user is challenged with; no proof fits it."""
        salt = self._decoy_salt(name)
        key = hmac.digest(self._decoy_key, b"\x00" + name.encode(), self._mechanism.hash_name)
        return ScramCredential(salt, key, key, self._usual_iterations())


class ScramSaslClient:
    """The client's side. `nonce` is fresh. A server that does not know the password itself is refused.

    `is_token`: the name is a delegation token's id, the password its HMAC in Base64.
    """

    def __init__(
        self, mechanism: ScramMechanism, username: str, password: str, nonce: str, *, is_token: bool = False
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._client_first_bare = f"n={sasl_name(username)},r={nonce}"
        if is_token:
            self._client_first_bare += f",{scram_messages.TOKEN_AUTH}"
        self._server_signature: bytes | None = None
        self._has_begun = False
        self.is_complete = False

    def evaluate_challenge(self, token: bytes) -> bytes:
        """Take the server's message (empty at first). Raises SaslError for a server that is not to be trusted."""
        if not self._has_begun:
            self._has_begun = True
            return _GS2_HEADER + self._client_first_bare.encode()
        if self._server_signature is None:
            return self._prove(token)
        if self.is_complete:
            raise SaslError("a message after the end of the login")
        if not hmac.compare_digest(scram_messages.parse_server_final(token), self._server_signature):
            raise SaslError("the server's signature is wrong: it does not know the password")
        self.is_complete = True
        return b""

    def _prove(self, token: bytes) -> bytes:
        text, message = scram_messages.parse_server_first(token)
        if not message.nonce.startswith(self._nonce) or message.nonce == self._nonce:
            raise SaslError("the server's nonce does not continue ours")
        if not MIN_ITERATIONS <= message.iterations <= MAX_ITERATIONS:
            raise SaslError(f"the server asks for {message.iterations} iterations")
        mechanism = self._mechanism
        salted_password = mechanism.salted_password(self._password, message.salt, message.iterations)
        without_proof = f"c={scram_messages.encode_base64(_GS2_HEADER)},r={message.nonce}"
        auth_message = f"{self._client_first_bare},{text},{without_proof}".encode()
        client_key = mechanism.client_key(salted_password)
        signature = mechanism.hmac(mechanism.hash(client_key), auth_message)
        self._server_signature = mechanism.hmac(mechanism.server_key(salted_password), auth_message)
        return f"{without_proof},p={scram_messages.encode_base64(xor(client_key, signature))}".encode()
