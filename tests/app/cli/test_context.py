"""`conclave context`: installations that are kept, and what commands over REST take from them."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.cli.in_process import Outcome, conclave
from tests.app.live import ADMIN_TOKEN, LiveWeb


class Commands:
    """Runs commands of a user with a folder for configuration of their own."""

    def __init__(
        self, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, token: str
    ) -> None:
        self.file = folder / "conclave" / "contexts.json"
        self._capfd = capfd
        self._monkeypatch = monkeypatch
        self.token = token
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
        monkeypatch.delenv("CONCLAVE_ADMIN_TOKEN", raising=False)

    def __call__(self, *arguments: object) -> Outcome:
        self._monkeypatch.setattr("sys.stdin", io.StringIO(f"{self.token}\n"))
        return conclave(self._capfd, *arguments)


@pytest.fixture
def commands(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(tmp_path, capfd, monkeypatch, ADMIN_TOKEN)


def test_a_context_is_tried_kept_for_its_user_alone_and_used(web: LiveWeb, commands: Commands) -> None:
    cluster = web.cluster.rpartition("/")[2]
    added = commands("context", "add", "here", "--url", f"{web.url}/")
    assert (added.code, added.complaint) == (0, "")
    assert added.output == f"Context here is now the current one: {web.url}, cluster {cluster}.\n"
    assert commands.file.stat().st_mode & 0o777 == 0o600
    given = commands("reports", "list", "--json", "--url", web.url, "--token", ADMIN_TOKEN)
    assert commands("reports", "list", "--json") == given, "the context has the address and the token"
    commands("context", "add", "again", "--url", web.url)
    assert commands("context", "list").output.split() == [
        *("CURRENT", "NAME", "URL"),
        *("*", "again", web.url),
        *("here", web.url),
    ]
    assert json.loads(commands("context", "list", "--json").output)[1] == {
        "name": "here",
        "url": web.url,
        "current": False,
    }
    assert commands("context", "use", "here").output == f"Context here is now the current one: {web.url}.\n"
    assert commands("context", "delete", "here").code == 0
    assert ADMIN_TOKEN in commands.file.read_text(), "that of the other context"
    assert "an API token is needed" in commands("reports", "list").complaint, "no context is the current one"
    assert commands("reports", "list", "--context", "again").code == 0
    commands("context", "delete", "again")
    assert ADMIN_TOKEN not in commands.file.read_text()


def test_what_does_not_work_is_not_kept(web: LiveWeb, commands: Commands) -> None:
    for url in ("http://127.0.0.1:1", "ftp://127.0.0.1"):
        assert commands("context", "add", "wrong", "--url", url).code != 0
    assert "'a b': 1 to 64 letters" in commands("context", "add", "a b", "--url", web.url).complaint
    commands.token = "no-such-token"
    refused = commands("context", "add", "wrong", "--url", web.url)
    assert (refused.code, "401" in refused.complaint) == (1, True)
    commands.token = ""
    assert commands("context", "add", "wrong", "--url", web.url).code == 2
    assert not commands.file.exists()
    assert commands("context", "use", "wrong").complaint == "conclave: there is no context wrong; known: none\n"


def test_a_file_that_is_damaged_or_readable_by_others_is_refused(web: LiveWeb, commands: Commands) -> None:
    commands("context", "add", "here", "--url", web.url)
    commands.file.chmod(0o644)
    refused = commands("reports", "list")
    assert (refused.code, "can be read by others" in refused.complaint) == (1, True)
    commands.file.chmod(0o600)
    for text in ("", "[]", '{"current": "x", "contexts": {"x": {"url": "http://x"}}}'):
        commands.file.write_text(text)
        damaged = commands("context", "list")
        assert (damaged.code, damaged.complaint.count("\n")) == (1, 1), damaged
        assert "has no contexts" in damaged.complaint


def test_a_token_goes_to_the_address_of_its_context_only(web: LiveWeb, commands: Commands) -> None:
    commands("context", "add", "here", "--url", web.url)
    assert "an API token is needed" in commands("reports", "list", "--url", "http://127.0.0.1:1").complaint
    assert commands("reports", "list", "--url", web.url, "--context", "here").code == 2


def completed(line: str, shell: str = "bash") -> list[str]:
    """Return what the shell offers for the last word of a line."""
    words = line.split(" ")
    environment = {
        "_CONCLAVE_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    program = [str(Path(sys.executable).with_name("conclave"))]
    run = subprocess.run(program, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)
    assert run.stderr == ""
    return run.stdout.split()


def test_the_shell_completes_names(web: LiveWeb, commands: Commands) -> None:
    for name in ("completed.a", "completed.b"):
        assert web.client.post(f"{web.cluster}/topics", json={"topic_name": name}).status_code in {201, 400}
    assert completed("conclave topics describe completed") == [], "no context and no token"
    commands("context", "add", "here", "--url", web.url)
    assert completed("conclave context use h") == ["here"]
    for shell in ("bash", "fish"):
        assert completed("conclave topics delete completed", shell) == ["completed.a", "completed.b"]
    assert completed("conclave topics delete completed.a comp") == ["completed.b"]
    assert completed("conclave configs describe --context here --topic completed.b") == ["completed.b"]
