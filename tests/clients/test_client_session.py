"""The client's session, without a socket: versions, login, renewal, order of answers, and the end."""

import struct
from typing import Final

import pytest

from kraft_core.clients.client_session import (
    Answered,
    ClientRequest,
    ClientSession,
    NotSent,
    Ready,
    UnexpectedAnswer,
    VersionsRefused,
)
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.connection import Connection
from kraft_core.protocol.errors import DecodeError, ErrorCode, InvalidFrame, UnsupportedVersion
from kraft_core.protocol.framing import decode_request_body, decode_request_header, encode_response
from kraft_core.protocol.messages import (
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    DescribeClusterRequest,
    DescribeClusterResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
    VoteRequest,
    VoteResponse,
)
from kraft_core.protocol.wire import Message
from kraft_core.security.listener_security import PLAINTEXT_CLIENT, ClientSecurity
from kraft_core.security.sasl_client_authenticator import LoginFailed

LOGIN: Final = ClientSecurity(mechanism="PLAIN", username="alice", password="secret")  # of no server
APIS: Final = {17: (0, 1), 18: (0, 4), 36: (0, 2), 52: (0, 2), 60: (0, 1)}
STEP_TIMEOUT_MS: Final = 2_000

Event = Ready | Answered[ClientRequest] | NotSent[ClientRequest]


class Node:
    """A session and the node at its other end; `sent` holds the node's view of what arrived."""

    def __init__(self, security: ClientSecurity = PLAINTEXT_CLIENT) -> None:
        self.session: ClientSession[ClientRequest] = ClientSession(
            "test", security, max_frame_bytes=10_000, step_timeout_ms=STEP_TIMEOUT_MS
        )
        self.frames = Connection()
        self.sent: list[tuple[int, int, int, Message]] = []  # api key, version, correlation id, body
        self.now_ms = 1_000

    def start(self) -> None:
        self.session.start(self.now_ms)
        self.collect()

    def collect(self) -> list[Event]:
        """All events up to now; what the session writes goes to `sent`."""
        events = []
        while (event := self.session.next_event(self.now_ms)) is not None:
            events.append(event)
        self.frames.receive_data(self.session.data_to_send())
        while (frame := self.frames.next_frame()) is not None:
            header, body = decode_request_header(frame)
            request = decode_request_body(header, frame, body)
            self.sent.append((header.api_key, header.api_version, header.correlation_id, request))
        return events

    def answer(self, answer: Message, version: int | None = None) -> list[Event]:
        """Answer the oldest request in `sent`, in its version or another."""
        key, sent_version, correlation_id, _ = self.sent.pop(0)
        frame = encode_response(answer, (key, sent_version if version is None else version), correlation_id)
        self.session.receive_data(frame)
        return self.collect()

    def send(self, message: Message, min_version: int = 0, max_version: int | None = None) -> ClientRequest:
        request = ClientRequest(message, min_version, max_version)
        self.session.send(request)
        return request


def versions(apis: dict[int, tuple[int, int]] = APIS, error_code: int = 0) -> ApiVersionsResponse:
    found = (
        ApiVersionsResponseApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in apis.items()
    )
    return ApiVersionsResponse(error_code=error_code, api_keys=tuple(found))


def negotiated() -> Node:
    node = Node()
    node.start()
    assert node.answer(versions()) == [Ready()]
    return node


def logged_in(lifetime_ms: int = 0) -> Node:
    node = Node(LOGIN)
    node.start()
    assert node.answer(versions()) == []
    assert node.answer(SaslHandshakeResponse(mechanisms=("PLAIN",))) == []
    assert node.answer(SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)) == [Ready()]
    return node


def keys(node: Node) -> list[int]:
    return [key for key, _, _, _ in node.sent]


def test_requests_are_held_until_the_versions_are_known() -> None:
    node = Node()
    request = node.send(VoteRequest())
    node.start()
    assert [(key, version) for key, version, _, _ in node.sent] == [(ApiKey.API_VERSIONS, 4)]
    assert node.session.pending == 1
    assert node.answer(versions()) == [Ready()]
    assert [(key, version) for key, version, _, _ in node.sent] == [(ApiKey.VOTE, 2)]
    assert node.answer(VoteResponse(error_code=104)) == [Answered(request, VoteResponse(error_code=104))]
    assert node.session.pending == 0


