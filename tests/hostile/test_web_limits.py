"""The web process under endless requests: memory is bounded, and other callers are served."""

import os
import resource
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.http import server as http_server
from app.http.server import HEAD_BYTES_MAX
from app.security import guard, slots
from tests.app.live import LiveWeb, running_web
from tests.interop.kafka import PATIENCE_S, free_ports, wait_until

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    folder: Path = tmp_path_factory.mktemp("web")
    with running_web(folder, f"127.0.0.1:{free_ports(1)[0]}") as found:  # no controller is needed
        yield found


def send_until_closed(port: int, start: bytes, filler: bytes, most: int) -> int:
    """Send `start`, then `filler` repeatedly. Return the bytes sent before the peer closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(start)
        sent = 0
        try:
            while sent < most:
                connection.sendall(filler)
                sent += len(filler)
        except ConnectionError:
            pass
        return sent


ENDLESS = {
    "header": (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"a" * 50_000),
    "many headers": (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X-Name: value\r\n" * 3_000),
    "path": (b"GET /", b"a" * 50_000),
    "trailers": (
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
        b"X-Name: value\r\n" * 3_000,
    ),
}


@pytest.mark.parametrize(("start", "filler"), ENDLESS.values(), ids=ENDLESS.keys())
def test_an_endless_request_head_is_refused(web: LiveWeb, start: bytes, filler: bytes) -> None:
    sent = send_until_closed(web.port, start, filler, 40 * MEGABYTE)
    assert sent < 20 * MEGABYTE, "all but what socket buffers hold must be refused"
    assert web.client.get("/healthz").status_code == 200


def test_a_large_request_head_is_served(web: LiveWeb) -> None:
    assert web.client.get("/healthz", headers={"X-Large": "a" * (HEAD_BYTES_MAX // 2)}).status_code == 200


SMALL = 80
"""Connections of the small process: 50 event streams, 20 per caller, and 40 requests per caller."""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveWeb]:
    """Yield a process with few slots and little memory for bodies, so that few connections exhaust them."""
    monkeypatch.setattr("app.web.connections_allowed", lambda: SMALL)
    monkeypatch.setattr(slots, "BODIES_BYTES_MAX", 4 * MEGABYTE)
    monkeypatch.setattr(slots, "BODIES_OF_CALLER_BYTES_MAX", MEGABYTE)
    monkeypatch.setattr(http_server, "HEADS_BYTES_MAX", MEGABYTE)
    with running_web(tmp_path, f"127.0.0.1:{free_ports(1)[0]}", body_bytes_max=MEGABYTE) as found:
        yield found


def connect(web: LiveWeb, opened: ExitStack, data: bytes) -> socket.socket:
    connection = opened.enter_context(socket.create_connection(("127.0.0.1", web.port), timeout=PATIENCE_S))
    connection.sendall(data)
    return connection


def new_token(web: LiveWeb, name: str) -> str:
    made = web.client.post("/v3/tokens", json={"name": name, "role": "admin"})
    assert made.status_code == 201, made.text
    return str(made.json()["token"])


def others_are_served(web: LiveWeb, token: str) -> None:
    """Assert that new connections are served: probes, the login page, another caller."""
    with web.http() as visitor:
        assert visitor.get("/healthz").status_code == 200
        assert visitor.get("/metrics").status_code == 200
        assert visitor.get("/login", headers={"Accept": "text/html"}).status_code == 200
    with web.http(token) as other:
        assert other.get("/v3/users").status_code == 200
        other.headers["Accept"] = "text/event-stream"
        with other.stream("GET", "/events") as stream:
            assert stream.status_code == 200


def test_event_streams_of_one_caller_leave_room_for_others(small: LiveWeb) -> None:
    greedy, other = new_token(small, "greedy"), new_token(small, "other")
    request = f"GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {greedy}\r\n\r\n".encode()
    with ExitStack() as opened:
        answers = [connect(small, opened, request).recv(65_536) for _ in range(3 * SMALL)]
        served = sum(answer.startswith(b"HTTP/1.1 200") for answer in answers)
        refused = [answer for answer in answers if answer.startswith(b"HTTP/1.1 429")]
        assert (served, len(refused)) == (SMALL // 4, 3 * SMALL - SMALL // 4)
        assert b"retry-after: 1" in refused[0].lower()
        assert b"too many event streams" in refused[0]
        others_are_served(small, other)
        many = [new_token(small, f"reader{number}") for number in range(3)]
        for token in many:
            each = request.replace(greedy.encode(), token.encode())
            answers += [connect(small, opened, each).recv(65_536) for _ in range(SMALL // 4)]
        assert any(answer.startswith(b"HTTP/1.1 503") for answer in answers), "there is an end for all together"
        with small.http() as visitor:
            assert visitor.get("/readyz").status_code == 503, "answered, though there is no quorum"
            assert visitor.get("/login", headers={"Accept": "text/html"}).status_code == 200


def test_idle_connections_are_closed_for_active_ones(small: LiveWeb) -> None:
    token = new_token(small, "patient")
    with ExitStack() as opened:
        idle = [connect(small, opened, b"GET /healthz HTTP/1.1\r\nX: " if n % 2 else b"") for n in range(4 * SMALL)]
        others_are_served(small, token)
        idle[0].settimeout(PATIENCE_S)
        assert closed(idle[0]), "the one that has waited longest went first"


def closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(100) == b""
    except ConnectionError:
        return True


def test_endless_request_heads_are_bounded_together(small: LiveWeb) -> None:
    token = new_token(small, "head")
    with ExitStack() as opened:
        head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 50_000
        heads = [connect(small, opened, head) for _ in range(40)]
        others_are_served(small, token)
        assert sum(map(closed, heads[:15])) == 15, "2 MB came, 1 MB is held"


def test_unfinished_bodies_are_bounded_per_caller_and_together(small: LiveWeb) -> None:
    tokens = [new_token(small, f"body{number}") for number in range(6)]
    with ExitStack() as opened:

        def begin(token: str) -> socket.socket:
            lines = f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: 999999\r\n"
            head = f"POST /v3/users HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode()
            return connect(small, opened, head + b" " * 900_000)

        bodies = small.app.state.slots.bodies
        for number, token in enumerate(tokens[:4], 1):
            begin(token)
            wait_until(lambda number=number: bodies.total == number * 900_000, PATIENCE_S, "the body is held")
            assert begin(token).recv(65_536).startswith(b"HTTP/1.1 429")
        assert begin(tokens[4]).recv(65_536).startswith(b"HTTP/1.1 503")
        others_are_served(small, tokens[5])
        assert small.client.post("/v3/tokens", json={"name": "small-body", "role": "viewer"}).status_code == 201


def test_a_body_without_login_is_bounded_in_size_and_time(small: LiveWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "STRANGERS_BODY_SECONDS", 0.5)
    for length, sent, status in ((100_000, 10, b"413"), (1_000, 10, b"408")):
        head = f"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode()
        with ExitStack() as opened:
            answer = connect(small, opened, head + b"a" * sent).recv(65_536)
            assert answer.startswith(b"HTTP/1.1 " + status), answer


def test_few_open_files_cause_one_warning_and_no_busy_loop(tmp_path: Path) -> None:
    """With 200 files the process holds 72 connections, so accepting never fails and is never retried in a loop."""
    (port,) = free_ports(1)
    environment = {
        **os.environ,
        "CONCLAVE_BOOTSTRAP_CONTROLLERS": f"127.0.0.1:{free_ports(1)[0]}",
        "CONCLAVE_DATA_DIR": str(tmp_path / "data"),
        "CONCLAVE_HTTP_PORT": str(port),
        "CONCLAVE_LOG_FORMAT": "json",
    }
    with (tmp_path / "log").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli.main", "web"],
            stdout=output,
            stderr=output,
            env=environment,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (150, 200)),  # noqa: PLW1509  # no lock is taken in it
        )
    try:
        wait_until(lambda: is_healthy(port), PATIENCE_S, "the process serves")
        with ExitStack() as opened:
            for _ in range(300):
                opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
            assert is_healthy(port)
            before = processor_seconds(process.pid)
            time.sleep(1)
            assert processor_seconds(process.pid) - before < 0.5
            assert is_healthy(port)
    finally:
        process.terminate()
        process.wait(60)
    lines = (tmp_path / "log").read_text().splitlines()
    assert sum('"few_open_files"' in line for line in lines) == 1
    assert not any("Traceback" in line or "system resource" in line or "Too many open" in line for line in lines)


def is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
