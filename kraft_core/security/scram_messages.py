"""Strict parsers of the four messages of a SCRAM login. Source: RFC 5802 section 7; ScramMessages, Kafka 4.3.1."""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

from kraft_core.security.sasl import SaslError

_VALUE_SAFE: Final = r"[\x01-\x2b\x2d-\x3c\x3e-\x7f\u0080-\U0010ffff]"
_VALUE: Final = r"[\x01-\x2b\x2d-\U0010ffff]"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_NAME: Final = rf"(?:{_VALUE_SAFE}|=2C|=3D)+"
_BASE64: Final = r"[A-Za-z0-9+/]*={0,2}"
_RESERVED: Final = rf"(?:m={_VALUE}+,)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE}+)*"

_CLIENT_FIRST: Final = (
    rf"n,(?:a=(?P<authzid>{_NAME}))?,(?P<bare>{_RESERVED}n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = (
    rf"{_RESERVED}r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = (
    rf"(?P<without_proof>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = rf"(?:e=(?P<error>{_VALUE_SAFE}+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}"
_MESSAGE_BYTES_MAX: Final = 16_384
TOKEN_AUTH: Final = "tokenauth=true"  # noqa: S105  # the name of an extension


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The client's first message. `bare` is the part that is signed; `name` is still escaped."""

    authorization_id: str
    bare: str
    name: str
    nonce: str
    is_token: bool


@dataclass(frozen=True, slots=True)
class ServerFirst:
    """The server's first message, from which the client computes its proof."""

    nonce: str
    salt: bytes
    iterations: int

    def __str__(self) -> str:
        """Return the text of the message."""
        return f"r={self.nonce},s={encode_base64(self.salt)},i={self.iterations}"


@dataclass(frozen=True, slots=True)
class ClientFinal:
    """The client's last message. `without_proof` is the part that is signed."""

    without_proof: str
    channel_binding: bytes
    nonce: str
    proof: bytes


def parse_client_first(token: bytes) -> ClientFirst:
    """Parse the client's first message. Raises SaslError, also if the client requires channel binding."""
    match = _match(_CLIENT_FIRST, token, "client-first-message")
    extensions = match["extensions"].split(",")
    return ClientFirst(match["authzid"] or "", match["bare"], match["name"], match["nonce"], TOKEN_AUTH in extensions)


def parse_server_first(token: bytes) -> tuple[str, ServerFirst]:
    """Parse the server's first message -> (its text, the message). Raises SaslError."""
    match = _match(_SERVER_FIRST, token, "server-first-message")
    return match[0], ServerFirst(match["nonce"], _decode_base64(match["salt"]), int(match["iterations"]))


def parse_client_final(token: bytes) -> ClientFinal:
    """Parse the client's last message. Raises SaslError."""
    match = _match(_CLIENT_FINAL, token, "client-final-message")
    return ClientFinal(
        match["without_proof"], _decode_base64(match["channel"]), match["nonce"], _decode_base64(match["proof"])
    )


def parse_server_final(token: bytes) -> bytes:
    """Parse the server's last message -> its signature. Raises SaslError, also if the server refused the login."""
    match = _match(_SERVER_FINAL, token, "server-final-message")
    if match["error"] is not None:
        raise SaslError("the server refused the login")
    return _decode_base64(match["signature"])


def encode_base64(data: bytes) -> str:
    """Encode bytes in Base64 as text."""
    return base64.b64encode(data).decode()


def _match(pattern: str, token: bytes, what: str) -> re.Match[str]:
    """Match a whole token; the error shows nothing of it. `re` caches the pattern, which takes 10 ms to compile."""
    if len(token) > _MESSAGE_BYTES_MAX:
        raise SaslError(f"the {what} is too long: {len(token)} bytes")
    try:
        match = re.fullmatch(pattern, token.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise SaslError(f"the {what} is malformed")
    return match


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise SaslError("not base64") from None
