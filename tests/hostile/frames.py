"""Malformed and unusual requests for a controller's listener.

`outcome` describes the reaction of a node, in words that are equal for two quorums: it closes, stays silent or answers.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from kraft_core.protocol.api_keys import APIS, ApiKey, request_class
from kraft_core.protocol.codec import decode, encode
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    CreateDelegationTokenRequest,
    CreateTopicsRequest,
    DescribeClusterRequest,
    EnvelopeRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kraft_core.protocol.wire import Message
from tests.hostile.twins import View, send
from tests.interop.kafka import PATIENCE_S
from tests.protocol.golden import Vector, vectors

TIME_ENOUGH_MS = 60_000
PRINCIPAL = struct.pack(">h", 0) + b"\x05User\x0aANONYMOUS\x00\x00"


def header(api_key: int, version: int, *, flexible: bool = True) -> bytes:
    """Return a request header with correlation id 7 and client id x."""
    return struct.pack(">hhih", api_key, version, 7, 1) + b"x" + (b"\x00" if flexible else b"")


def frame(body: bytes) -> bytes:
    """Return the body after its size."""
    return struct.pack(">i", len(body)) + body


@dataclass(frozen=True)
class Sent:
    """Bytes for the `role`. `api_key` and `version` define how an answer is read."""

    name: str
    data: bytes
    api_key: int = int(ApiKey.API_VERSIONS)
    version: int = 0
    role: str = "leader"

    @property
    def label(self) -> str:
        """Return the name of the case."""
        return f"{self.name} to the {self.role}"


def request(name: str, message: Message, version: int, role: str = "leader") -> Sent:
    """Return a complete request."""
    return Sent(name, encode_request(message, version, 7, "x"), message.API_KEY, version, role)


async def outcome(sent: Sent, view: View, timeout_s: float = PATIENCE_S) -> Any:
    """Send the bytes to this quorum. Return the outcome."""
    found = await send(view.port(sent.role), sent.data, timeout_s)
    if isinstance(found, str):
        return found
    version = sent.version
    if sent.api_key == ApiKey.API_VERSIONS and found[4:6] == b"\x00\x23":
        version = 0
    return view.said(decode_response(sent.api_key, version, found)[1])


NO_REQUESTS = [
    Sent("size -1", struct.pack(">i", -1)),
    Sent("size int32 min", struct.pack(">i", -(2**31))),
    Sent("size int32 max", struct.pack(">i", 2**31 - 1)),
    Sent("size over the limit", struct.pack(">i", 104_857_601)),
    Sent("empty frame", struct.pack(">i", 0)),
    Sent("http", b"GET /metrics HTTP/1.1\r\nHost: controller\r\n\r\n"),
    Sent("tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)),
    *(Sent(f"header cut at {end}", frame(header(19, 7)[:end])) for end in range(1, 12)),
    Sent("client id of negative length", frame(struct.pack(">hhih", 19, 7, 7, -2) + bytes(20))),
    Sent("client id longer than the frame", frame(struct.pack(">hhih", 19, 7, 7, 30_000) + bytes(20))),
    Sent("unknown api", frame(header(9999, 0))),
    Sent("negative api", frame(header(-1, 0))),
    *(Sent(f"api {key} of a broker", frame(header(key, 9) + bytes(40))) for key in (0, 2, 3, 8, 10, 11, 22, 68, 75)),
    Sent("vote of a version to come", frame(header(52, 3) + bytes(20))),
    Sent("fetch of a version long gone", frame(header(1, 3, flexible=False) + bytes(40))),
    Sent("create topics of version -1", frame(header(19, -1) + bytes(40))),
    Sent("absurd array", frame(header(19, 7) + b"\xff\xff\xff\xff\x0f")),
    Sent("array of 2^28", frame(header(19, 7) + b"\x80\x80\x80\x80\x01")),
    Sent("array of 2^31 - 1 in an old version", frame(header(19, 2, flexible=False) + struct.pack(">i", 2**31 - 1))),
    Sent("array of -2 in an old version", frame(header(19, 2, flexible=False) + struct.pack(">i", -2))),
    Sent("null array in an old version", frame(header(19, 2, flexible=False) + struct.pack(">i", -1))),
    Sent("null array", frame(header(19, 7) + b"\x00")),
    Sent("absurd string", frame(header(19, 7) + b"\x02\xff\xff\xff\xff\x0f")),
    Sent("string of 32,768 bytes", frame(header(19, 7) + b"\x02\x81\x80\x02" + bytes(32_768) + bytes(20))),
    Sent("null name", frame(header(19, 7) + b"\x02\x00" + bytes(30))),
    Sent("varint of six bytes", frame(header(19, 7) + b"\xff\xff\xff\xff\xff\x01")),
    Sent("tags without end", frame(header(19, 7)[:-1] + b"\xff\xff\xff\xff\x0f" + bytes(10))),
    Sent("bytes of -2 in an envelope", frame(header(58, 0) + b"\xff\xff\xff\xff\x0f")),
]
"""Cases that close the connection."""


def cut_requests() -> Iterator[Sent]:
    """Yield the newest version of every API, truncated after every byte of its body."""
    newest: dict[str, Vector] = {}
    for each in vectors():
        if each.name not in newest or each.version > newest[each.name].version:
            newest[each.name] = each
    for key, api in sorted(APIS.items()):
        example = newest.get(request_class(key).__name__)
        if "controller" in api.listeners and example is not None:
            start = header(key, example.version, flexible=example.version >= api.flexible_version)
            for end in range(len(example.data)):
                yield Sent(f"{key.name} cut at {end}", frame(start + example.data[:end]), int(key), example.version)


def whole_requests(left_out: set[ApiKey]) -> Iterator[Sent]:
    """Yield a request of every API and version with random values.

    Timeouts are not random: with 1 ms the outcome would depend on chance.
    """
    names = {request_class(key).__name__: key for key, api in APIS.items() if "controller" in api.listeners}
    for each in vectors():
        key = names.get(each.name)
        if key is not None and key not in left_out:
            start = header(key, each.version, flexible=each.version >= APIS[key].flexible_version)
            message, body = decode(request_class(key), each.version, each.data), each.data
            if getattr(message, "timeout_ms", 0) > 0:
                body = encode(structs.replace(message, timeout_ms=TIME_ENOUGH_MS), each.version)
            for role in ("leader", "follower"):
                label = f"{key.name} v{each.version} without sense"
                yield Sent(label, frame(start + body), int(key), each.version, role)


def software(name: str, version: str) -> Sent:
    """Return an ApiVersions request with this client software name."""
    body = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    return request(f"software {name!r} {version!r}", body, 3)


def topic_named(name: bytes) -> Sent:
    """Return a CreateTopics request for one topic whose name is raw bytes."""
    topic = bytes([len(name) + 1]) + name + struct.pack(">ih", 1, 1) + b"\x01\x01\x00"
    body = b"\x02" + topic + struct.pack(">i", TIME_ENOUGH_MS) + b"\x00\x00"
    return Sent(f"topic {name!r}", frame(header(19, 7) + body), 19, 7)


def envelope(name: str, data: bytes, principal: bytes | None = PRINCIPAL, address: bytes = bytes(4)) -> Sent:
    """Return an Envelope request with `data`."""
    body = EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=address)
    return request(f"envelope {name}", body, 0)


INNER = encode_request(DescribeClusterRequest(), 1, 3, "inner")[4:]
INNER_TOPICS = encode_request(CreateTopicsRequest(timeout_ms=100), 7, 3, "inner")[4:]
UNUSUAL = [
    *(Sent(f"ApiVersions v{each}", frame(header(18, each) + b"\x00")) for each in (5, 99, 32767, -1)),
    Sent("ApiVersions v4 with bytes behind", frame(header(18, 4) + b"\x02a\x021\x00" + b"tail"), 18, 4),
    Sent("ApiVersions v3 without a body", frame(header(18, 3)), 18, 3),
    *(
        software(each, "1.0")
        for each in ("", "has space", "<script>", "line\nbreak", "-dash", "dash-", "ä", "a.b-c", "x" * 200)
    ),
    *(software("good", each) for each in ("", "1 0", "1.0\n", "../1", "v1")),
    *(
        topic_named(each)
        for each in (
            b"\xff\xfe",
            b"\xc3\x28",
            b"",
            b".",
            b"..",
            b"a b",
            b"a" * 120,
            b"__cluster_metadata",
            b"\x00",
            b"ok/no",
        )
    ),
    Sent(
        "unknown tags in header and body",
        frame(header(18, 3)[:-1] + b"\x01\x63\x02ab" + b"\x02a\x021\x01\x64\x01c"),
        18,
        3,
    ),
    Sent(
        "create topics with an unknown tag",
        frame(header(19, 7) + b"\x01" + struct.pack(">i", TIME_ENOUGH_MS) + b"\x00\x01\x63\x02ab"),
        19,
        7,
    ),
    request("handshake", SaslHandshakeRequest(mechanism="PLAIN"), 1),
    request("handshake of an unknown mechanism", SaslHandshakeRequest(mechanism="\x00" * 9), 0),
    request("authenticate", SaslAuthenticateRequest(auth_bytes=b"\x00user\x00password"), 2),
    request("a token", CreateDelegationTokenRequest(max_lifetime_ms=-1), 3),
    request("the end of a token", ExpireDelegationTokenRequest(hmac=b"\x01" * 20, expiry_time_period_ms=-1), 2),
    request("renewal of a token", RenewDelegationTokenRequest(hmac=b"\x01" * 20), 2),
    envelope("with a cut request", INNER[:9]),
    envelope("with nothing", b""),
    envelope("with what may not be forwarded", INNER),
    envelope("with an unknown api", frame(header(999, 0))[4:]),
    envelope("with an envelope", encode_request(EnvelopeRequest(request_data=b""), 0, 3, "x")[4:]),
    envelope("without a principal", INNER_TOPICS, None),
    envelope("of an unreadable principal", INNER_TOPICS, b"\x00\x00\x05Us"),
    envelope("of a principal of another version", INNER_TOPICS, b"\x00\x09"),
    envelope("from an address of one byte", INNER_TOPICS, PRINCIPAL, b"\x7f"),
    envelope("from an address of five bytes", INNER_TOPICS, PRINCIPAL, bytes(5)),
]
"""Cases that are answered."""
