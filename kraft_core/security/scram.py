"""SASL SCRAM-SHA-256 and SCRAM-SHA-512, both sides: each proves that it knows the password without sending it.

An unknown user goes through the whole exchange with a decoy salt, which is the same at each attempt and looks like a
real one, and with the iterations that most users have; the login fails at the same message as with a wrong password.
(Kafka's server reveals an unknown user after the first message.)

A client with `tokenauth=true` logs in with a delegation token: its id is the name, its HMAC the password.

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
"""Returns the number of iterations that most users of the mechanism have."""


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """A delegation token for a login: its owner, its HMAC in Base64, and its remaining lifetime."""

    owner: str
    password: str = field(repr=False)
    lifetime_ms: int


TokenOf = Callable[[str], TokenLogin | None]
"""Returns the valid token with an id."""


def no_tokens(_token_id: str) -> TokenLogin | None:
    """Return None: a node without a key for delegation tokens has none."""
    return None


class ScramSaslServer:
    """The server's side. `credential_of` returns a user's credential; `nonce` must be new for each login.

    An unknown user gets a salt derived from `decoy_key` and `usual_iterations` iterations.
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
        """Name of the user that has logged in: the owner of a token."""
        assert self.is_complete, "the login is not complete"
        return self._name

    def evaluate_response(self, token: bytes) -> bytes:
        """Return the answer to the client's first or last message. Raises SaslError if the login failed."""
        if self.is_complete:
            raise SaslError("a message after the end of the login")
        return self._first(token) if self._server_first is None else self._final(token, self._server_first)

    def _first(self, token: bytes) -> bytes:
        message = scram_messages.parse_client_first(token)
        name = username_of(message.name)
        if name is None:
            raise SaslError("the user name has an unknown escape")
        if message.authorization_id and username_of(message.authorization_id) != name:
            raise SaslError("the authorization id is not the user name")
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
            raise SaslError("the nonce is not that of this login")
        if not message.channel_binding.startswith(b"n,"):
            raise SaslError("channel binding is not supported")
        auth_message = f"{self._client_first_bare},{server_first},{message.without_proof}".encode()
        if len(message.proof) != self._mechanism.digest_size:
            raise SaslError("the proof has the wrong length")
        client_signature = self._mechanism.hmac(credential.stored_key, auth_message)
        stored_key = self._mechanism.hash(xor(message.proof, client_signature))
        if not hmac.compare_digest(stored_key, credential.stored_key) or not self._is_known:
            raise SaslError("unknown user or wrong password")
        self.is_complete = True
        return b"v=" + base64.b64encode(self._mechanism.hmac(credential.server_key, auth_message))

    def _token_credential(self, token_id: str) -> ScramCredential | None:
        """Return the credential of a token and keep its owner; the salt is the decoy's, so that it reveals nothing."""
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
        """Return a credential for an unknown user, which no proof matches."""
        salt = self._decoy_salt(name)
        key = hmac.digest(self._decoy_key, b"\x00" + name.encode(), self._mechanism.hash_name)
        return ScramCredential(salt, key, key, self._usual_iterations())


class ScramSaslClient:
    """The client's side. `nonce` must be new for each login. A server must prove that it knows the password.

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
        """Return the next message after the server's (empty at first). Raises SaslError for an untrusted server."""
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
            raise SaslError(f"the server requires {message.iterations} iterations")
        mechanism = self._mechanism
        salted_password = mechanism.salted_password(self._password, message.salt, message.iterations)
        without_proof = f"c={scram_messages.encode_base64(_GS2_HEADER)},r={message.nonce}"
        auth_message = f"{self._client_first_bare},{text},{without_proof}".encode()
        client_key = mechanism.client_key(salted_password)
        signature = mechanism.hmac(mechanism.hash(client_key), auth_message)
        self._server_signature = mechanism.hmac(mechanism.server_key(salted_password), auth_message)
        return f"{without_proof},p={scram_messages.encode_base64(xor(client_key, signature))}".encode()
