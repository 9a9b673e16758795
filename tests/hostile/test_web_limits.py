"""The web process under requests without end: what it keeps of them is bounded, and others are served."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.http_server import HEAD_BYTES_MAX
from tests.app.live import LiveWeb, running_web
from tests.interop.kafka import PATIENCE_S, free_ports

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    folder: Path = tmp_path_factory.mktemp("web")
    with running_web(folder, f"127.0.0.1:{free_ports(1)[0]}") as found:  # nobody needs to be there
        yield found


def send_until_closed(port: int, start: bytes, filler: bytes, most: int) -> int:
    """Send `start`, then `filler` again and again -> bytes taken before the peer closed."""
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
def test_a_request_head_without_end_is_cut_off(web: LiveWeb, start: bytes, filler: bytes) -> None:
    sent = send_until_closed(web.port, start, filler, 40 * MEGABYTE)
    assert sent < 20 * MEGABYTE, "all but what socket buffers hold must be refused"
    assert web.client.get("/healthz").status_code == 200


def test_a_head_that_is_only_large_is_served(web: LiveWeb) -> None:
    assert web.client.get("/healthz", headers={"X-Large": "a" * (HEAD_BYTES_MAX // 2)}).status_code == 200
