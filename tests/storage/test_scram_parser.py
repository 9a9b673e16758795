"""Parsing --add-scram: the statements of ScramParserTest, and that no message contains a secret."""

import hashlib
import hmac

import pytest

from kraft_core.image.scram_mechanism import SCRAM_SHA_256, SCRAM_SHA_512
from kraft_core.storage.scram_parser import (
    PerMechanismData,
    ScramArgumentError,
    parse_scram_argument,
    parse_scram_arguments,
    split_component,
    split_mechanism,
)

SALT = b"1lv4pdnw4fwq7notcxm0yy1k7q"
SALTED_PASSWORD = bytes.fromhex("993d32c945319e525a0bdf475e045349895bbaa6b81521ad24225f4ccbe36021")
SALT_TEXT = '"MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E="'
SALTED_TEXT = '"mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE="'


@pytest.mark.parametrize(
    ("component", "expected"),
    [
        ("name=foo", ("name", "foo")),
        ('name="foo"', ("name", "foo")),
        ("name=", ("name", "")),
        ('name=""', ("name", "")),
        ('name="', ("name", '"')),
        ("name=a=b", ("name", "a=b")),
    ],
)
def test_a_component_is_a_name_and_a_value_that_may_be_quoted(component: str, expected: tuple[str, str]) -> None:
    assert split_component(component) == expected


def test_an_argument_is_a_mechanism_and_a_text_in_brackets() -> None:
    argument = " SCRAM-SHA-512=[name=scram-admin,password=scram-user-secret] "
    assert split_mechanism(argument) == (SCRAM_SHA_512, "name=scram-admin,password=scram-user-secret")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("SCRAM-SHA-512", "Failed to find equals sign in SCRAM argument"),
        ("SCRAM-SHA-9=[name=a,password=hunter2]", "The add-scram mechanism SCRAM-SHA-9 is not supported."),
        ("SCRAM-SHA-256=name=a,password=hunter2", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a,password=hunter2", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[]", "No equals sign found in a SCRAM component: each is name=value"),
        ("SCRAM-SHA-256=[name=a,hunter2]", "No equals sign found in a SCRAM component: each is name=value"),
        ("SCRAM-SHA-256=[password=hunter2]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        (
            f"SCRAM-SHA-256=[name=a,saltedpassword={SALTED_TEXT}]",
            "You must supply 'salt' with 'saltedpassword' to add-scram",
        ),
        (
            "SCRAM-SHA-256=[name=b,password=hunter2,unknown2=y,unknown=x]",
            "Unknown SCRAM configurations: unknown, unknown2",
        ),
        ("SCRAM-SHA-256=[name=b,password=hunter2,salt=hunter2!]", "Failed to decode given salt: it is not base64"),
        (
            "SCRAM-SHA-256=[name=b,salt=MQ==,saltedpassword=hunter2!]",
            "Failed to decode given saltedPassword: it is not base64",
        ),
        (
            "SCRAM-SHA-256=[name=b,password=x,iterations=hunter2]",
            "Failed to parse iterations count: it is not a number",
        ),
        (
            "SCRAM-SHA-256=[name=b,password=hunter2,iterations=4095]",
            "The 'iterations' value must be >= 4096 for add-scram using SCRAM-SHA-256",
        ),
        (
            "SCRAM-SHA-512=[name=b,password=hunter2,iterations=16385]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM-SHA-512",
        ),
    ],
)
def test_a_wrong_argument_is_one_line_without_the_secret(argument: str, message: str) -> None:
    with pytest.raises(ScramArgumentError) as caught:
        parse_scram_arguments([argument])
    assert str(caught.value) == message
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name=bob,password=mypass", PerMechanismData(SCRAM_SHA_256, "bob", password="mypass")),
        (
            "name=bob,password=my pass,iterations=8192",
            PerMechanismData(SCRAM_SHA_256, "bob", iterations=8192, password="my pass"),
        ),
        (
            f"name=bob,password=my pass,salt={SALT_TEXT}",
            PerMechanismData(SCRAM_SHA_256, "bob", salt=SALT, password="my pass"),
        ),
        (
            f"name=bob,password=my pass,iterations=8192,salt={SALT_TEXT}",
            PerMechanismData(SCRAM_SHA_256, "bob", salt=SALT, iterations=8192, password="my pass"),
        ),
        (
            f"name=alice,salt={SALT_TEXT},saltedpassword={SALTED_TEXT}",
            PerMechanismData(SCRAM_SHA_256, "alice", salt=SALT, salted_password=SALTED_PASSWORD),
        ),
        ("name=bob,password=", PerMechanismData(SCRAM_SHA_256, "bob", password="")),
    ],
)
def test_an_argument_is_parsed_into_its_parts(text: str, expected: PerMechanismData) -> None:
    assert parse_scram_argument(f"SCRAM-SHA-256=[{text}]") == expected


def test_iterations_are_4096_by_default() -> None:
    assert parse_scram_argument("SCRAM-SHA-256=[name=a,password=b]").iterations == 4096


def test_the_record_contains_the_keys_of_rfc_5802_and_no_password() -> None:
    (record,) = parse_scram_arguments(["SCRAM-SHA-256=[name=bob,password=my pass,iterations=8192,salt=MTIz]"])
    salted = hashlib.pbkdf2_hmac("sha256", b"my pass", b"123", 8192)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    assert (record.name, record.mechanism, record.salt, record.iterations) == ("bob", 1, b"123", 8192)
    assert record.stored_key == hashlib.sha256(client_key).digest()
    assert record.server_key == hmac.digest(salted, b"Server Key", "sha256")


def test_a_salted_password_gives_the_same_record_as_the_password() -> None:
    salted = SCRAM_SHA_512.salted_password("secret", SALT, 4096)
    by_password = PerMechanismData(SCRAM_SHA_512, "alice", salt=SALT, password="secret").to_record()
    assert PerMechanismData(SCRAM_SHA_512, "alice", salt=SALT, salted_password=salted).to_record() == by_password
    assert by_password.mechanism == 2


def test_each_salt_is_random() -> None:
    data = PerMechanismData(SCRAM_SHA_256, "bob", password="p")
    first, second = data.to_record(), data.to_record()
    assert first.salt != second.salt
    assert len(first.salt) >= 16
    assert first.stored_key != second.stored_key


def test_parsed_arguments_do_not_show_secrets() -> None:
    text = repr(PerMechanismData(SCRAM_SHA_256, "bob", SALT, 4096, "hunter2", SALTED_PASSWORD))
    assert "hunter2" not in text
    assert "1lv4" not in text
