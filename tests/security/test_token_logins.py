"""Logins with delegation tokens: their principal, their lifetime, and their refusal."""

import base64
from typing import Any

import pytest

from kraft_core.controller.access.delegation_token_control_manager import token_hmac
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.scram_mechanism import SCRAM_MECHANISMS, SCRAM_SHA_256, SCRAM_SHA_512, ScramMechanism
from kraft_core.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from kraft_core.protocol.metadata_records import DelegationTokenRecord
from kraft_core.security.listener_security import SecurityConfigError, client_security, server_security
from kraft_core.security.sasl import SaslError
from kraft_core.security.sasl_server_authenticator import SaslMechanism, SaslServerAuthenticator, Step
from kraft_core.security.scram import ScramSaslClient, ScramSaslServer, TokenLogin, TokenOf
from kraft_core.server.clock import Clock
from kraft_core.server.network.listener_logins import token_finder
from tests.security.secure_listener import SCRAM_MODULE
from tests.security.test_sasl import credential, failure_of, log_in
from tests.security.test_sasl_authenticators import ask, frame
from tests.security.test_sasl_authenticators import server as two_mechanisms

TOKEN_ID = "xyz"
SHOWN = "what-the-holder-shows"


def tokens(token_id: str) -> TokenLogin | None:
    return TokenLogin("alice", SHOWN, 5_000) if token_id == TOKEN_ID else None


def server(mechanism: ScramMechanism = SCRAM_SHA_256, token_of: TokenOf = tokens) -> ScramSaslServer:
    users = {"bob": credential(mechanism), TOKEN_ID: credential(mechanism, "a user with a token's name")}
    return ScramSaslServer(mechanism, users.get, "server", b"decoy", token_of)


def client(name: str, password: str, mechanism: ScramMechanism = SCRAM_SHA_256) -> ScramSaslClient:
    return ScramSaslClient(mechanism, name, password, "client", is_token=True)


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=lambda each: each.name)
def test_a_token_logs_in_as_its_owner(mechanism: ScramMechanism) -> None:
    own = server(mechanism)
    log_in(client(TOKEN_ID, SHOWN, mechanism), own)
    assert (own.authorization_id, own.token_lifetime_ms) == ("alice", 5_000)


def test_a_login_without_a_token_has_no_token_lifetime() -> None:
    own = server()
    log_in(ScramSaslClient(SCRAM_SHA_256, "bob", "pencil", "client"), own)
    assert (own.authorization_id, own.token_lifetime_ms) == ("bob", None)


def test_a_wrong_hmac_an_unknown_token_and_a_node_without_tokens_fail_at_the_same_message() -> None:
    outcomes = {
        failure_of(client(TOKEN_ID, "wrong"), server()),
        failure_of(client("abc", SHOWN), server()),
        failure_of(client(TOKEN_ID, SHOWN), ScramSaslServer(SCRAM_SHA_256, {}.get, "server", b"decoy")),
    }
    assert len(outcomes) == 1
    assert outcomes.pop()[0] == 2


def test_a_user_and_a_token_may_have_the_same_name() -> None:
    assert failure_of(client("bob", "pencil"), server())[0] == 2, "a user cannot log in by token"
    as_user = ScramSaslClient(SCRAM_SHA_256, TOKEN_ID, SHOWN, "client")
    assert failure_of(as_user, server())[0] == 2, "a token cannot log in as a user"


def test_the_salt_does_not_reveal_whether_a_token_exists() -> None:
    first = client(TOKEN_ID, SHOWN).evaluate_challenge(b"")
    known, unknown = server(), server(token_of=lambda _: None)
    assert known.evaluate_response(first) == unknown.evaluate_response(first)


def image_with(**fields: Any) -> MetadataImage:
    record = DelegationTokenRecord(
        **{"owner": "User:alice", "requester": "User:admin", "token_id": TOKEN_ID, "max_timestamp": 90_000} | fields
    )
    return replay_all(MetadataImage.EMPTY, [record], 0, 1)


