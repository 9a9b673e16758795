"""Kafka's tools cannot tell our controller from Apache's.

The same commands, through brokers and to the controller, print the same and exit with the same code on a cluster of
Apache's controller and on one of ours. Only necessary differences are ignored: ports, random ids, times and offsets.
"""

import asyncio
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest

from kraft_core.clients.quorum_fetch import describe_quorum_request
from kraft_core.protocol.software import api_versions_request
from tests.interop import conclave, kafka
from tests.interop.admin import tool_commands as commands
from tests.interop.admin import tools
from tests.interop.admin.tool_commands import MOMENTARY, SUBCOMMAND_FIRST, UNORDERED, Command
from tests.interop.admin.two_clusters import SILENT_BROKER_ID, Cluster, two_clusters
from tests.interop.kafka import PATIENCE_S

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1_200)]  # the first test waits for all commands

CHAPTERS = {
    "topics": commands.TOPICS,
    "configs": commands.CONFIGS,
    "users": commands.USERS,
    "acls": commands.ACLS,
    "reassignments": commands.REASSIGNMENTS,
    "endless reassignments": commands.ENDLESS_REASSIGNMENTS,
    "elections": commands.ELECTIONS,
    "features": commands.FEATURES,
    "cluster": commands.CLUSTER,
    "quorum": commands.QUORUM,
    "versions": commands.VERSIONS,
}


@dataclass
class Output:
    """The output of one command on one side."""

    code: int
    lines: list[str]

    def is_wanted(self, command: Command) -> bool:
        """Whether the output is the expected one."""
        return self.code == command.code and command.wants in "\n".join(self.lines)


@dataclass
class Comparison:
    """The two clusters, and their outputs for all commands of all chapters."""

    jvm: tools.Tools
    clusters: tuple[Cluster, Cluster]
    answers: dict[str, list[tuple[Command, Output, Output]]] = field(default_factory=dict)
    _files: int = 0

    def run(self, chapter: str) -> None:
        """Run the same commands on both, one after the other. Read-only ones are repeated until the outputs agree."""
        self.answers[chapter] = [(command, *self._ask_both(command)) for command in CHAPTERS[chapter]]

    def _ask_both(self, command: Command) -> tuple[Output, Output]:
        deadline = time.monotonic() + (PATIENCE_S if command.is_read_only else 0)
        if not command.is_read_only:  # the tool may read from a broker before it acts
            asyncio.run(wait_until_brokers_follow(self.clusters))
        while True:
            apache, ours = (self.ask(cluster, command) for cluster in self.clusters)
            is_settled = apache == ours and apache.is_wanted(command)
            if is_settled or time.monotonic() > deadline:
                return apache, ours

    def attempt(self, cluster: Cluster, command: Command) -> tools.Printed:
        """Run a command on one of the two, as the administrator."""
        words: list[object] = [self._file(cluster, word) if word.startswith("{") else word for word in command.words]
        address: list[object] = ["--bootstrap-controller", cluster.controller]
        if not command.to_controller:
            address = ["--bootstrap-server", cluster.brokers, "--command-config", cluster.admin_config]
        parts: list[list[object]] = (
            [words[:1], address, words[1:]] if command.tool in SUBCOMMAND_FIRST else [address, words]
        )
        return self.jvm.attempt(command.tool, *(word for part in parts for word in part))

    def ask(self, cluster: Cluster, command: Command) -> Output:
        """Run a command on one of the two, and remove what may differ."""
        printed = self.attempt(cluster, command)
        momentary = MOMENTARY.get(command.tool, re.compile(r"(?!)"))
        lines = [momentary.sub("", line) for line in cluster.words(printed.text)]
        return Output(printed.code, sorted(lines) if command.tool in UNORDERED else lines)

    def _file(self, cluster: Cluster, content: str) -> str:
        self._files += 1
        path = cluster.folder / f"{self._files}.json"
        path.write_text(content)
        return str(path)