@pytest.mark.parametrize(("named", "asked"), [({18: (0, 2)}, 2), ({18: (0, 9)}, 3), ({}, 0)])
def test_api_versions_is_retried_in_a_version_of_an_older_node(named: dict[int, tuple[int, int]], asked: int) -> None:
    """KIP-511: the answer to an unknown version is in version 0, with error 35; it may name the node's versions."""
    node = Node()
    node.start()
    assert node.answer(versions(named, ErrorCode.UNSUPPORTED_VERSION), version=0) == []
    assert [version for _, version, _, _ in node.sent] == [asked]
    assert node.answer(versions()) == [Ready()]


def test_a_node_that_refuses_version_0_too_ends_the_session() -> None:
    node = Node()
    node.start()
    node.answer(versions({}, ErrorCode.UNSUPPORTED_VERSION), version=0)
    with pytest.raises(VersionsRefused):
        node.answer(versions({}, ErrorCode.UNSUPPORTED_VERSION), version=0)


def test_another_error_of_api_versions_ends_the_session() -> None:
    node = Node()
    node.start()
    with pytest.raises(VersionsRefused) as refused:
        node.answer(versions({}, ErrorCode.INVALID_REQUEST))
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_a_request_goes_out_in_the_highest_version_of_both_within_its_bounds() -> None:
    node = negotiated()
    node.send(VoteRequest(), max_version=1)
    too_new = node.send(DescribeClusterRequest(), min_version=2)
    unknown = node.send(SaslAuthenticateRequest(), max_version=-1)
    refused = node.collect()
    assert [(key, version) for key, version, _, _ in node.sent] == [(ApiKey.VOTE, 1)]
    assert [event.request for event in refused if isinstance(event, NotSent)] == [too_new, unknown]
    assert all(isinstance(event, NotSent) and isinstance(event.error, UnsupportedVersion) for event in refused)


