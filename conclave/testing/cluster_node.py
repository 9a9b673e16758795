"""One node of a test cluster: its folder, its server.properties and its process.

All processes of a cluster are one process group. Its leader, the guard, is a shell that waits for the end of its
standard input, which only the test process can write to: when that process ends, however it does, the guard kills the
group. So no node outlives it, not even a paused one.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kraft_core.storage.properties import format_properties

READY_S: Final = 60.0
"""How long a node may take to start or to stop. It usually takes less than a second."""
POLL_S: Final = 0.01
TAIL_LINES: Final = 10
_GUARD: Final = ("/bin/sh", "-c", "cat >/dev/null; kill -KILL 0")


class ClusterError(Exception):
    """The cluster cannot do what was asked; the message says why and names the log of the node."""


class ProcessGroup:
    """The guard and, in its process group, the nodes of one cluster."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._guard = subprocess.Popen(_GUARD, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0)
        self._processes: list[subprocess.Popen[bytes]] = [self._guard]

    def spawn(self, command: list[str], folder: Path, log_file: Path) -> subprocess.Popen[bytes]:
        """Start a program in the group, with its output in a file."""
        with log_file.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                process_group=self._guard.pid,
            )
        self._processes.append(process)
        return process

    def kill(self) -> bool:
        """Kill every process of the group, paused ones too, and wait for their end.

        Return False, and do nothing, in a forked child of the process that started them.
        """
        if os.getpid() != self._owner:
            return False
        if self._guard.poll() is None:
            os.killpg(self._guard.pid, signal.SIGKILL)
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        return True


@dataclass
class ClusterNode:
    """One node. Its ports, folder and settings stay the same when it restarts."""

    node_id: int
    folder: Path
    settings: Mapping[str, str]
    broker_port: int | None
    controller_port: int | None
    process: subprocess.Popen[bytes] | None = None
    is_paused: bool = False
    _log_start: int = field(default=0, repr=False)

    @property
    def log_file(self) -> Path:
        """What the node has printed, of all its starts."""
        return self.folder / "node.log"

    @property
    def config_file(self) -> Path:
        """Its server.properties."""
        return self.folder / "server.properties"

    @property
    def is_running(self) -> bool:
        """Whether its process exists. A paused one does."""
        return self.process is not None and self.process.poll() is None

    def write_settings(self) -> None:
        """Create the folder with server.properties."""
        self.folder.mkdir(parents=True)
        self.config_file.write_text(format_properties(dict(self.settings)), encoding="utf-8")

    def spawn(self, group: ProcessGroup) -> None:
        """Start the process, without waiting for it."""
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        self.is_paused = False
        command = [sys.executable, "-P", "-m", "kraft_core", str(self.config_file)]
        self.process = group.spawn(command, self.folder, self.log_file)

    def wait_until_ready(self) -> None:
        """Wait until the roles of the node report that they serve. Raises ClusterError."""
        events = [b"broker_started"] if self.broker_port is not None else [b"controller_started"]
        deadline = time.monotonic() + READY_S
        while not all(event in self._new_output() for event in events):
            if not self.is_running:
                assert self.process is not None, "spawned before"
                raise self._failure(f"ended with exit code {self.process.returncode} before it was ready")
            if time.monotonic() > deadline:
                raise self._failure(f"was not ready within {READY_S:.0f} s")
            time.sleep(POLL_S)

    def _new_output(self) -> bytes:
        with self.log_file.open("rb") as stream:
            stream.seek(self._log_start)
            return stream.read()

    def kill(self) -> None:
        """End the process by SIGKILL. Nothing happens if it does not run."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.is_paused = False

    def stop(self) -> None:
        """End the process by SIGTERM. Nothing happens if it does not run. Raises ClusterError if it fails or hangs."""
        if self.process is None or not self.is_running:
            return
        self.resume()
        self.process.terminate()
        try:
            code = self.process.wait(READY_S)
        except subprocess.TimeoutExpired:
            raise self._failure(f"did not stop within {READY_S:.0f} s") from None
        if code != 0:
            raise self._failure(f"ended with exit code {code}")

    def pause(self) -> None:
        """Stop the process with SIGSTOP. Raises ClusterError if it does not run."""
        self._signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """Let a paused process continue. Raises ClusterError if it does not run."""
        self._signal(signal.SIGCONT)
        self.is_paused = False

    def _signal(self, number: signal.Signals) -> None:
        if self.process is None or not self.is_running:
            raise ClusterError(f"Node {self.node_id} does not run.")
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def _failure(self, what: str) -> ClusterError:
        lines = self._new_output().decode(errors="replace").splitlines()[-TAIL_LINES:]
        return ClusterError(f"Node {self.node_id} {what}; {self.log_file} says:\n" + "\n".join(lines))