async def wait_until_brokers_follow(clusters: Iterable[Cluster]) -> None:
    """Wait until every broker has the metadata that its controller has acknowledged."""
    deadline = time.monotonic() + PATIENCE_S
    for cluster in clusters:
        quorum = await conclave.call(cluster.controller_port, describe_quorum_request(), 2, timeout_s=PATIENCE_S)
        end = quorum.topics[0].partitions[0].high_watermark
        for port in cluster.client_ports.values():
            known = -1
            while known < end - 1:
                assert time.monotonic() < deadline, f"a broker has the metadata up to {known}, not {end - 1}"
                versions = await conclave.call(port, api_versions_request(), 4, timeout_s=PATIENCE_S)
                known = versions.finalized_features_epoch  # in a broker the offset of its image


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory, tools: tools.Tools) -> Iterator[Comparison]:
    with two_clusters(tmp_path_factory.mktemp("two"), tools) as clusters:
        found = Comparison(tools, clusters)
        for chapter in CHAPTERS:
            if chapter == "endless reassignments":
                for cluster in clusters:
                    cluster.register(SILENT_BROKER_ID)
            found.run(chapter)
        yield found


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_tool_prints_the_same_for_our_controller_and_apaches(comparison: Comparison, chapter: str) -> None:
    different = [
        f"{command}\n  Apache's {apache}\n  Ours     {ours}"
        for command, apache, ours in comparison.answers[chapter]
        if apache != ours
    ]
    assert not different, "\n".join(different)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_command_has_its_expected_output(comparison: Comparison, chapter: str) -> None:
    """Equal errors prove nothing, for example those of a misspelt command."""
    missed = [
        f"{command}: {command.wants!r} and {command.code} wanted\n  {ours}"
        for command, _, ours in comparison.answers[chapter]
        if not ours.is_wanted(command)
    ]
    assert not missed, "\n".join(missed)


@dataclass
class TokenLifecycle:
    """The outputs of a cluster about a delegation token, from its creation to its expiry."""

    comparison: Comparison
    cluster: Cluster
    outputs: list[list[str]] = field(default_factory=list)

    def ask(self, *words: str, code: int = 0) -> str:
        """Run kafka-delegation-tokens and record its output."""
        printed = self.comparison.attempt(self.cluster, Command(tools.TOKENS, words, ""))
        assert printed.code == code, printed
        self.outputs.append(sorted(self.cluster.words(printed.text)))  # tokens are in no order
        return printed.text

    def ask_until(self, wanted: str, *words: str) -> None:
        """Run a command until the broker has applied the change, and record its output."""

        def answer() -> tools.Printed | None:
            printed = self.comparison.attempt(self.cluster, Command(tools.TOKENS, words, ""))
            return printed if printed.code == 0 and wanted in printed.text else None

        printed = kafka.wait_until(answer, PATIENCE_S, f"{words} says {wanted}")
        self.outputs.append(sorted(self.cluster.words(printed.text)))

    def log_in_until(self, token_id: str, hmac: str, *, code: int, wanted: str) -> None:
        """Try to log in until the broker has applied the change of the token."""

        def is_reached() -> bool:
            printed = self.log_in(token_id, hmac)
            return printed.code == code and wanted in printed.text

        kafka.wait_until(is_reached, PATIENCE_S, f"a login by the token says {wanted}")

    def log_in(self, token_id: str, hmac: str) -> tools.Printed:
        """List the topics with the token's credentials."""
        config = self.cluster.token_config(token_id, hmac)
        words = ("--bootstrap-server", self.cluster.brokers, "--command-config", config, "--list")
        return self.comparison.jvm.attempt(tools.TOPICS, *words)

    def run_all(self) -> None:
        """Create two tokens, log in with one, renew it, let it expire, and run invalid commands."""
        create = ("--create", "--max-life-time-period", "-1")
        made = self.ask(*create, "--renewer-principal", "User:bob")
        token_id, hmac = re.findall(r"(?m)^(\S{22})\s+(\S{86}==)", made)[0]
        self.ask("--create", "--max-life-time-period", "86400000", "--owner-principal", "User:carol")
        self.log_in_until(token_id, hmac, code=0, wanted="orders")
        owned = ("--describe", "--owner-principal")
        self.ask_until(": 1", *owned, "User:carol")
        self.ask_until(": 2", *owned, "User:admin")  # the owner of both
        self.ask_until(": 0", *owned, "User:nobody")
        self.ask("--renew", "--renew-time-period", "-1", "--hmac", hmac)
        self.ask("--renew", "--renew-time-period", "-1", "--hmac", "bm8gdG9rZW4=", code=1)
        self.ask("--expire", "--expiry-time-period", "-1", "--hmac", "bm8gdG9rZW4=", code=1)
        self.ask("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
        self.log_in_until(token_id, hmac, code=1, wanted="Authentication failed")
        self.ask_until(": 1", *owned, "User:admin")


def test_delegation_tokens_expire_as_under_apaches_controller(comparison: Comparison) -> None:
    apache, ours = (TokenLifecycle(comparison, cluster) for cluster in comparison.clusters)
    for lifecycle in (apache, ours):
        lifecycle.run_all()
    assert len(ours.outputs) == 10
    assert ours.outputs == apache.outputs
