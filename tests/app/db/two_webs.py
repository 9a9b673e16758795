"""Two web processes with one database, and a proxy before them that retries."""

import itertools
import shutil
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from tests.app.live import LiveWeb, web_settings
from tests.interop import kafka

ATTEMPTS_MAX = 3
RETRY_S = 60.0


class RetryingProxy:
    """Sends each request to one of the ports in turn, and to the next one if there is no answer or 503."""

    def __init__(self, ports: list[int]) -> None:
        self._turn = itertools.cycle(ports)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                if not (received := client.recv(65_536)):
                    return
                request += received
            head, _, body = request.partition(b"\r\n\r\n")
            lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
            length = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
            while len(body) < length:
                body += client.recv(65_536)
            self._forward(client, b"\r\n".join([*lines, b"Connection: close", b"", b""]) + body)

    def _forward(self, client: socket.socket, request: bytes) -> None:
        deadline = time.monotonic() + RETRY_S
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", next(self._turn))) as server:
                server.sendall(request)
                answer = server.recv(65_536)
                if answer and not answer.startswith(b"HTTP/1.1 503"):
                    while answer:
                        client.sendall(answer)
                        answer = server.recv(65_536)
                    return
            time.sleep(0.05)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Pair:
    """Two web processes with one database and one session key."""

    def __init__(self, folder: Path, bootstrap: str, url: str) -> None:
        self.ports = kafka.free_ports(2)
        self._settings = [
            web_settings(folder / name, bootstrap, database_url=url, http_port=port, login_attempts_max=ATTEMPTS_MAX)
            for name, port in zip(("one", "two"), self.ports, strict=True)
        ]
        first = LiveWeb(self._settings[0]).wait_ready()
        self._settings[1].web_dir.mkdir(parents=True)
        shutil.copy2(self._settings[0].web_dir / "session-key", self._settings[1].web_dir)
        self.webs = [first, LiveWeb(self._settings[1]).wait_ready()]

    def restart(self, number: int) -> None:
        """Stop a process as SIGTERM does, start it again, and wait until it is ready."""
        self.webs[number].stop()
        self.webs[number] = LiveWeb(self._settings[number]).wait_ready()

    def stop(self) -> None:
        for web in self.webs:
            web.stop()
