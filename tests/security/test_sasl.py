"""SASL mechanisms: the examples of the RFCs, failed logins of each kind, and what failures reveal."""

import base64
import secrets
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_core.image.metadata_image import ScramCredential
from kraft_core.image.scram_mechanism import (
    MIN_ITERATIONS,
    SALT_BITS,
    SCRAM_MECHANISMS,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramMechanism,
    salt_of,
)
from kraft_core.security.plain import PlainSaslClient, PlainSaslServer
from kraft_core.security.sasl import SaslClient, SaslError, SaslServer
from kraft_core.security.scram import ScramSaslClient, ScramSaslServer
from kraft_core.security.scram_formatter import sasl_name, username_of

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def credential(mechanism: ScramMechanism, password: str = "pencil", iterations: int = 4096) -> ScramCredential:
    return mechanism.credential(SALT, mechanism.salted_password(password, SALT, iterations), iterations)


def scram_server(
    mechanism: ScramMechanism, users: dict[str, ScramCredential], nonce: str = "server"
) -> ScramSaslServer:
    return ScramSaslServer(mechanism, users.get, nonce, b"decoy")


def log_in(client: SaslClient, server: SaslServer) -> None:
    token = client.evaluate_challenge(b"")
    while not server.is_complete or not client.is_complete:
        challenge = server.evaluate_response(token)
        token = b"" if client.is_complete else client.evaluate_challenge(challenge)


def test_scram_sha_256_is_the_exchange_of_rfc_7677() -> None:
    server = scram_server(SCRAM_SHA_256, {"user": credential(SCRAM_SHA_256)}, SERVER_NONCE)
    client = ScramSaslClient(SCRAM_SHA_256, "user", "pencil", CLIENT_NONCE)

    first = client.evaluate_challenge(b"")
    assert first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = server.evaluate_response(first)
    assert challenge == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = client.evaluate_challenge(challenge)
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert server.evaluate_response(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert client.evaluate_challenge(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") == b""
    assert (client.is_complete, server.is_complete, server.authorization_id) == (True, True, "user")


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=lambda each: each.name)
@given(name=st.text(min_size=1, alphabet=st.characters(exclude_characters="\x00", codec="utf-8")))
def test_any_name_can_log_in_with_its_password(mechanism: ScramMechanism, name: str) -> None:
    client = ScramSaslClient(mechanism, name, "pencil", "client")
    server = scram_server(mechanism, {name: credential(mechanism)})
    log_in(client, server)
    assert server.authorization_id == name


@given(st.text())
def test_the_escaping_of_names_is_undone(name: str) -> None:
    assert username_of(sasl_name(name)) == name


def test_a_name_with_an_unknown_escape_is_refused() -> None:
    server = scram_server(SCRAM_SHA_512, {})
    with pytest.raises(SaslError):
        server.evaluate_response(b"n,,n=a=20b,r=nonce")


def failure_of(client: SaslClient, server: SaslServer) -> tuple[int, int]:
    """Return (round in which the server refused the login, length of its last challenge)."""
    token = client.evaluate_challenge(b"")
    challenge = b""
    for number in range(1, 4):
        try:
            challenge = server.evaluate_response(token)
        except SaslError:
            return number, len(challenge)
        token = client.evaluate_challenge(challenge)
    raise AssertionError("the login succeeded")


def test_unknown_user_wrong_password_and_weak_credential_fail_at_the_same_message() -> None:
    """Kafka's server refuses an unknown user after one message, so that anyone can enumerate the users."""
    mechanism = SCRAM_SHA_256
    salt = b"1jw27n06jz4kgkcx9qjfhhkvsl"  # of the form that Kafka generates
    known = mechanism.credential(salt, mechanism.salted_password("pencil", salt, MIN_ITERATIONS), MIN_ITERATIONS)
    weak = credential(mechanism, iterations=MIN_ITERATIONS - 1)
    outcomes = {
        failure_of(ScramSaslClient(mechanism, "user", "wrong", "c"), scram_server(mechanism, {"user": known})),
        failure_of(ScramSaslClient(mechanism, "none", "pencil", "c"), scram_server(mechanism, {"user": known})),
        failure_of(ScramSaslClient(mechanism, "user", "pencil", "c"), scram_server(mechanism, {"user": weak})),
    }
    assert len(outcomes) == 1
    assert outcomes.pop()[0] == 2


def test_an_unknown_user_gets_the_same_salt_at_each_attempt() -> None:
    challenges = {scram_server(SCRAM_SHA_256, {}).evaluate_response(b"n,,n=nobody,r=c") for _ in range(2)}
    assert len(challenges) == 1


@pytest.mark.parametrize(
    ("position", "replacement"),
    [(0, b"c=eSws"), (1, b"r=other"), (2, b"p=AAAA"), (2, b"p=" + base64.b64encode(bytes(32)))],
)
def test_a_changed_final_message_is_refused(position: int, replacement: bytes) -> None:
    server = scram_server(SCRAM_SHA_256, {"user": credential(SCRAM_SHA_256)})
    client = ScramSaslClient(SCRAM_SHA_256, "user", "pencil", "client")
    parts = client.evaluate_challenge(server.evaluate_response(client.evaluate_challenge(b""))).split(b",")
    parts[position] = replacement
    with pytest.raises(SaslError):
        server.evaluate_response(b",".join(parts))
    assert not server.is_complete


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"y,,n=user,r=c",
        b"p=tls-unique,,n=user,r=c",
        b"n,a=root,n=user,r=c",
        b"n,,n=,r=c",
        b"\xff",
        b"n" * 20_000,
    ],
)
def test_a_malformed_first_message_is_refused(first: bytes) -> None:
    with pytest.raises(SaslError):
        scram_server(SCRAM_SHA_256, {"user": credential(SCRAM_SHA_256)}).evaluate_response(first)


