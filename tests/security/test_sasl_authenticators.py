"""Kafka's login, both sides: the order of requests, refusals and the expiry of logins."""

import pytest

from kraft_core.image.scram_mechanism import SCRAM_SHA_512
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import RequestHeader, decode_request_header, decode_response, encode_request
from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kraft_core.protocol.metadata_version import FEATURES
from kraft_core.protocol.software import api_versions_request
from kraft_core.protocol.wire import Message
from kraft_core.security.plain import PlainSaslClient, PlainSaslServer
from kraft_core.security.sasl_client_authenticator import LoginFailed, SaslClientAuthenticator
from kraft_core.security.sasl_server_authenticator import SaslMechanism, SaslServerAuthenticator, Step
from kraft_core.security.scram import ScramSaslClient, ScramSaslServer
from kraft_core.server.api_versions import ApiVersionsAnswers, controller_versions

USERS = {"alice": "secret", "bob": "hunter2"}
SCRAM_USERS = {
    name: SCRAM_SHA_512.credential(b"salt", SCRAM_SHA_512.salted_password(password, b"salt", 4096), 4096)
    for name, password in USERS.items()
}
VERSIONS = controller_versions()


def server(max_reauth_ms: int = 0) -> SaslServerAuthenticator:
    answers = ApiVersionsAnswers(VERSIONS, FEATURES, lambda: (-1, {}))

    def api_versions(header: RequestHeader, request: ApiVersionsRequest | None) -> bytes:
        return answers.unsupported(header) if request is None else answers.answer(header, request)

    def scram() -> ScramSaslServer:
        return ScramSaslServer(SCRAM_SHA_512, SCRAM_USERS.get, "nonce", b"decoy")

    return SaslServerAuthenticator(
        {
            "PLAIN": SaslMechanism(lambda: PlainSaslServer(USERS), max_reauth_ms),
            "SCRAM-SHA-512": SaslMechanism(scram, max_reauth_ms),
        },
        api_versions,
    )


def frame(message: Message, version: int | None = None) -> bytes:
    return encode_request(message, message.VERSIONS[1] if version is None else version, 7, "test")[4:]


def ask(authenticator: SaslServerAuthenticator, message: Message, version: int | None = None, now_ms: int = 0) -> Step:
    return authenticator.receive(frame(message, version), now_ms)


def answer_of(step: Step, message: Message, version: int | None = None) -> Message:
    correlation_id, answer = decode_response(
        message.API_KEY, message.VERSIONS[1] if version is None else version, step.answer[4:]
    )
    assert correlation_id == 7
    return answer


def plain(name: str = "alice", password: str = "secret") -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=f"\x00{name}\x00{password}".encode())


def logged_in(max_reauth_ms: int = 0, now_ms: int = 0) -> SaslServerAuthenticator:
    authenticator = server(max_reauth_ms)
    ask(authenticator, SaslHandshakeRequest(mechanism="PLAIN"), now_ms=now_ms)
    ask(authenticator, plain(), now_ms=now_ms)
    assert authenticator.is_complete
    return authenticator


