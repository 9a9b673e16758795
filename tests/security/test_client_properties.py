"""The properties file of a client, as for --command-config."""

from pathlib import Path

import pytest

from kraft_core.security.client_properties import load_client_security
from kraft_core.security.listener_security import PLAINTEXT_CLIENT
from kraft_core.security.properties import SecurityConfigError
from tests.security.secure_listener import PLAIN_MODULE


def test_a_client_without_a_file_uses_plaintext() -> None:
    assert load_client_security(None) is PLAINTEXT_CLIENT


def test_a_client_with_an_empty_file_uses_plaintext(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# nothing\n")
    assert load_client_security(path) == PLAINTEXT_CLIENT


def test_a_password_may_be_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("correct-horse")
    path = tmp_path / "client.properties"
    path.write_text(
        "config.providers=dir\n"
        "config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN_MODULE} required username="alice" password="${{dir:{tmp_path}:password}}";\n'
    )
    found = load_client_security(path)
    assert (found.mechanism, found.username, found.password) == ("PLAIN", "alice", "correct-horse")
    assert "correct-horse" not in repr(found)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_an_unreadable_file_is_an_error_of_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "client.properties"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SecurityConfigError, match="Cannot read the properties file") as refused:
        load_client_security(path)
    assert "\n" not in str(refused.value)


def test_the_error_names_an_invalid_setting(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=TELNET\n")
    with pytest.raises(SecurityConfigError, match=r"TELNET for configuration security\.protocol"):
        load_client_security(path)
