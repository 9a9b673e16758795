"""JAAS settings: Kafka's examples are parsed, invalid ones refused, and no password is shown."""

import pytest

from kraft_core.security.jaas import JaasError, parse_jaas

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_users_and_the_nodes_login_are_parsed() -> None:
    entry = parse_jaas(
        f'{PLAIN_MODULE} required \n username="admin" // who we are\n password="admin-secret" '
        '/* whom we know */ user_admin="admin-secret" user_alice=\'it\\\'s "a" \\\\ secret\';',
        "PLAIN",
    )
    assert (entry.username, entry.password) == ("admin", "admin-secret")
    assert entry.users == {"admin": "admin-secret", "alice": 'it\'s "a" \\ secret'}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_needs_no_options(mechanism: str) -> None:
    assert parse_jaas(f"{SCRAM_MODULE} REQUIRED;", mechanism).username is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "Login module not specified"),
        (f"{PLAIN_MODULE};", "control flag not specified"),
        (f"{PLAIN_MODULE} maybe;", "Invalid login module control flag 'maybe'"),
        (f'{PLAIN_MODULE} required user_a="s3cret"', "not terminated by semi-colon"),
        (f"{PLAIN_MODULE} required username;", "Value not specified for key 'username'"),
        (f"{PLAIN_MODULE} required username=;", "Value not specified for key 'username'"),
        (f'{PLAIN_MODULE} required ="s3cret";', "Value not specified for key '='"),
        (f'{PLAIN_MODULE} required user_a="s3cret;', "outside of quotes|not terminated"),
        (f'{PLAIN_MODULE} required user_a="s3cret"; {PLAIN_MODULE} required;', "2 login modules, should be 1"),
        (f'{SCRAM_MODULE} required password="s3cret";', "is not for PLAIN"),
        ('com.example.Login required password="s3cret";', "com.example.Login is not supported"),
    ],
)
def test_an_invalid_setting_is_refused_without_showing_its_values(text: str, complaint: str) -> None:
    with pytest.raises(JaasError, match=complaint) as refusal:
        parse_jaas(text, "PLAIN")
    assert "s3cret" not in str(refusal.value)


def test_the_repr_of_an_entry_does_not_show_its_options() -> None:
    assert "s3cret" not in repr(parse_jaas(f'{PLAIN_MODULE} required password="s3cret";', "PLAIN"))