def test_api_versions_handshake_and_token_complete_a_login() -> None:
    authenticator = server()
    step = ask(authenticator, api_versions_request())
    versions = answer_of(step, api_versions_request())
    assert isinstance(versions, ApiVersionsResponse)
    assert {api.api_key for api in versions.api_keys} >= {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
    handshake = SaslHandshakeRequest(mechanism="PLAIN")
    assert answer_of(ask(authenticator, handshake), handshake) == SaslHandshakeResponse(
        mechanisms=("PLAIN", "SCRAM-SHA-512")
    )
    assert not authenticator.is_complete
    step = ask(authenticator, plain())
    assert answer_of(step, plain()) == SaslAuthenticateResponse(error_message=None)
    assert (step.principal, step.failure, authenticator.is_complete) == ("User:alice", None, True)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("handshake_version", [0, 1])
def test_both_sides_agree(mechanism: str, handshake_version: int) -> None:
    authenticator = server()
    client = (
        PlainSaslClient("bob", "hunter2")
        if mechanism == "PLAIN"
        else ScramSaslClient(SCRAM_SHA_512, "bob", "hunter2", "client")
    )
    assert ask(authenticator, SaslHandshakeRequest(mechanism=mechanism), handshake_version).failure is None
    challenge, step = b"", Step()
    while not authenticator.is_complete:
        token = client.evaluate_challenge(challenge)
        if handshake_version == 0:
            step = authenticator.receive(token, 0)
            challenge = step.answer[4:]
        else:
            request = SaslAuthenticateRequest(auth_bytes=token)
            step = ask(authenticator, request)
            answer = answer_of(step, request)
            assert isinstance(answer, SaslAuthenticateResponse)
            challenge = answer.auth_bytes
        assert step.failure is None
    assert client.evaluate_challenge(challenge) == b""
    assert client.is_complete
    assert step.principal == "User:bob"


@pytest.mark.parametrize("before", [[], [api_versions_request()]])
@pytest.mark.parametrize("key", sorted(set(VERSIONS) - {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}))
def test_other_requests_before_the_handshake_are_refused_unread(before: list[Message], key: int) -> None:
    """Only the header is read: the body of these frames is garbage."""
    authenticator = server()
    for message in before:
        ask(authenticator, message)
    header = encode_request(api_versions_request(), 0, 7, "test")[4:]
    step = authenticator.receive(
        key.to_bytes(2) + VERSIONS[key][1].to_bytes(2) + header[4:] + b"\x00\xff\xff\xff\xff", 0
    )
    assert step.failure is not None
    assert (step.answer, step.is_delayed) == (b"", False)
    assert ask(authenticator, SaslHandshakeRequest(mechanism="PLAIN")).answer == b"", "no request is served after it"


def test_a_second_api_versions_request_closes_the_connection() -> None:
    authenticator = server()
    ask(authenticator, api_versions_request())
    assert ask(authenticator, api_versions_request()).failure is not None


def test_an_unknown_version_of_api_versions_is_answered_and_may_be_retried() -> None:
    authenticator = server()
    strange = frame(api_versions_request())
    step = authenticator.receive(strange[:2] + (99).to_bytes(2) + strange[4:], 0)
    answer = answer_of(step, api_versions_request(), 0)
    assert isinstance(answer, ApiVersionsResponse)
    assert (answer.error_code, step.failure) == (ErrorCode.UNSUPPORTED_VERSION, None)
    assert ask(authenticator, api_versions_request()).failure is None


def test_an_unknown_mechanism_is_answered_with_the_list_and_closed_after_the_delay() -> None:
    handshake = SaslHandshakeRequest(mechanism="GSSAPI")
    step = ask(server(), handshake)
    answer = answer_of(step, handshake)
    assert answer == SaslHandshakeResponse(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=("PLAIN", "SCRAM-SHA-512")
    )
    assert step.is_delayed
    assert step.failure is not None


@pytest.mark.parametrize(
    "message", [api_versions_request(), MetadataRequest(), FetchRequest()], ids=lambda m: type(m).__name__
)
def test_another_request_between_tokens_is_an_illegal_state(message: Message) -> None:
    authenticator = server()
    ask(authenticator, SaslHandshakeRequest(mechanism="PLAIN"))
    version = message.VERSIONS[1]
    step = ask(authenticator, message, version)
    assert step.failure is not None
    assert step.is_delayed
    assert not authenticator.is_complete
    if isinstance(message, ApiVersionsRequest):
        answer = answer_of(step, message)
        assert isinstance(answer, ApiVersionsResponse)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_all_failed_logins_have_the_same_answer() -> None:
    answers = set()
    for token in (plain(password="wrong"), plain(name="nobody"), SaslAuthenticateRequest(auth_bytes=b"garbage")):
        authenticator = server()
        ask(authenticator, SaslHandshakeRequest(mechanism="PLAIN"))
        step = ask(authenticator, token)
        answer = answer_of(step, token)
        assert isinstance(answer, SaslAuthenticateResponse)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert step.is_delayed
        assert not authenticator.is_complete
        assert ask(authenticator, plain()).principal is None, "no second attempt on the same connection"
        answers.add(step.answer)
    assert len(answers) == 1


def test_garbage_during_a_login_closes_the_connection_at_once() -> None:
    step = server().receive(b"GET / HTTP/1.1\r\n\r\n", 0)
    assert (step.answer, step.is_delayed) == (b"", False)
    assert step.failure is not None


def test_a_login_that_does_not_expire_cannot_be_renewed() -> None:
    """The handshake is an ordinary request, which ControllerApis answers with ILLEGAL_SASL_STATE, as Kafka."""
    authenticator = logged_in()
    assert not authenticator.is_due(frame(SaslHandshakeRequest(mechanism="PLAIN")), 10_000)
    assert not authenticator.is_expired(2**40)


def test_a_login_expires_and_can_be_renewed() -> None:
    authenticator = server(max_reauth_ms=5_000)
    ask(authenticator, SaslHandshakeRequest(mechanism="PLAIN"), now_ms=100)
    step = ask(authenticator, plain(), now_ms=100)
    answer = answer_of(step, plain())
    assert isinstance(answer, SaslAuthenticateResponse)
    assert answer.session_lifetime_ms == 5_000
    assert not authenticator.is_expired(5_100)
    assert authenticator.is_expired(5_101)
    assert not authenticator.is_due(frame(FetchRequest()), 4_000)

    handshake = frame(SaslHandshakeRequest(mechanism="PLAIN"))
    assert authenticator.is_due(handshake, 4_000)
    assert authenticator.receive(handshake, 4_000).failure is None
    assert authenticator.is_due(frame(plain()), 4_000)
    assert ask(authenticator, plain(), now_ms=4_001).principal == "User:alice"
    assert not authenticator.is_expired(9_001)
    assert not authenticator.is_due(handshake, 4_900), "at most once a second"
    assert authenticator.is_due(handshake, 5_001)


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [("PLAIN", plain("bob", "hunter2")), ("PLAIN", plain("alice", "x")), ("SCRAM-SHA-512", plain())],
)
def test_a_renewed_login_must_have_the_same_user_and_mechanism(mechanism: str, token: SaslAuthenticateRequest) -> None:
    authenticator = logged_in(max_reauth_ms=5_000)
    handshake = frame(SaslHandshakeRequest(mechanism=mechanism))
    assert authenticator.is_due(handshake, 2_000)
    steps = [authenticator.receive(handshake, 2_000), ask(authenticator, token, now_ms=2_000)]
    assert any(step.failure is not None and step.is_delayed for step in steps)
    assert not authenticator.is_complete


