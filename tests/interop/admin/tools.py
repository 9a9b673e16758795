"""Kafka's command-line tools in one JVM, for tests that run many of them."""

import select
import subprocess
import time
from pathlib import Path
from typing import NamedTuple, Self

from tests.interop import kafka
from tests.interop.kafka import PATIENCE_S

ACLS = "org.apache.kafka.tools.AclCommand"
API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
CONFIGS = "kafka.admin.ConfigCommand"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
STORAGE = "kafka.tools.StorageTool"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
NOT_LOADED = "not supported with the current MetadataVersion"
"""The error of a controller that has just started and does not know the metadata.version yet."""


class Printed(NamedTuple):
    """The output of a tool."""

    code: int
    text: str


class Tools:
    """Runs main classes one at a time; leaving `with` ends the JVM."""

    def __init__(self, folder: Path) -> None:
        self._errors = (folder / "tools.err").open("wb")
        self._jvm = subprocess.Popen(
            kafka.java(str(Path(__file__).with_name("Tools.java")), log_level="ERROR"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
        )

    def run(self, main_class: str, *arguments: object, timeout_s: float = 2 * PATIENCE_S) -> str:
        """Run a tool and return its output. The test fails if the tool fails."""
        printed = self.attempt(main_class, *arguments, timeout_s=timeout_s)
        assert printed.code == 0, f"{main_class} {arguments}: exit code {printed.code}\n{printed.text}"
        return printed.text

    def attempt_when_loaded(self, main_class: str, *arguments: object) -> Printed:
        """Run a tool that may fail, again while the controller has not loaded the metadata yet.

        The tool chooses a controller at random, so one success says nothing about the next call.
        """

        def answered() -> Printed | None:
            printed = self.attempt(main_class, *arguments)
            return None if NOT_LOADED in printed.text else printed

        return kafka.wait_until(answered, PATIENCE_S, "the controller that is asked has loaded the metadata")

    def attempt(self, main_class: str, *arguments: object, timeout_s: float = 2 * PATIENCE_S) -> Printed:
        """Run a tool that may fail."""
        words = [main_class, *map(str, arguments)]
        assert not any("\t" in word or "\n" in word for word in words), words
        assert self._jvm.stdin is not None
        self._jvm.stdin.write(("\t".join(words) + "\n").encode())
        deadline = time.monotonic() + timeout_s
        code, size = self._read_line(deadline).split()
        return Printed(int(code), self._read(int(size), deadline).decode())

    def _read_line(self, deadline: float) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            line += self._read(1, deadline)
        return line

    def _read(self, size: int, deadline: float) -> bytes:
        assert self._jvm.stdout is not None
        data = b""
        while len(data) < size:
            left_s = deadline - time.monotonic()
            assert left_s > 0, "the tool does not come to an end"
            if select.select([self._jvm.stdout], [], [], left_s)[0]:
                piece = self._jvm.stdout.read(size - len(data))
                assert piece, f"the JVM of the tools has ended with {self._jvm.wait(10)}"
                data += piece
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._jvm.kill()
        self._jvm.wait(20)
        for each in (self._jvm.stdin, self._jvm.stdout, self._errors):
            assert each is not None
            each.close()
