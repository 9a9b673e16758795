"""The whole product as a user starts it: `conclave up` in a folder of its own, on free ports."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conclave.testing.free_ports import free_ports
from tests.interop.kafka import wait_until

TOKEN = "a-token-for-tests-0123456789"
START_SECONDS = 120
STOP_SECONDS = 60
BROKER_SECONDS = 60


@dataclass(frozen=True)
class Product:
    """A running product."""

    folder: Path
    url: str
    kafka_port: int
    controller_port: int

    @property
    def login_link(self) -> str:
        """The one-time link of the first admin."""
        return (self.folder / "data" / "web" / "login-link").read_text().strip()

    def call(self, method: str, path: str, body: object = None, token: str = TOKEN) -> tuple[int, Any]:
        """A REST call -> (status, body); the body is None when it is empty."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.loads(refused.read())

    def read(self, path: str) -> str:
        """A page as a visitor gets it."""
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return str(answer.read().decode())

    @property
    def cluster_path(self) -> str:
        """/v3/clusters/ID."""
        _, clusters = self.call("GET", "/v3/clusters")
        return f"/v3/clusters/{clusters['data'][0]['cluster_id']}"


@contextmanager
def running_product(
    folder: Path,
    command: tuple[str, ...] = (sys.executable, "-m", "app.cli.main", "up"),
    environment: Mapping[str, str] | None = None,
    start_seconds: float = START_SECONDS,
) -> Iterator[Product]:
    """Start the product and wait until it says ready and its broker takes part.

    Stop it with SIGTERM to its group, which must work.

    `command` is what a user types; `make run` takes the options in ARGS.
    """
    http, kafka, controller = free_ports(3)
    options = ["--data", str(folder / "data"), "--http-port", str(http), "--kafka-port", str(kafka)]
    options += ["--controller-port", str(controller)]
    by_make = command[0] == "make"
    inherited = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with (folder / "up.log").open("wb") as output:
        process = subprocess.Popen(
            [*command, f"ARGS={' '.join(options)}"] if by_make else [*command, *options],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**(inherited if environment is None else environment), "CONCLAVE_ADMIN_TOKEN": TOKEN},
            start_new_session=True,
        )
    product = Product(folder, f"http://127.0.0.1:{http}", kafka, controller)
    try:
        _wait_until_ready(product, process, start_seconds)
        _wait_for_the_broker(product)
        yield product
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            code = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    assert by_make or code == 0, (folder / "up.log").read_text()


def _wait_until_ready(product: Product, process: "subprocess.Popen[bytes]", start_seconds: float) -> None:
    deadline = time.monotonic() + start_seconds
    while True:
        assert process.poll() is None, (product.folder / "up.log").read_text()
        try:
            with urllib.request.urlopen(f"{product.url}/readyz", timeout=5) as answer:
                if answer.status == 200:
                    return
        except urllib.error.HTTPError as not_yet:
            not_yet.close()
        except OSError:  # nobody listens yet, or not well enough to answer in time
            pass
        assert time.monotonic() < deadline, (product.folder / "up.log").read_text()
        time.sleep(0.1)


def _wait_for_the_broker(product: Product) -> None:
    """The web process is ready before the broker is unfenced; until then no topic can be made."""

    def is_unfenced() -> bool:
        status, broker = product.call("GET", f"{product.cluster_path}/brokers/1")
        return status == 200 and not broker["is_fenced"]

    wait_until(is_unfenced, BROKER_SECONDS, "the broker is unfenced")
