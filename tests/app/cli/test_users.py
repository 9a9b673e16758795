"""`conclave users`, against a web process."""

import json

import pytest

from tests.app.cli.in_process import Outcome, conclave
from tests.app.live import ADMIN_TOKEN, LiveWeb


def test_users_are_added_listed_changed_and_removed(web: LiveWeb, capfd: pytest.CaptureFixture[str]) -> None:
    def users(*arguments: str) -> Outcome:
        return conclave(capfd, "users", *arguments, "--url", web.url, "--token", ADMIN_TOKEN)

    def found() -> dict[str, tuple[str, bool]]:
        return {each["name"]: (each["role"], each["disabled"]) for each in json.loads(users("list", "--json").output)}

    assert users("add", "carl", "--role", "editor", "--dry-run").output == "Would add user carl, editor.\n"
    assert "carl" not in found()
    added = users("add", "carl", "--role", "editor").output.splitlines()
    assert added[0] == "Added user carl, editor. This link logs them in once:"
    assert added[1].startswith(f"{web.url}/login/link")
    assert web.http().get(added[1]).status_code == 200
    assert users("login-link", "carl").output.startswith(f"{web.url}/login/link")
    assert ["carl", "editor", "active", "no", "-"] in [line.split() for line in users("list").output.splitlines()]
    assert users("alter", "carl", "--role", "viewer", "--dry-run").output == "Would be: user carl, viewer, active.\n"
    assert found()["carl"] == ("editor", False)
    changed = users("alter", "carl", "--role", "viewer", "--disable")
    assert changed.output == "Changed: user carl, viewer, disabled.\n"
    assert found()["carl"] == ("viewer", True)
    assert users("alter", "carl").code == 2
    again = users("add", "carl", "--role", "admin")
    assert (again.code, "carl" in again.complaint) == (1, True)
    assert users("add", "dora", "--role", "king").code == 2
    assert users("delete", "carl", "--dry-run").output == "Would remove user carl.\n"
    assert users("delete", "carl").code == 2, "nobody can be asked"
    assert users("delete", "carl", "--yes").output == "Removed user carl.\n"
    gone = users("delete", "carl", "--yes")
    assert (gone.code, gone.complaint.count("\n"), "carl" not in found()) == (1, 1, True)