def test_a_token_is_valid_until_it_expires() -> None:
    now_s = 0.0
    image = image_with(expiration_timestamp=60_000)
    find = token_finder(lambda: image, "key", Clock(lambda: now_s, lambda: now_s))
    shown = base64.b64encode(token_hmac("key", TOKEN_ID)).decode()
    assert find(TOKEN_ID) == TokenLogin("alice", shown, 60_000)
    assert find("abc") is None
    now_s = 59.999
    assert find(TOKEN_ID) == TokenLogin("alice", shown, 1)
    now_s = 60.0
    assert find(TOKEN_ID) is None
    now_s = 59.0
    image = image_with(expiration_timestamp=60_000, max_timestamp=59_500)
    late = token_finder(lambda: image, "key", Clock(lambda: now_s, lambda: now_s))(TOKEN_ID)
    assert late is not None
    assert late.lifetime_ms == 500


def test_without_a_key_no_token_is_valid() -> None:
    image = image_with(expiration_timestamp=60_000)
    assert token_finder(lambda: image, None, Clock(lambda: 0.0, lambda: 0.0))(TOKEN_ID) is None


def session(max_reauth_ms: int) -> tuple[SaslServerAuthenticator, Step]:
    """Log in with a token -> (the authenticator, the last step)."""
    mechanism = SaslMechanism(server, max_reauth_ms)
    authenticator = SaslServerAuthenticator({"SCRAM-SHA-256": mechanism}, lambda _header, _request: b"")
    ask(authenticator, SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
    own = client(TOKEN_ID, SHOWN)
    said = own.evaluate_challenge(b"")
    for _ in range(2):
        step = ask(authenticator, SaslAuthenticateRequest(auth_bytes=said))
        if not authenticator.is_complete:
            assert not step.is_token, "not before the login is complete"
            said = own.evaluate_challenge(step.answer[step.answer.index(b"r=") : step.answer.index(b"i=4096") + 6])
    return authenticator, step


@pytest.mark.parametrize(("max_reauth_ms", "lasts_ms"), [(0, 5_000), (60_000, 5_000), (1_000, 1_000)])
def test_a_login_expires_with_its_token(max_reauth_ms: int, lasts_ms: int) -> None:
    authenticator, last = session(max_reauth_ms)
    assert (last.principal, last.is_token) == ("User:alice", True)
    assert not authenticator.is_expired(lasts_ms)
    assert authenticator.is_expired(lasts_ms + 1)


def test_a_login_with_a_password_is_not_by_token() -> None:
    authenticator = two_mechanisms()
    ask(authenticator, SaslHandshakeRequest(mechanism="PLAIN"))
    step = authenticator.receive(frame(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret")), 0)
    assert (step.principal, step.is_token) == ("User:alice", False)


def test_clients_log_in_by_token_with_kafkas_tokenauth_option() -> None:
    def read(option: str) -> Any:
        jaas = f'{SCRAM_MODULE} required username="{TOKEN_ID}" password="{SHOWN}"{option};'
        properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
        return client_security({**properties, "sasl.jaas.config": jaas})

    assert read(' tokenauth="true"').is_token
    assert not read("").is_token
    assert not read(' tokenauth="false"').is_token
    login = read(' tokenauth="true"').new_login({17: (0, 1), 36: (0, 2)})
    assert login is not None
    assert "tokenauth" not in repr(read(""))


def test_a_listener_accepts_tokens_with_each_scram_mechanism() -> None:
    listener = server_security(
        {"sasl.enabled.mechanisms": "SCRAM-SHA-512", "scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;"},
        "CONTROLLER",
        "SASL_PLAINTEXT",
    )
    own = listener.mechanisms(lambda _mechanism, _name: None, tokens)["SCRAM-SHA-512"].new_server()
    log_in(client(TOKEN_ID, SHOWN, SCRAM_SHA_512), own)
    assert own.authorization_id == "alice"
    refused = listener.mechanisms(lambda _mechanism, _name: None)["SCRAM-SHA-512"].new_server()
    with pytest.raises(SaslError):
        log_in(client(TOKEN_ID, SHOWN, SCRAM_SHA_512), refused)


def test_a_token_without_a_password_is_an_invalid_setting() -> None:
    jaas = f'{SCRAM_MODULE} required username="{TOKEN_ID}" tokenauth="true";'
    with pytest.raises(SecurityConfigError, match="no username and password"):
        client_security(
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas}
        )
