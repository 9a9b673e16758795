"""Two web processes with one database, and a proxy before them that retries."""

import itertools
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path

from tests.app.http_proxy import HttpProxy
from tests.app.live import LiveWeb, web_settings
from tests.interop import kafka

ATTEMPTS_MAX = 3
RETRY_S = 60.0


class RetryingProxy(HttpProxy):
    """Sends each request to one of the ports in turn, and to the next one if there is no answer or 503."""

    def __init__(self, ports: list[int]) -> None:
        self._turn = itertools.cycle(ports)
        super().__init__()

    def serve(self, client: socket.socket, head: str, request: bytes) -> None:
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
            time.sleep(0.05)  # both may be starting


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
