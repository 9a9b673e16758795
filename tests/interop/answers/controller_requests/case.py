"""The elements of a list of requests to a controller."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import encode, encode_request
from kraft_core.protocol.messages import DefaultPrincipalData, EnvelopeRequest
from kraft_core.protocol.wire import Message

BROKER_IDS = (101, 102, 103)
UNKNOWN_ID = UUID(int=0x1234_5678_9ABC_DEF0_1234_5678_9ABC_DEF0)
ZERO_ID = UUID(int=0)
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
BY_TOKEN = "by token"
"""The user who logs in with the newest delegation token."""
SET, DELETE, APPEND, SUBTRACT = range(4)
TIMEOUT_MS = 600_000
"""The timeout of requests that have one, long enough for a busy machine."""


def directory_of(broker_id: int, number: int = 0) -> UUID:
    """Return the id of a log directory of a broker, the same on both sides."""
    return UUID(int=0xD << 100 | broker_id << 8 | number + 1)


def incarnation_of(broker_id: int, life: int = 0) -> UUID:
    """Return an incarnation id of a broker, the same on both sides."""
    return UUID(int=0xB << 100 | broker_id << 8 | life + 1)


@dataclass
class Known:
    """What later requests need from earlier responses: ids, epochs, the newest delegation token."""

    cluster_id: str
    topic_ids: dict[str, UUID] = field(default_factory=dict)
    broker_epochs: dict[int, int] = field(default_factory=dict)
    token_id: str = ""
    hmac: bytes = b""

    def topic(self, name: str) -> UUID:
        """Return the id of a topic; an unused one for a topic that was never created."""
        return self.topic_ids.get(name, UNKNOWN_ID)

    def epoch(self, broker_id: int) -> int:
        """Return the epoch of a broker, -1 before it is registered."""
        return self.broker_epochs.get(broker_id, -1)


class Case(NamedTuple):
    """One request of the list. `user` sends it where users log in; `inside` is the case that an Envelope contains.

    While `not_yet` is true of a response, `meanwhile` is sent and then the request again.
    """

    name: str
    build: Callable[[Known], Message]
    version: int
    user: str = "admin"
    inside: "Case | None" = None
    not_yet: Callable[[Any], bool] | None = None
    meanwhile: "tuple[Case, ...]" = ()


def fixed(name: str, message: Message, version: int) -> Case:
    """Return a function to a request that does not depend on earlier responses."""
    return Case(name, lambda _: message, version)


def refused_as(code: ErrorCode) -> Callable[[Any], bool]:
    """Return a test whether a response has this error."""
    return lambda answer: getattr(answer, "error_code", ErrorCode.NONE) == code


def principal(name: str, *, by_token: bool = False) -> bytes:
    """Return a user in the form of an Envelope."""
    return struct.pack(">h", 0) + encode(DefaultPrincipalData(type="User", name=name, token_authenticated=by_token), 0)


def forwarded(case: Case, data: bytes, address: bytes = bytes((127, 0, 0, 1))) -> Case:
    """Return the same request as a broker forwards it for a user."""

    def build(known: Known) -> EnvelopeRequest:
        request = encode_request(case.build(known), case.version, 1, "same")[4:]
        return EnvelopeRequest(request_data=request, request_principal=data, client_host_address=address)

    return Case(f"forwarded: {case.name}", build, 0, inside=case)