def test_a_login_comes_before_the_first_request() -> None:
    node = Node(LOGIN)
    request = node.send(VoteRequest())
    node.start()
    node.answer(versions())
    assert [(key, version) for key, version, _, _ in node.sent] == [(ApiKey.SASL_HANDSHAKE, 1)]
    node.answer(SaslHandshakeResponse(mechanisms=("PLAIN",)))
    ((_, version, _, token),) = node.sent
    assert (version, token) == (2, SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"))
    assert not request.correlation_id >= 0
    assert node.answer(SaslAuthenticateResponse()) == [Ready()]
    assert keys(node) == [ApiKey.VOTE]


def test_a_wrong_password_ends_the_session_with_the_nodes_text() -> None:
    node = Node(LOGIN)
    request = node.send(VoteRequest())
    node.start()
    node.answer(versions())
    node.answer(SaslHandshakeResponse(mechanisms=("PLAIN",)))
    with pytest.raises(LoginFailed, match="Authentication failed: no such user"):
        node.answer(SaslAuthenticateResponse(error_code=58, error_message="Authentication failed: no such user"))
    assert node.session.close() == [request]


def test_a_mechanism_the_node_does_not_offer_ends_the_session() -> None:
    node = Node(LOGIN)
    node.start()
    node.answer(versions())
    with pytest.raises(LoginFailed, match="offers: SCRAM-SHA-256"):
        node.answer(SaslHandshakeResponse(error_code=33, mechanisms=("SCRAM-SHA-256",)))


def test_a_node_without_sasl_ends_a_session_that_must_log_in() -> None:
    node = Node(LOGIN)
    node.start()
    with pytest.raises(LoginFailed, match="SASL_HANDSHAKE"):
        node.answer(versions({18: (0, 4), 52: (0, 2)}))


def test_a_login_is_renewed_once_its_share_of_the_lifetime_has_passed() -> None:
    node = logged_in(lifetime_ms=10_000)
    node.now_ms += 8_499
    node.send(VoteRequest())
    node.collect()
    assert keys(node) == [ApiKey.VOTE]
    node.answer(VoteResponse())
    node.now_ms += 1
    assert node.collect() == []
    assert node.sent == [], "without a request nothing is renewed"
    request = node.send(VoteRequest())
    node.collect()
    assert keys(node) == [ApiKey.SASL_HANDSHAKE]
    node.answer(SaslHandshakeResponse(mechanisms=("PLAIN",)))
    assert node.answer(SaslAuthenticateResponse(session_lifetime_ms=10_000)) == [Ready()]
    assert keys(node) == [ApiKey.VOTE]
    assert node.answer(VoteResponse()) == [Answered(request, VoteResponse())]


def test_a_renewal_waits_for_the_requests_in_flight() -> None:
    node = logged_in(lifetime_ms=10_000)
    first = node.send(VoteRequest())
    node.collect()
    node.now_ms += 9_000
    node.send(DescribeClusterRequest())
    assert node.collect() == []
    assert keys(node) == [ApiKey.VOTE]
    assert node.answer(VoteResponse()) == [Answered(first, VoteResponse())]
    assert keys(node) == [ApiKey.SASL_HANDSHAKE]


def test_each_step_has_a_deadline_and_a_ready_session_has_none() -> None:
    node = Node(LOGIN)
    assert node.session.step_deadline_ms is None
    node.start()
    assert node.session.step_deadline_ms == 1_000 + STEP_TIMEOUT_MS
    node.now_ms = 1_500
    node.answer(versions())
    assert node.session.step_deadline_ms == 1_500 + STEP_TIMEOUT_MS
    node.answer(SaslHandshakeResponse(mechanisms=("PLAIN",)))
    node.answer(SaslAuthenticateResponse())
    assert (node.session.step, node.session.step_deadline_ms) == (None, None)


def test_an_answer_to_no_request_is_refused() -> None:
    node = negotiated()
    node.session.receive_data(encode_response(VoteResponse(), (ApiKey.VOTE, 2), 7))
    with pytest.raises(UnexpectedAnswer, match="7: no request is unanswered"):
        node.collect()


def test_an_answer_out_of_order_is_refused() -> None:
    node = negotiated()
    node.send(VoteRequest())
    node.send(VoteRequest())
    node.collect()
    second = node.sent[1][2]
    node.session.receive_data(encode_response(VoteResponse(), (ApiKey.VOTE, 2), second))
    with pytest.raises(UnexpectedAnswer, match=rf"{second}: {second - 1} is expected"):
        node.collect()


@pytest.mark.parametrize(
    ("garbage", "error"),
    [
        (struct.pack(">i", -5), InvalidFrame),
        (struct.pack(">i", 10_001), InvalidFrame),
        (struct.pack(">ih", 2, 7), DecodeError),
        (struct.pack(">iib", 5, 2, 127), DecodeError),
    ],
)
def test_garbage_is_refused_and_the_request_stays_pending(garbage: bytes, error: type[Exception]) -> None:
    node = negotiated()
    request = node.send(VoteRequest())
    node.collect()
    node.session.receive_data(garbage)
    with pytest.raises(error):
        node.collect()
    assert node.session.close() == [request]


def test_answers_before_garbage_are_delivered() -> None:
    node = negotiated()
    request = node.send(DescribeClusterRequest())
    node.collect()
    good = encode_response(DescribeClusterResponse(cluster_id="c"), (60, 1), node.sent[0][2])
    node.session.receive_data(good + struct.pack(">i", -5))
    assert node.session.next_event(0) == Answered(request, DescribeClusterResponse(cluster_id="c"))
    with pytest.raises(InvalidFrame):
        node.session.next_event(0)


def test_an_answer_may_arrive_one_byte_at_a_time() -> None:
    node = negotiated()
    request = node.send(DescribeClusterRequest())
    node.collect()
    events: list[Event] = []
    for byte in encode_response(DescribeClusterResponse(cluster_id="c"), (60, 1), node.sent[0][2]):
        assert events == []
        node.session.receive_data(bytes([byte]))
        events = node.collect()
    assert events == [Answered(request, DescribeClusterResponse(cluster_id="c"))]


def test_closing_returns_the_requests_in_flight_and_then_those_never_sent() -> None:
    node = logged_in(lifetime_ms=10_000)
    in_flight = [node.send(VoteRequest()), node.send(DescribeClusterRequest())]
    node.collect()
    node.now_ms += 9_000
    held = node.send(VoteRequest())
    node.collect()
    assert node.session.close() == [*in_flight, held]
    assert (node.session.pending, node.session.next_event(0), node.session.data_to_send()) == (0, None, b"")


def test_a_withdrawn_request_costs_the_connection_only_if_it_was_sent() -> None:
    node = Node()
    held = node.send(VoteRequest())
    assert not node.session.withdraw(held)
    node.start()
    assert node.answer(versions()) == [Ready()]
    assert node.sent == []
    sent = node.send(VoteRequest())
    node.collect()
    assert node.session.withdraw(sent)
    assert node.session.close() == []
