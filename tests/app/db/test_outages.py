"""A database that stops, hangs, is locked or full: 503 with a reason, health is served, one log line each way."""

import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.http.errors import TooManyRequestsError
from app.security.slots import Pool
from tests.app.db.servers import PostgreSql, postgresql_server
from tests.app.live import LiveWeb, running_web, web_settings
from tests.interop import kafka

pytestmark = pytest.mark.postgresql
EVENTS = {"database_unavailable", "database_available", "waiting_for_database", "database_opened"}


class Lines(logging.Handler):
    """The log lines of this process about the database."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() in EVENTS:
            self.records.append(record)

    @property
    def events(self) -> list[str]:
        return [record.getMessage() for record in self.records]


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, root = Lines(), logging.getLogger()
    level = root.level
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSql]:
    with postgresql_server() as running:
        yield running


def metric(web: LiveWeb, name: str) -> float:
    text = web.http().get("/metrics").text
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))


def wait_for(answer: Callable[[], httpx.Response], status: int) -> httpx.Response:
    return kafka.wait_until(
        lambda: found if (found := answer()).status_code == status else None, 60, f"status {status}", 0.1
    )


def assert_it_is_away(web: LiveWeb, text: str, *, patience: float = 20.0) -> None:
    """Assert the effects of an outage, and that requests do not wait once it is known."""
    users = wait_for(lambda: web.client.get("/v3/users"), 503)
    assert int(users.headers["Retry-After"]) >= 1
    assert (users.json()["type"], users.json()["retriable"]) == ("urn:conclave:error:database-unavailable", True)
    assert text in users.json()["message"], users.text
    page = web.client.get("/users", headers={"Accept": "text/html"})
    assert (page.status_code, "Retry-After" in page.headers) == (503, True)
    assert text in page.text
    began = time.monotonic()
    assert all(web.client.get("/v3/users").status_code == 503 for _ in range(30))
    assert time.monotonic() - began < patience, "requests wait for a database that is known to be away"
    assert web.client.get("/healthz").status_code == 200
    ready = web.client.get("/readyz")
    assert ready.status_code == 503
    assert any(text in reason for reason in ready.json()["reasons"]), ready.text
    assert metric(web, "conclave_database_up") == 0
    assert metric(web, "conclave_database_outages_total") >= 1


def assert_it_is_back(web: LiveWeb, lines: Lines) -> None:
    wait_for(lambda: web.client.get("/v3/users"), 200)
    kafka.wait_until(lambda: metric(web, "conclave_database_up") == 1, 30, "the metric is back")
    assert lines.events == ["database_unavailable", "database_available"], "one line at the beginning, one at the end"
    last: Any = lines.records[-1]
    assert last.refused >= 30
    assert last.after_seconds >= 0


def test_a_postgresql_that_stops_and_starts_is_two_lines_and_no_restart(
    server: PostgreSql, tmp_path: Path, lines: Lines
) -> None:
    with running_web(tmp_path, "127.0.0.1:1", database_url=server.fresh()) as web:
        requests: Pool = web.app.state.slots.requests
        server.stop()
        try:
            assert_it_is_away(web, "does not answer")
            requests.take("caller", requests.free)
            web.call(requests.prepare("caller"))
            with pytest.raises(TooManyRequestsError):
                requests.take("caller")
            requests.give_back("caller", requests.free)
        finally:
            server.start()
        assert_it_is_back(web, lines)


def test_a_postgresql_that_hangs_is_an_outage(server: PostgreSql, tmp_path: Path, lines: Lines) -> None:
    with running_web(tmp_path, "127.0.0.1:1", database_url=server.fresh()) as web:
        assert web.client.get("/v3/users").status_code == 200
        server.pause()
        try:
            assert_it_is_away(web, "does not answer")
        finally:
            server.resume()
        assert_it_is_back(web, lines)


def test_the_start_waits_for_the_database_and_says_so(server: PostgreSql, tmp_path: Path, lines: Lines) -> None:
    url = server.fresh()
    server.stop()
    web = LiveWeb(web_settings(tmp_path, "127.0.0.1:1", database_url=url), waits=False)
    try:
        try:
            wait_for(lambda: web.client.get("/v3/users"), 503)
            kafka.wait_until(lambda: lines.events == ["waiting_for_database"], 30, "the wait is logged")
            starting = web.client.get("/v3/users")
            assert (starting.status_code, starting.headers["Retry-After"]) == (503, "1")
            assert starting.json()["type"] == "urn:conclave:error:starting"
            assert "the database" in starting.json()["message"]
            page = web.http().get("/", headers={"Accept": "text/html"})
            assert page.status_code == 503
            assert "Conclave is starting" in page.text
            assert web.client.get("/healthz").status_code == 200
            assert web.client.get("/metrics").status_code == 200
            assert web.http().get("/static/app.css").status_code == 200
            ready = web.client.get("/readyz")
            assert (ready.status_code, "waits for the database" in str(ready.json()["reasons"])) == (503, True)
            time.sleep(2.5)
            assert lines.events == ["waiting_for_database"], "one line, however long it takes"
        finally:
            server.start()
        wait_for(lambda: web.client.get("/v3/users"), 200)
        assert lines.events == ["waiting_for_database", "database_opened"]
    finally:
        web.stop()


LOCK = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


def test_an_sqlite_file_locked_by_another_process_is_an_outage_of_writes(tmp_path: Path, lines: Lines) -> None:
    with running_web(tmp_path, "127.0.0.1:1") as web:
        assert web.client.get("/v3/users").status_code == 200
        file = tmp_path / "web-data" / "web" / "conclave.db"
        command = [sys.executable, "-c", LOCK, str(file)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            assert other.stdin is not None
            assert other.stdout.readline() == b"locked\n"
            refused = wait_for(lambda: web.client.post("/v3/users", json={"name": "late", "role": "viewer"}), 503)
            assert "another process has it locked" in refused.json()["message"]
            assert web.client.get("/healthz").status_code == 200
            ready = web.client.get("/readyz").json()["reasons"]
            assert any("another process has it locked" in reason for reason in ready), ready
            other.stdin.close()
        wait_for(lambda: web.client.post("/v3/users", json={"name": "late", "role": "viewer"}), 201)
        assert lines.events == ["database_unavailable", "database_available"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB. Only root can mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_refuses_changes_and_serves_reads(small_disk: Path, lines: Lines) -> None:
    with running_web(small_disk, "127.0.0.1:1") as web:
        ballast = small_disk / "ballast"
        with ballast.open("wb") as file:
            try:
                while True:
                    file.write(b"\0" * 65_536)
                    file.flush()
            except OSError:
                pass
        numbers = iter(range(10_000))
        new = lambda: {"name": f"user-{next(numbers)}", "role": "viewer"}  # noqa: E731 - short
        refused = wait_for(lambda: web.client.post("/v3/users", json=new()), 503)
        assert "cannot be written to: its disk is full" in refused.json()["message"], refused.text
        assert web.client.get("/v3/users").status_code == 200, "readers read on"
        reasons = web.client.get("/readyz").json()["reasons"]
        assert any("the disk of the data folder is full" in reason for reason in reasons), reasons
        assert metric(web, "conclave_database_up") == 0
        ballast.unlink()
        wait_for(lambda: web.client.post("/v3/users", json=new()), 201)
        assert lines.events == ["database_unavailable", "database_available"]
        assert "full" not in str(web.client.get("/readyz").json()["reasons"])


def test_a_damaged_database_is_a_reason_and_no_traceback(tmp_path: Path, lines: Lines) -> None:
    folder = tmp_path / "web-data" / "web"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "conclave.db").write_bytes(b"this is no database" * 1000)
    web = LiveWeb(web_settings(tmp_path, "127.0.0.1:1"), waits=False)
    try:
        kafka.wait_until(lambda: lines.events == ["waiting_for_database"], 30, "the wait is logged")
        assert "its file is not a database" in str(web.client.get("/readyz").json()["reasons"])
    finally:
        web.stop()