@given(st.binary(max_size=200))
def test_no_bytes_crash_a_scram_server(token: bytes) -> None:
    server = scram_server(SCRAM_SHA_256, {"user": credential(SCRAM_SHA_256)})
    for _ in range(2):
        with suppress(SaslError):
            server.evaluate_response(token)
    assert not server.is_complete


def test_a_token_login_is_refused_like_a_wrong_password() -> None:
    server = scram_server(SCRAM_SHA_256, {"user": credential(SCRAM_SHA_256)})
    client = ScramSaslClient(SCRAM_SHA_256, "user", "pencil", "client")
    bare = client.evaluate_challenge(b"") + b",tokenauth=true"
    final = client.evaluate_challenge(server.evaluate_response(bare))
    with pytest.raises(SaslError):
        server.evaluate_response(final)


def test_a_client_refuses_a_server_that_does_not_know_the_password() -> None:
    client = ScramSaslClient(SCRAM_SHA_256, "user", "pencil", "client")
    client.evaluate_challenge(b"")
    client.evaluate_challenge(b"r=clientserver,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    with pytest.raises(SaslError, match="signature"):
        client.evaluate_challenge(b"v=" + base64.b64encode(bytes(32)))
    assert not client.is_complete


@pytest.mark.parametrize("iterations", [1, 4095, 16_385, 999_999_999])
def test_a_client_refuses_iterations_outside_of_kafkas_bounds(iterations: int) -> None:
    """Too few weaken the password, too many keep the client busy for hours."""
    client = ScramSaslClient(SCRAM_SHA_256, "user", "pencil", "client")
    client.evaluate_challenge(b"")
    with pytest.raises(SaslError, match="iterations"):
        client.evaluate_challenge(b"r=clientserver,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=%d" % iterations)


def test_a_client_refuses_a_nonce_that_does_not_continue_its_own() -> None:
    client = ScramSaslClient(SCRAM_SHA_256, "user", "pencil", "client")
    client.evaluate_challenge(b"")
    with pytest.raises(SaslError, match="nonce"):
        client.evaluate_challenge(b"r=otherserver,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")


def test_plain_accepts_the_right_password() -> None:
    server = PlainSaslServer({"alice": "pässword"})
    log_in(PlainSaslClient("alice", "pässword"), server)
    assert server.authorization_id == "alice"


@pytest.mark.parametrize(
    "token",
    [
        b"\x00alice\x00wrong",
        b"\x00nobody\x00secret",
        b"\x00nobody\x00",
        b"\x00\x00secret",
        b"\x00alice\x00",
        b"root\x00alice\x00secret",
        b"alice\x00secret",
        b"\x00alice\x00secret\x00",
        b"\xff\x00alice\x00secret",
        b"",
    ],
)
def test_plain_refuses_wrong_and_malformed_tokens(token: bytes) -> None:
    server = PlainSaslServer({"alice": "secret", "": "secret"})
    with pytest.raises(SaslError):
        server.evaluate_response(token)
    assert not server.is_complete


def test_the_repr_of_a_credential_shows_no_key() -> None:
    assert "[hidden]" in repr(credential(SCRAM_SHA_256))
    assert "pencil" not in repr(vars(scram_server(SCRAM_SHA_256, {"user": credential(SCRAM_SHA_256)})))


def challenge_of(server: ScramSaslServer, name: str) -> tuple[bytes, int]:
    """Return the salt and the iterations of the server's answer to the first message of this user."""
    answer = server.evaluate_response(f"n,,n={name},r=client".encode()).decode()
    fields = dict(part.split("=", 1) for part in answer.split(","))
    return base64.b64decode(fields["s"]), int(fields["i"])


def test_the_challenge_for_an_unknown_user_looks_like_one_for_a_user() -> None:
    """Kafka's tools generate 130 random bits in base 36; no letter of a salt may reveal an unknown user."""
    users = {f"user{number}": salt_of(secrets.randbits(SALT_BITS)) for number in range(300)}
    made_up = {}
    for number in range(300):
        server = ScramSaslServer(SCRAM_SHA_256, {}.get, "server", b"decoy", usual_iterations=lambda: 8192)
        made_up[f"nobody{number}"], iterations = challenge_of(server, f"nobody{number}")
        assert iterations == 8192
    for salts in (users, made_up):
        texts = [salt.decode() for salt in salts.values()]
        assert set("".join(texts)) == set("0123456789abcdefghijklmnopqrstuvwxyz")
        assert {len(text) for text in texts} <= {22, 23, 24, 25, 26}
        assert {25, 26} <= {len(text) for text in texts}
    again = ScramSaslServer(SCRAM_SHA_256, {}.get, "server", b"decoy")
    assert challenge_of(again, "nobody7")[0] == made_up["nobody7"]
    assert len(set(made_up.values())) == 300