def test_api_versions_is_refused_during_a_renewal() -> None:
    authenticator = logged_in(max_reauth_ms=5_000)
    authenticator.is_due(frame(SaslHandshakeRequest(mechanism="PLAIN")), 2_000)
    assert ask(authenticator, api_versions_request(), now_ms=2_000).failure is not None


def converse(authenticator: SaslServerAuthenticator, login: SaslClientAuthenticator) -> None:
    request: Message | None = login.first_request()
    while request is not None:
        version = login.version_of(request)
        sent = encode_request(request, version, 7, "client")[4:]
        decode_request_header(sent)
        step = authenticator.receive(sent, 0)
        request = login.received(answer_of(step, request, version))


@pytest.mark.parametrize("highest", [0, 1, 2])
def test_the_client_logs_in_with_all_versions_of_the_requests(highest: int) -> None:
    authenticator = server(max_reauth_ms=9_000)
    login = SaslClientAuthenticator(
        "SCRAM-SHA-512",
        ScramSaslClient(SCRAM_SHA_512, "alice", "secret", "client"),
        {**VERSIONS, ApiKey.SASL_AUTHENTICATE: (0, highest)},
    )
    converse(authenticator, login)
    assert authenticator.is_complete
    assert login.session_lifetime_ms == (9_000 if highest else 0)


def test_a_refused_login_raises_the_servers_text() -> None:
    with pytest.raises(LoginFailed, match="invalid credentials with SASL mechanism PLAIN"):
        converse(server(), SaslClientAuthenticator("PLAIN", PlainSaslClient("alice", "wrong"), VERSIONS))
    with pytest.raises(LoginFailed, match="offers: PLAIN, SCRAM-SHA-512"):
        converse(server(), SaslClientAuthenticator("SCRAM-SHA-256", PlainSaslClient("alice", "secret"), VERSIONS))


def test_the_client_refuses_a_listener_without_sasl() -> None:
    login = SaslClientAuthenticator("PLAIN", PlainSaslClient("alice", "secret"), {18: (0, 4)})
    with pytest.raises(LoginFailed, match="SASL_HANDSHAKE"):
        login.version_of(login.first_request())


def test_a_client_refuses_success_before_the_servers_proof() -> None:
    """A server without a valid signature has not proved that it knows the password."""
    login = SaslClientAuthenticator(
        "SCRAM-SHA-512", ScramSaslClient(SCRAM_SHA_512, "alice", "secret", "client"), VERSIONS
    )
    login.received(SaslHandshakeResponse(mechanisms=("SCRAM-SHA-512",)))
    with pytest.raises(LoginFailed):
        login.received(SaslAuthenticateResponse(auth_bytes=b""))
