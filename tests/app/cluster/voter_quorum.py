"""Three controllers, a fourth that observes, and a web process."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kraft_core.protocol.control_records import VotersRecord, decode_control
from kraft_core.protocol.record_batch import read_batches
from kraft_core.protocol.uuids import uuid_to_text
from kraft_core.storage.meta_properties import read_meta_properties
from tests.app.live import LiveWeb, running_web
from tests.interop import conclave, kafka

JOINER = 4


class VoterQuorum:
    """`bootstrap` names the first three voters."""

    def __init__(self, nodes: conclave.Quorum, web: LiveWeb) -> None:
        self.nodes = nodes
        self.web = web
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in nodes.ports[:3])
        properties = read_meta_properties(nodes.folder_of(JOINER) / "data")
        assert properties is not None
        assert properties.directory_id is not None
        self.directory_id = uuid_to_text(properties.directory_id)

    def describe(self) -> dict[str, Any]:
        """Return the quorum as REST shows it."""
        found: dict[str, Any] = self.web.client.get(f"{self.web.cluster}/quorum").json()
        return found

    @property
    def voters(self) -> list[int]:
        """Return the ids of the voters."""
        return [each["replica_id"] for each in self.describe()["voters"]]

    @property
    def leader_id(self) -> int:
        """Return the id of the leader."""
        found = kafka.wait_until(
            lambda: (found := self.describe())["is_live"] and [found["leader_id"]], 60, "a leader answers", 0.05
        )
        return int(found[0])

    def wait_until_led_by_another_than(self, node_id: int) -> None:
        """Wait until the web process sees a leader other than this node."""
        kafka.wait_until(
            lambda: (found := self.describe())["is_live"] and found["leader_id"] not in {None, node_id},
            60,
            "another leader",
            0.05,
        )

    def dumped_voters(self) -> dict[int, set[int]]:
        """Return offset → voter ids for every voter set in the leader's log on disk."""
        log = self.nodes.folder_of(self.leader_id) / "data" / "__cluster_metadata-0" / "00000000000000000000.log"
        return {
            record.offset: {voter.voter_id for voter in control.voters}
            for batch in read_batches(log.read_bytes())
            if batch.is_control
            for record in batch.records()
            if isinstance(control := decode_control(record.key or b"", record.value or b""), VotersRecord)
        }

    def wait_until_observed(self, node_id: int = JOINER) -> None:
        """Wait until a node, by default the fourth, is a caught-up and registered observer."""

        def is_ready() -> bool:
            observers = self.describe()["observers"]
            caught_up = any(each["replica_id"] == node_id and each["is_caught_up"] for each in observers)
            return caught_up and node_id in self.web.services.cluster.image.cluster.controllers

        kafka.wait_until(is_ready, 60, f"node {node_id} observes", 0.05)

    def conclave(self, *arguments: object) -> "subprocess.CompletedProcess[str]":
        """Run `conclave quorum …`."""
        command = [Path(sys.executable).with_name("conclave"), "quorum", *arguments]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)


def format_node(nodes: conclave.Quorum, node_id: int, *options: str) -> None:
    """Run `conclave format`."""
    program = Path(sys.executable).with_name("conclave")
    command = [program, "format", "-c", nodes.config_of(node_id), "-t", nodes.cluster_id, *options]
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=60)


@contextmanager
def voter_quorum(folder: Path) -> Iterator[VoterQuorum]:
    """All of them running, killed at the end. A short delay of a follower causes no election."""
    with conclave.quorum(folder, 4, controller_quorum_fetch_timeout_ms=5_000) as nodes:
        voters = ",".join(nodes.initial_controllers.split(",")[:3])
        for node_id in (1, 2, 3):
            nodes.format(node_id, voters)
        format_node(nodes, JOINER, "--no-initial-controllers")
        for node_id in nodes.node_ids:
            nodes.start(node_id)
        nodes.wait_for_leader(60)
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in nodes.ports[:3])
        with running_web(folder, bootstrap, login_attempts_max=100) as web:
            web.wait_ready()
            found = VoterQuorum(nodes, web)
            found.wait_until_observed()
            yield found


@contextmanager
def static_node(folder: Path) -> Iterator[str]:
    """One controller with static voters (kraft.version 0), killed at the end. Returns its host:port."""
    with conclave.quorum(folder / "static", 1) as nodes:
        settings = kafka.controller_settings(1, nodes.port_of(1), nodes.folder_of(1), nodes.bootstrap)
        del settings["controller.quorum.bootstrap.servers"]
        kafka.write_properties(nodes.config_of(1), {**settings, "controller.quorum.voters": f"1@{nodes.bootstrap}"})
        format_node(nodes, 1)
        nodes.start(1)
        nodes.wait_for_leader(60)
        yield nodes.bootstrap
