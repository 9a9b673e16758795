"""docs/security.md names every role, scope and open path, and the limits the code has."""

from app.security.guard import OPEN_PATHS
from app.security.passwords import LENGTH_MAX, LENGTH_MIN
from app.security.roles import SCOPES, Role
from kraft_core.server.listener_limits import SocketServerLimits
from tests.docs.markdown import DOCS, code_words, rows, section

PAGE = (DOCS / "security.md").read_text()


def test_roles_and_scopes_are_those_of_the_code() -> None:
    names = [row[0].strip("`") for row in rows(section(PAGE, "Who may do what"))]
    assert names == [*(role.text for role in Role), *SCOPES]


def test_every_open_path_is_named() -> None:
    icons = {"/favicon.ico", "/robots.txt"}
    assert set(OPEN_PATHS) - icons <= set(code_words(section(PAGE, "Who may do what")))


def test_the_limits_are_those_of_the_code() -> None:
    limits = SocketServerLimits()
    text = section(PAGE, "Limits")
    assert f"{limits.max_connections:,} connections" in text
    assert f"{limits.max_in_flight} unanswered requests a connection" in text
    assert f"{limits.max_buffered_bytes >> 20} MiB of unfinished input" in text
    assert f"{limits.max_queued_bytes >> 20} MiB of" in text
    assert f"{LENGTH_MIN} to {LENGTH_MAX} characters" in PAGE
