"""`conclave up` as a new user runs it: from an empty folder to a clean stop, and a restart."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from app.cli.up import UpOptions
from kraft_core.storage.meta_properties import read_meta_properties
from tests.app.cli.test_up import command_line, options, wait_until


class Product:
    """One `conclave up` with its output in a file."""

    def __init__(self, chosen: UpOptions, output: Path) -> None:
        self.output = output
        command = [sys.executable, "-m", "app.cli.main", "up", "--data", str(chosen.data)]
        command += ["--http-port", str(chosen.http_port), "--kafka-port", str(chosen.kafka_port)]
        command += ["--controller-port", str(chosen.controller_port)]
        with output.open("wb") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    @property
    def text(self) -> str:
        return self.output.read_text()

    def wait_for(self, words: str, times: int = 1) -> None:
        def seen() -> bool:
            assert self.process.poll() is None, self.text
            return self.text.count(words) >= times

        wait_until(seen, f"prints {words!r}")

    def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(90)


def children_of(pid: int) -> dict[str, int]:
    """Process ids of the supervised children by command."""
    listing = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found: dict[str, int] = {}
    for child in listing:
        words = command_line(int(child))
        if "app.cli.main" in words[:-1]:  # skip a process that is just starting or has just ended
            found[words[words.index("app.cli.main") + 1]] = int(child)
    return found


def test_the_product_starts_in_an_empty_folder_survives_a_dead_node_and_restarts(tmp_path: Path) -> None:
    chosen = options(tmp_path / "data")
    product = Product(chosen, tmp_path / "first.out")
    try:
        product.wait_for("Data ")
        assert f"http://127.0.0.1:{chosen.http_port}\n" in product.text
        link = re.search(r"Log in +(http://\S+)", product.text)
        assert link is not None
        assert (tmp_path / "data" / "web" / "login-link").stat().st_mode & 0o777 == 0o600
        with urllib.request.urlopen(f"http://127.0.0.1:{chosen.http_port}/healthz", timeout=60) as answer:
            assert answer.status == 200
        first = children_of(product.process.pid)
        assert set(first) == {"node", "web"}
        os.kill(first["node"], signal.SIGKILL)
        product.wait_for("node ended with exit code -9 and is restarted")
        wait_until(lambda: children_of(product.process.pid).get("node", first["node"]) != first["node"], "a new node")
        assert children_of(product.process.pid)["web"] == first["web"]
        assert product.stop(signal.SIGINT) == 0
    finally:
        product.process.kill()
        product.process.wait()
    assert product.text.rstrip().endswith("Stopped.")
    for pid in first.values():
        assert not Path(f"/proc/{pid}").exists()

    meta = read_meta_properties(tmp_path / "data" / "kafka")
    again = Product(chosen, tmp_path / "second.out")
    try:
        again.wait_for("Data ")
        assert "Formatting" not in again.text
        assert again.stop(signal.SIGTERM) == 0
    finally:
        again.process.kill()
        again.process.wait()
    assert read_meta_properties(tmp_path / "data" / "kafka") == meta
