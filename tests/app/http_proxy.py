"""A proxy of HTTP for tests: it reads a request, and a subclass decides where the request goes."""

import socket
import threading
from contextlib import suppress


class HttpProxy:
    """Serves one request on each connection. From `__init__` to `close`."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._read, args=(client,), daemon=True).start()

    def _read(self, client: socket.socket) -> None:
        with client, suppress(OSError):  # without an answer, the client sees that its connection ends
            request = b""
            while b"\r\n\r\n" not in request:
                if not (received := client.recv(65_536)):
                    return
                request += received
            head, _, body = request.partition(b"\r\n\r\n")
            lines = head.split(b"\r\n")
            length = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
            while len(body) < length:
                body += client.recv(65_536)
            kept = [line for line in lines if not line.lower().startswith(b"connection:")]
            self.serve(client, head.decode("latin-1"), b"\r\n".join([*kept, b"Connection: close", b"", b""]) + body)

    def serve(self, client: socket.socket, head: str, request: bytes) -> None:
        """Answer a request. `head` is as the client sent it; `request` asks that its connection is closed."""
        raise NotImplementedError

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(60)
