"""Many readers, slow readers and incomplete requests do not delay other requests. ASVS 15.2.2."""

import resource
import selectors
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.http import server as http_server
from tests.app.live import ADMIN_TOKEN, CombinedNode, LiveWeb, running_web
from tests.interop import kafka

READERS = 500


@pytest.fixture(autouse=True)
def enough_files() -> Iterator[None]:
    """Both ends of every connection are in this process, and some systems allow 1,024 open files per process."""
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, max(least, 4_096)), most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (least, most))


def is_served(web: LiveWeb) -> bool:
    """Return whether a new client gets an answer within its timeout."""
    with web.http(ADMIN_TOKEN) as client:
        return client.get(f"{web.cluster}/topics?page_size=1").status_code == 200


def is_cut_off(connection: socket.socket) -> bool:
    """Return whether the server closes the connection without an answer."""
    try:
        return connection.recv(100) == b""
    except ConnectionError:
        return True


def test_500_readers_of_the_feed_see_a_change_and_delay_no_other_request(web: LiveWeb) -> None:
    request = (
        f"GET {web.cluster}/metadata/watch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n\r\n"
    ).encode()
    with ExitStack() as open_readers, selectors.DefaultSelector() as selector:
        heard: dict[socket.socket, bytes] = {}
        for _ in range(READERS):
            reader = open_readers.enter_context(socket.create_connection(("127.0.0.1", web.port), timeout=60))
            reader.sendall(request)
            selector.register(reader, selectors.EVENT_READ)
            heard[reader] = b""

        def all_hear(words: bytes) -> bool:
            for key, _ in selector.select(0.05):
                assert isinstance(key.fileobj, socket.socket)
                heard[key.fileobj] += key.fileobj.recv(65_536)
            return all(words in each for each in heard.values())

        kafka.wait_until(lambda: all_hear(b"retry: 1000"), 90, "all are connected", 0)
        assert is_served(web)
        made = web.client.post(f"{web.cluster}/topics", json={"topic_name": "heard.by.all"})
        assert made.status_code == 201, made.text
        kafka.wait_until(lambda: all_hear(b"topic heard.by.all: created"), 90, "all have heard", 0)
        assert is_served(web)
    assert is_served(web)


def test_a_head_that_comes_too_slowly_is_cut_off_and_others_are_served(
    web: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 2)
    with ExitStack() as slow:
        half = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
        readers = []
        for _ in range(200):
            readers.append(slow.enter_context(socket.create_connection(("127.0.0.1", web.port), timeout=60)))
            readers[-1].sendall(half)
        assert is_served(web)
        assert all(map(is_cut_off, readers))


def test_an_endless_body_is_cut_off(web: LiveWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.security import guard

    monkeypatch.setattr(guard, "BODY_SECONDS", 0.5)
    head = (
        f"POST {web.cluster}/topics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    ).encode()
    with socket.create_connection(("127.0.0.1", web.port), timeout=60) as connection:
        connection.sendall(head)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        b"Content-Length: 4\r\nContent-Length: 11\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n",
        b"Content-Length: +4\r\n",
    ],
)
def test_a_request_with_an_ambiguous_length_is_refused(web: LiveWeb, head: bytes) -> None:
    smuggled = b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", web.port), timeout=60) as connection:
        connection.sendall(b"POST /login HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n" + smuggled)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400"), answer
    assert answer.count(b"HTTP/1.1") == 1, "nothing behind it may be answered"


def test_readers_that_drop_out_or_never_read_leave_no_traceback(
    node: CombinedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_server, "SHUTDOWN_SECONDS", 1)
    with ExitStack() as readers, running_web(tmp_path, node.bootstrap) as web:
        web.wait_ready().wait_for_broker()
        web._listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)  # its connections inherit the size
        for number in range(4):
            body = {"topic_name": f"dropped.{number}.{'x' * 150}", "partitions_count": 100}
            assert web.client.post(f"{web.cluster}/topics", json=body).status_code == 201
        feed = f"GET {web.cluster}/metadata/watch?from_offset=0 HTTP/1.1\r\nHost: localhost\r\n"
        for how in (b"reset", b"closed", b"stuck"):
            for _ in range(5):
                reader = readers.enter_context(socket.socket())
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
                reader.connect(("127.0.0.1", web.port))
                reader.sendall(f"{feed}Authorization: Bearer {ADMIN_TOKEN}\r\n\r\n".encode())
                reader.recv(100)
                if how == b"reset":
                    reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if how != b"stuck":
                    reader.close()
        assert web.client.get("/healthz").status_code == 200
    assert [record.getMessage() for record in caplog.records if record.exc_info or record.levelname == "ERROR"] == []
