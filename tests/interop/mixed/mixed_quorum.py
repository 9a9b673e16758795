"""A quorum of Apache's controllers and ours: three voters and a fourth node that joins."""

import asyncio
import shutil
import signal
from dataclasses import dataclass

from kraft_core.clients.quorum_fetch import describe_quorum_request
from kraft_core.protocol.messages import DescribeQuorumResponsePartitionData
from kraft_core.protocol.uuids import uuid_to_text
from kraft_core.storage.meta_properties import read_meta_properties
from tests.interop import kafka
from tests.interop.admin import tools
from tests.interop.admin.tools import Printed
from tests.interop.conclave import Quorum, call, describe_quorum
from tests.interop.dumps import attempt, conclave
from tests.interop.log_files import raw_batches
from tests.interop.metadata_load import Load

VOTERS = (1, 2, 3)
JOINER = 4
WRITES_BETWEEN = 25
"""Acknowledged writes after which a frozen node is certainly behind: one response may wait in its socket."""


@dataclass
class MixedQuorum:
    """`apache` are the ids of Apache's nodes; the others are ours."""

    nodes: Quorum
    apache: frozenset[int]
    tools: tools.Tools

    def side(self, node_id: int) -> str:
        """Return whose node it is."""
        return "apache" if node_id in self.apache else "ours"

    def format(self, node_id: int, *, as_voter: bool = True) -> None:
        """Format with the command of the node's side."""
        voters = ",".join(self.nodes.initial_controllers.split(",")[: len(VOTERS)])
        options = ("--initial-controllers", voters) if as_voter else ("--no-initial-controllers",)
        words = ("format", "-t", self.nodes.cluster_id, "-c", self.nodes.config_of(node_id), *options)
        if node_id in self.apache:
            self.tools.run(tools.STORAGE, *words)
        else:
            conclave(*words)

    def start(self, node_id: int) -> kafka.Process:
        """Start or restart a node."""
        return (self.nodes.start_apache if node_id in self.apache else self.nodes.start)(node_id)

    @property
    def leader_id(self) -> int:
        """Wait for a leader and return its id."""
        return self.nodes.wait_for_leader()

    def describe(self) -> DescribeQuorumResponsePartitionData:
        """Return the leader's description of the quorum."""
        return kafka.wait_until(
            lambda: asyncio.run(describe_quorum(self.nodes.port_of(self.leader_id))),
            kafka.PATIENCE_S,
            "the leader answers",
            0.02,
        )

    def voters(self) -> dict[int, str]:
        """Return the directory ids of the voters by id."""
        return {each.replica_id: uuid_to_text(each.replica_directory_id) for each in self.describe().current_voters}

    def directory_id(self, node_id: int) -> str:
        """Return the directory id in a node's meta.properties."""
        found = read_meta_properties(self.nodes.folder_of(node_id) / "data")
        assert found is not None
        assert found.directory_id is not None
        return uuid_to_text(found.directory_id)

    def wait_until_caught_up(self, *node_ids: int, slack: int = 20) -> None:
        """Wait until the leader knows that these nodes, voters or not, have its log."""

        def are_caught_up() -> bool:
            found = self.describe()
            ends = {each.replica_id: each.log_end_offset for each in (*found.observers, *found.current_voters)}
            return all(ends.get(each, -1) >= ends[found.leader_id] - slack for each in node_ids)

        try:
            kafka.wait_until(are_caught_up, kafka.PATIENCE_S, f"nodes {node_ids} have the log", 0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.describe()}\n{self.nodes.outputs()}") from None

    def hand_over(self, leader_id: int, successor: int, how: signal.Signals, load: Load) -> bool:
        """Kill or stop the leader while only `successor` has the whole log, so that it becomes the leader; restart the
        old one.

        The other voters are frozen while records are committed without them, until the leader is gone. Return False if
        the leader changed before that, as it may on a busy machine; then nothing was stopped.
        """
        nodes = self.nodes
        self.wait_until_caught_up(*VOTERS)
        others = [each for each in VOTERS if each not in {leader_id, successor}]
        for each in others:
            nodes.freeze(each)
        load.wait_for(WRITES_BETWEEN)
        is_leader = self.leader_id == leader_id
        process = nodes.processes[leader_id]
        if is_leader:
            process.send(how)
            if how is signal.SIGTERM:  # the others must not receive its last writes before it has resigned
                kafka.wait_until(lambda: self._has_resigned(leader_id), kafka.PATIENCE_S, "the leader resigns", 0.01)
            else:
                process.popen.wait(kafka.PATIENCE_S)
        for each in others:
            nodes.thaw(each)
        if is_leader:
            nodes.wait_for_leader(other_than=leader_id)
            assert process.popen.wait(kafka.PATIENCE_S) in {0, 143, -9}, process.output[-3000:]
            load.wait_for(2)
            self.start(leader_id)
        self.wait_until_caught_up(*VOTERS)
        return is_leader

    def _has_resigned(self, node_id: int) -> bool:
        """Return whether a node reports that it is not the leader, or no longer answers; a slow one may still lead."""
        try:
            answer = asyncio.run(call(self.nodes.port_of(node_id), describe_quorum_request(), 2))
        except TimeoutError:
            return False
        except (OSError, EOFError):
            return True
        return bool(answer.error_code or answer.topics[0].partitions[0].error_code)

    def pass_over(self, leader_id: int) -> None:
        """Freeze the leader until there is another one, then resume it."""
        self.nodes.freeze(leader_id)
        self.nodes.wait_for_leader(other_than=leader_id)
        self.nodes.thaw(leader_id)
        self.wait_until_caught_up(*VOTERS)

    def tool(self, *words: object) -> Printed:
        """Run kafka-metadata-quorum, again while a new controller has not loaded the metadata yet."""
        return self.tools.attempt_when_loaded(tools.QUORUM, *words)

    def add(self, node_id: int, with_tool: str) -> None:
        """Make a running node a voter, by Apache's command or ours; retried when the leader was lost."""
        bootstrap = ("--bootstrap-controller", self.nodes.bootstrap)
        config = self.nodes.config_of(node_id)

        def is_added() -> bool:
            self.wait_until_caught_up(node_id)
            if with_tool == "apache":
                print(self.tool(*bootstrap, "--command-config", config, "add-controller"))
            else:
                print(attempt("quorum", "add", *bootstrap, "-c", config))
            return self.voters().get(node_id) == self.directory_id(node_id)

        kafka.wait_until(is_added, kafka.PATIENCE_S, f"{node_id} is a voter")

    def remove(self, node_id: int, with_tool: str) -> None:
        """Remove a voter, by Apache's command or ours; retried when the leader was lost."""
        words = ("--controller-id", node_id, "--controller-directory-id", self.directory_id(node_id))
        bootstrap = ("--bootstrap-controller", self.nodes.bootstrap)

        def is_removed() -> bool:
            if with_tool == "apache":
                print(self.tool(*bootstrap, "remove-controller", *words))
            else:
                print(attempt("quorum", "remove", *bootstrap, *words))
            return node_id not in self.voters()

        kafka.wait_until(is_removed, kafka.PATIENCE_S, f"{node_id} is a voter no more")

    def wipe(self, node_id: int, **settings: object) -> None:
        """Empty a stopped node's folder and format it as a node that joins, with additional settings."""
        shutil.rmtree(self.nodes.folder_of(node_id) / "data")
        config = self.nodes.config_of(node_id)
        lines = "".join(f"{key.replace('_', '.')}={value}\n" for key, value in settings.items())
        config.write_text(config.read_text() + lines)
        self.format(node_id, as_voter=False)

    def end_on_disk(self, node_id: int) -> int:
        """Return the base offset of the last batch in a node's log."""
        return max(raw_batches(self.nodes.folder_of(node_id)))
