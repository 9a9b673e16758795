"""`--command-config` and `command_config`: commands and the web process on a controller with TLS and SASL."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.config import SettingsError
from tests.app.live import running_web, web_settings
from tests.interop import kafka
from tests.security.secure_quorum import PASSWORD, SecureQuorum, secure_quorum, wait_for_voters

NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureQuorum]:
    with secure_quorum(tmp_path_factory.mktemp("secured"), 1, "SASL_SSL", "PLAIN") as found:
        found.format(1)
        found.start(1)
        found.wait_for_leader(60)
        wait_for_voters(found, 60)
        yield found


def other_properties(secured: SecureQuorum, folder: Path, without: str = "\n", **changed: str) -> Path:
    """The client's properties without the keys that start with `without`, and with `changed`."""
    kept = {key: value for key, value in secured.client_properties.items() if not key.startswith(without)}
    return kafka.write_properties(
        folder / "other.properties", kept | {key.replace("_", "."): value for key, value in changed.items()}
    )


def conclave_quorum(
    secured: SecureQuorum, *arguments: object, config: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    security = [] if config is None else ["--command-config", config]
    command = [Path(sys.executable).with_name("conclave"), "quorum", *arguments]
    command += ["--bootstrap-controller", secured.bootstrap, *security]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)


def refused(outcome: "subprocess.CompletedProcess[str]", code: int) -> str:
    """Return the one line with the reason."""
    assert outcome.returncode == code, outcome
    assert len(outcome.stderr.splitlines()) == 1, outcome.stderr
    assert PASSWORD not in outcome.stderr
    return outcome.stderr


def test_describe_authenticates_with_the_properties(secured: SecureQuorum) -> None:
    outcome = conclave_quorum(secured, "describe", "--json", config=secured.command_config)
    assert outcome.returncode == 0, outcome.stderr
    described = json.loads(outcome.stdout)
    assert described["leaderId"] == 1
    assert [voter["nodeId"] for voter in described["voters"]] == [1]


def test_add_and_remove_authenticate_too(secured: SecureQuorum) -> None:
    config = secured.config_of(1)
    added = conclave_quorum(secured, "add", "-c", config, "--dry-run", config=secured.command_config)
    assert "DUPLICATE_VOTER" in refused(added, 1)
    key = ("--controller-id", 1, "--controller-directory-id", NO_DIRECTORY)
    removed = conclave_quorum(secured, "remove", *key, "--force", config=secured.command_config)
    assert "VOTER_NOT_FOUND" in refused(removed, 1)


def test_a_plaintext_client_gets_an_error_that_names_the_likely_cause(secured: SecureQuorum, tmp_path: Path) -> None:
    said = "as a listener with another security.protocol than PLAINTEXT does"
    assert said in refused(conclave_quorum(secured, "describe"), 1)
    without_login = other_properties(secured, tmp_path, without="sasl", security_protocol="SSL")
    assert said.replace("PLAINTEXT", "SSL") in refused(conclave_quorum(secured, "describe", config=without_login), 1)


def test_a_wrong_password_an_unknown_authority_and_another_mechanism_are_named(
    secured: SecureQuorum, tmp_path: Path
) -> None:
    jaas = secured.client_properties["sasl.jaas.config"]
    wrong = other_properties(secured, tmp_path, sasl_jaas_config=jaas.replace(PASSWORD, "guessed"))
    told = refused(conclave_quorum(secured, "describe", config=wrong), 1)
    assert f"no secure connection to {secured.bootstrap}: Authentication failed" in told
    assert "guessed" not in told
    stranger = other_properties(secured, tmp_path, without="ssl.truststore")
    assert "CERTIFICATE_VERIFY_FAILED" in refused(conclave_quorum(secured, "describe", config=stranger), 1)
    scram = jaas.replace("plain.PlainLoginModule", "scram.ScramLoginModule")
    other = other_properties(secured, tmp_path, sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=scram)
    assert "SCRAM-SHA-512; it offers: PLAIN" in refused(conclave_quorum(secured, "describe", config=other), 1)


UNUSABLE = [
    ("security.protocol=TLS\n", "security.protocol: must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    ("security.protocol=SASL_SSL\n", "GSSAPI for configuration sasl.mechanism: must be one of PLAIN, SCRAM"),
    ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n", 'required configuration "sasl.jaas.config"'),
    ("security.protocol=SSL\nssl.truststore.location=/nowhere.p12\n", "/nowhere.p12 for configuration ssl.truststore"),
    ("x=\\u12\n", "malformed"),
]


@pytest.mark.parametrize(("content", "said"), UNUSABLE)
def test_unusable_properties_are_a_usage_error(secured: SecureQuorum, tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(content)
    told = refused(conclave_quorum(secured, "describe", config=file), 2)
    assert said in told
    assert "--command-config" in told
    with pytest.raises(SettingsError) as wrong:
        web_settings(tmp_path, secured.bootstrap, command_config=file)
    assert str(wrong.value).startswith("command_config: ")
    assert said in str(wrong.value)


def test_a_missing_file_is_named(secured: SecureQuorum, tmp_path: Path) -> None:
    absent = tmp_path / "absent.properties"
    assert str(absent) in refused(conclave_quorum(secured, "describe", config=absent), 2)
    with pytest.raises(SettingsError, match=r"absent\.properties: No such file"):
        web_settings(tmp_path, secured.bootstrap, command_config=absent)


def test_the_web_process_reads_and_changes_a_secured_quorum(
    secured: SecureQuorum, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with running_web(tmp_path, secured.bootstrap, command_config=secured.command_config) as web:
        web.wait_ready()
        quorum = web.client.get(f"{web.cluster}/quorum").json()
        assert (quorum["leader_id"], quorum["is_live"]) == (1, True)
        alice = f"{web.cluster}/scram-users/alice/credentials/SCRAM-SHA-256"
        assert web.client.put(alice, json={"password": "through the web"}).status_code == 204
        users = web.client.get(f"{web.cluster}/scram-users").json()["data"]
        assert [user["user_name"] for user in users] == ["alice"]
    for said in (secured.outputs(), caplog.text, str(caplog.records)):
        assert PASSWORD not in said
        assert "through the web" not in said


def test_a_web_process_that_fails_to_authenticate_says_why_and_keeps_running(
    secured: SecureQuorum, tmp_path: Path
) -> None:
    jaas = secured.client_properties["sasl.jaas.config"]
    wrong = other_properties(secured, tmp_path, sasl_jaas_config=jaas.replace(PASSWORD, "guessed"))
    with running_web(tmp_path, secured.bootstrap, command_config=wrong) as web:
        kafka.wait_until(
            lambda: "Authentication failed" in web.client.get("/", headers={"Accept": "text/html"}).text,
            60,
            "the first page says why there is no metadata",
        )
        assert web.client.get("/readyz").status_code == 503
        assert web.client.get("/v3/clusters").status_code == 503


def test_settings_are_refused_before_any_folder_is_made(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=TLS\n")
    settings = tmp_path / "web.toml"
    settings.write_text(
        f'bootstrap_controllers = "127.0.0.1:1"\ncommand_config = "{file}"\ndata_dir = "{tmp_path}/data"\n'
    )
    for command in (["web"], ["config", "--check"]):
        program = Path(sys.executable).with_name("conclave")
        outcome = subprocess.run([program, *command, "-c", settings], capture_output=True, text=True, timeout=60)
        assert "command_config: Invalid value TLS" in refused(outcome, 1)
    assert not (tmp_path / "data").exists()
