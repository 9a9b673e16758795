"""A proxy between a client and the web process that loses or cuts the answers which a test names."""

import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.app.http_proxy import HttpProxy

LIMITED = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>"


class FaultyProxy(HttpProxy):
    """Forwards each request on a connection of its own. `faults` has what happens to the next ones:

    `drop`: the request is lost. `lose`: its answer is lost. `limit`, `gateway`: it is answered with 429 or 502 without
    being forwarded. A number: the connection ends after so many bytes of the answer. `pass`: nothing.
    """

    def __init__(self, url: str) -> None:
        self._upstream = ("127.0.0.1", urlsplit(url).port)
        self.faults: deque[str | int] = deque()
        self.heads: list[str] = []
        super().__init__()

    def serve(self, client: socket.socket, head: str, request: bytes) -> None:
        self.heads.append(head)
        fault = self.faults.popleft() if self.faults else "pass"
        if fault == "limit":
            client.sendall(LIMITED)
        elif fault == "gateway":
            client.sendall(BAD_GATEWAY)
        elif fault != "drop":
            self._forward(request, client, fault)

    def _forward(self, request: bytes, client: socket.socket, fault: str | int) -> None:
        left = fault if isinstance(fault, int) else 0 if fault == "lose" else 2**62
        with socket.create_connection(self._upstream) as server:
            server.sendall(request)
            while True:
                received = server.recv(65_536)
                if not received:
                    return
                try:
                    client.sendall(received[:left])
                except OSError:
                    return
                left -= len(received[:left])
                if left == 0 and isinstance(fault, int):
                    return


@contextmanager
def faulty_proxy(url: str) -> Iterator[FaultyProxy]:
    """A running proxy, stopped at the end."""
    proxy = FaultyProxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
