"""A proxy between a client and the web process that loses or cuts the answers which a test names."""

import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

LIMITED = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>"


class FaultyProxy:
    """Forwards each request on a connection of its own. `faults` has what happens to the next ones:

    `drop`: the request is lost. `lose`: its answer is lost. `limit`, `gateway`: it is answered with 429 or 502 without
    being forwarded. A number: the connection ends after so many bytes of the answer. `pass`: nothing.
    """

    def __init__(self, url: str) -> None:
        self._upstream = ("127.0.0.1", urlsplit(url).port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.faults: deque[str | int] = deque()
        self.heads: list[str] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            request = b""
            while b"\r\n\r\n" not in request:
                received = client.recv(65_536)
                if not received:
                    return
                request += received
            head, _, body = request.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            length = next((int(line[15:]) for line in lines if line.lower().startswith("content-length:")), 0)
            while len(body) < length:
                body += client.recv(65_536)
            self.heads.append(head.decode())
            fault = self.faults.popleft() if self.faults else "pass"
            if fault == "limit":
                client.sendall(LIMITED)
            elif fault == "gateway":
                client.sendall(BAD_GATEWAY)
            elif fault != "drop":
                kept = [line for line in lines if not line.lower().startswith("connection:")]
                self._forward("\r\n".join([*kept, "Connection: close", "", ""]).encode() + body, client, fault)

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

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(60)


@contextmanager
def faulty_proxy(url: str) -> Iterator[FaultyProxy]:
    """A running proxy, stopped at the end."""
    proxy = FaultyProxy(url)
    try:
        yield proxy
    finally:
        proxy.stop()
