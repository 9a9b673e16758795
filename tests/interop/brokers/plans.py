"""A plan's files, given to Apache's own tools."""

import re
from pathlib import Path

from app.reports.proposals.formats import elect_json, reassign_json, rollback_json
from app.reports.proposals.layout import layout_from_image
from app.reports.proposals.options import Options
from app.reports.proposals.planner import propose
from app.reports.proposals.proposal import Proposal
from tests.app.reports.clusters import broker, image, partition
from tests.interop import kafka
from tests.interop.admin.tools import ELECTION, REASSIGN, TOPICS, Tools
from tests.interop.kafka import PATIENCE_S

ROW = re.compile(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: ([\d,]+)")


def plan_of(topic: str, broker_ids: tuple[int, ...], replicas: list[str]) -> Proposal:
    """The default plan for a topic with these replicas ("101 102"), each partition led by the first."""
    brokers = [broker(each, None) for each in broker_ids]
    layout = layout_from_image(image(brokers, {topic: [partition(each) for each in replicas]}))
    return propose(layout, Options(tolerance_percent=0))


class Plan:
    """The plan's files in a folder, and the tools that take them."""

    def __init__(self, proposal: Proposal, folder: Path, tools: Tools, bootstrap: str) -> None:
        self.tools, self.bootstrap = tools, bootstrap
        self.files = {
            "reassign": reassign_json(proposal.changes),
            "rollback": rollback_json(proposal.changes),
            "elect": elect_json(proposal.elections),
        }
        self.folder = folder
        for name, content in self.files.items():
            (folder / f"{name}.json").write_bytes(content)

    def reassign(self, name: str, partitions: int) -> None:
        """Execute a file, and wait until the tool verifies that all its partitions are complete."""
        arguments = ("--bootstrap-server", self.bootstrap, "--reassignment-json-file", self.folder / f"{name}.json")
        assert "Successfully started" in self.tools.run(REASSIGN, "--execute", *arguments)

        def is_verified() -> bool:
            return self.tools.run(REASSIGN, "--verify", *arguments).count("is completed") == partitions

        kafka.wait_until(is_verified, PATIENCE_S, f"{name}.json is carried out")

    def elect(self) -> str:
        file = self.folder / "elect.json"
        wanted = ("--election-type", "preferred", "--path-to-json-file", file)
        return self.tools.run(ELECTION, "--bootstrap-server", self.bootstrap, *wanted)

    def placement(self, topic: str) -> dict[int, tuple[int, str]]:
        """Leader and replicas of each partition, as kafka-topics describes them."""
        text = self.tools.run(TOPICS, "--bootstrap-server", self.bootstrap, "--describe", "--topic", topic)
        return {int(number): (int(leader), replicas) for number, leader, replicas in ROW.findall(text)}
