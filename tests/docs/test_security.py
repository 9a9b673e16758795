"""docs/security.md names every role, scope and open path, and the limits the code has."""

from app.http.server import CONNECTIONS_WANTED, FILES_KEPT, HEADS_BYTES_MAX, WRITE_SECONDS
from app.security.guard import OPEN_PATHS, STRANGERS_BODY_SECONDS
from app.security.passwords import LENGTH_MAX, LENGTH_MIN
from app.security.roles import SCOPES, Role
from app.security.slots import LOOKUPS_OF_SOURCE, STRANGERS_BODY_BYTES_MAX, Slots
from kraft_core.server.network.listener_limits import SocketServerLimits
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
    text = " ".join(section(PAGE, "Limits").split())
    assert f"{limits.max_connections:,} connections" in text
    assert f"{limits.max_in_flight} unanswered requests a connection" in text
    assert f"{limits.max_buffered_bytes >> 20} MiB of unfinished input" in text
    assert f"{limits.max_queued_bytes >> 20} MiB of" in text
    assert f"{LENGTH_MIN} to {LENGTH_MAX} characters" in " ".join(PAGE.split())


def test_the_shares_of_the_web_process_are_those_of_the_code() -> None:
    made = Slots(CONNECTIONS_WANTED, 1 << 20)
    text = " ".join(section(PAGE, "Requests").split())
    for words in (
        f"{CONNECTIONS_WANTED:,} connections, or {FILES_KEPT} fewer",
        f"{made.streams.total_max:,} may be event streams, {made.streams.each_max:,} of one caller",
        f"{made.requests.total_max:,} requests, {made.requests.each_max} of one caller",
        f"({made.health.total_max}; {made.login.total_max}, {made.login.each_max} of one source)",
        f"looked up for {LOOKUPS_OF_SOURCE} requests of one source",
        f"together {made.bodies.total_max >> 20} MiB, {made.bodies.each_max >> 20} MiB of one caller",
        f"{STRANGERS_BODY_BYTES_MAX >> 10} KiB within {STRANGERS_BODY_SECONDS} s",
        f"at most {HEADS_BYTES_MAX >> 20} MiB",
        f"not read for {WRITE_SECONDS} s",
    ):
        assert words in text, words
