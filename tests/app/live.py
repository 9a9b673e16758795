"""The real web process on a real port, in a thread of the test, and a real node for it."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvloop

from app.config import Settings, load_settings
from app.http.server import WebServer, listen
from app.services import Services
from app.web import create_app
from tests.interop import conclave, kafka

ADMIN_TOKEN = "test-admin-token-0123456789"
LOGIN_LINK_USER = "admin"


class Browser(httpx.Client):
    """A client of a web process."""

    last: httpx.Response
    """The answer to its last login."""


class LiveWeb:
    """One web process. `client` is an admin's, with a token; `http()` creates others."""

    def __init__(self, settings: Settings, *, waits: bool = True) -> None:
        self._listener = listen("127.0.0.1", settings.http_port)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.app = create_app(settings, self.url)
        self.services: Services = self.app.state.services
        self._clients: list[httpx.Client] = []
        self._started = threading.Event()
        self._loop = uvloop.new_event_loop()
        self._server = WebServer(
            self.app,
            connections_max=self.app.state.connections_max,
            on_started=self._started.set,
            on_stopping=self.app.state.clusters.begin_stop,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._started.wait(60), "the web process did not start"
        if waits:
            kafka.wait_until(lambda: self.app.state.startup.is_done, 60, "the web process has started", 0.01)
        self.client = self.http(ADMIN_TOKEN)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._server.serve(sockets=[self._listener]))

    def http(self, token: str | None = None, **options: Any) -> Browser:
        """Return a new client; without a token it is anonymous until it logs in."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        client = Browser(base_url=self.url, headers=headers, timeout=60, **options)
        self._clients.append(client)
        return client

    def call(self, coroutine: Any) -> Any:
        """Run a coroutine on the process's event loop and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    @property
    def login_link(self) -> str:
        """The one-time link of the start."""
        link: str = self.app.state.login_link
        return link

    def wait_for_broker(self, broker_id: int = 1, *, unfenced: bool = True) -> "LiveWeb":
        """Wait until the image has an active broker, since topics need one."""

        def is_there() -> bool:
            broker = self.services.cluster.image.cluster.brokers.get(broker_id)
            return broker is not None and not (unfenced and broker.fenced)

        kafka.wait_until(is_there, 60, f"broker {broker_id} is in the image", 0.02)
        return self

    def wait_ready(self) -> "LiveWeb":
        """Wait until the image has been read."""
        kafka.wait_until(lambda: self.client.get("/readyz").status_code == 200, 60, "the web process is ready", 0.05)
        return self

    @property
    def cluster(self) -> str:
        """Path of the cluster in the API."""
        cluster_id = kafka.wait_until(lambda: self.services.cluster.cluster_id, 60, "the cluster id is known", 0.02)
        return f"/v3/clusters/{cluster_id}"

    def stop(self) -> None:
        """Stop the process as SIGTERM would."""
        for client in self._clients:
            client.close()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(60)
        assert not self._thread.is_alive(), "the web process did not stop"


def web_settings(folder: Path, bootstrap: str, **settings: Any) -> Settings:
    """Settings of a web process with its data below `folder`."""
    given = {"admin_token": ADMIN_TOKEN, "http_port": 0, "request_timeout_ms": 30_000, **settings}
    return load_settings(None, bootstrap_controllers=bootstrap, data_dir=folder / "web-data", **given)


@contextmanager
def running_web(folder: Path, bootstrap: str, **settings: Any) -> Iterator[LiveWeb]:
    """A web process, stopped at the end."""
    web = LiveWeb(web_settings(folder, bootstrap, **settings))
    try:
        yield web
    finally:
        web.stop()


class CombinedNode:
    """One node with both roles."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        broker_port, controller_port = kafka.free_ports(2)
        self.bootstrap = f"127.0.0.1:{controller_port}"
        self.broker = f"127.0.0.1:{broker_port}"
        self.config = kafka.write_properties(
            folder / "server.properties",
            {
                "process.roles": "broker,controller",
                "node.id": 1,
                "listeners": f"PLAINTEXT://{self.broker},CONTROLLER://{self.bootstrap}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": self.bootstrap,
                "log.dirs": folder / "data",
                "offsets.topic.replication.factor": 1,
                "log.retention.hours": 167,
                "broker.session.timeout.ms": 3_600_000,  # no broker is fenced because the machine is busy
            },
        )
        command = [str(Path(sys.executable).with_name("conclave")), "format", "-c", str(self.config), "--standalone"]
        self.cluster_id = conclave.new_cluster_id()
        subprocess.run([*command, "-t", self.cluster_id], check=True, capture_output=True, timeout=60)
        self.process = conclave.start("node", self.config)


@contextmanager
def combined_node(folder: Path) -> Iterator[CombinedNode]:
    """A running node, killed at the end."""
    node = CombinedNode(folder)
    try:
        yield node
    finally:
        node.process.kill()
