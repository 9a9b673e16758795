"""A quorum of Apache's controllers and ours gets all kinds of metadata, under leaders of both sides.

One of Apache's brokers follows. At the end every controller's snapshot has the same records.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals

import pytest

from kraft_core.clients.kafka_client import says_not_active
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.messages import (
    BrokerRegistrationResponse,
    CreateAclsRequest,
    CreateTopicsResponse,
    ListPartitionReassignmentsRequest,
)
from kraft_core.protocol.wire import Message
from tests.interop import kafka
from tests.interop.admin.tools import Tools
from tests.interop.answers.controller_requests import RIGHTS, forwarded_requests
from tests.interop.answers.controller_requests.brokers import broker_requests
from tests.interop.answers.controller_requests.case import Case, Known, fixed
from tests.interop.answers.controller_requests.configs import config_requests
from tests.interop.answers.controller_requests.features import feature_requests
from tests.interop.answers.controller_requests.partitions import isr_requests, reassignment_requests
from tests.interop.answers.controller_requests.security import acl_requests, quota_requests, scram_requests
from tests.interop.answers.controller_requests.topics import deletion_requests, topic_requests
from tests.interop.answers.controller_requests.unfinished import TELLTALES, unfinished_requests
from tests.interop.conclave import call, quorum
from tests.interop.log_files import (
    committed_prefix,
    image_records_of,
    leaders,
    raw_batches,
    registrations,
    replayed,
    snapshot_records,
    snapshots,
)
from tests.interop.mixed.mixed_quorum import VOTERS, MixedQuorum

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]  # several waits, which are usually short

APACHE, OURS, OTHER = VOTERS
BROKER = 5
SETTINGS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
    "broker_session_timeout_ms": 3_600_000,
    "delegation_token_secret_key": "key-of-all-delegation-tokens",
    "metadata_log_max_record_bytes_between_snapshots": 10_000,
    "metadata_log_max_snapshot_interval_ms": 2_000,
}
KINDS = {
    "AccessControlEntryRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "DelegationTokenRecord",
    "FeatureLevelRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "TopicRecord",
    "UserScramCredentialRecord",
}
"""The record types of a snapshot with all metadata."""


class Requests:
    """A list of valid and invalid requests, sent to the leader."""

    def __init__(self, mixed: MixedQuorum, cases: list[Case]) -> None:
        self._mixed = mixed
        self._left = iter(cases)
        self._known = Known(mixed.nodes.cluster_id)
        self._leader_id: int | None = None
        self.answered = 0

    def wait_for(self, more: int) -> None:
        """Send so many more, each after the response to the one before."""
        self._leader_id = None
        for _, case in zip(range(more), self._left, strict=False):
            kafka.wait_until(
                lambda case=case: self._is_taken(case), kafka.PATIENCE_S, case.name, 0.1, (OSError, EOFError)
            )

    def _is_taken(self, case: Case) -> bool:
        """Send a request to the leader. Return False if it is not the leader, or closes the connection.

        Apache's controller closes connections above a quota of this list. From a node that has just answered as the
        leader, NOT_CONTROLLER means a partition epoch of the future.
        """
        has_just_served = self._leader_id is None
        leader_id = self._leader_id or self._serving_leader()
        self._leader_id = None
        if leader_id is None:
            return False
        message = case.build(self._known)
        ask = call(self._mixed.nodes.port_of(leader_id), message, case.version, timeout_s=20, client_id="same")
        answer = asyncio.run(ask)
        if says_not_active(answer) and not has_just_served:
            return False
        self._learn(message, answer)
        self._leader_id = leader_id
        self.answered += 1
        return True

    def _serving_leader(self) -> int | None:
        leader_id = self._mixed.leader_id
        probe = ListPartitionReassignmentsRequest(timeout_ms=10_000)
        answer = asyncio.run(call(self._mixed.nodes.port_of(leader_id), probe, 0, timeout_s=20))
        return None if says_not_active(answer) else leader_id

    def _learn(self, message: Message, answer: Message) -> None:
        if isinstance(answer, CreateTopicsResponse):
            self._known.topic_ids |= {each.name: each.topic_id for each in answer.topics if not each.error_code}
        if isinstance(answer, BrokerRegistrationResponse) and not answer.error_code:
            self._known.broker_epochs[message.broker_id] = answer.broker_epoch


@dataclass
class Story:
    """What the quorum has left on its disks."""

    mixed: MixedQuorum
    answered: int
    logs: dict[int, dict[int, bytes]] = field(default_factory=dict)

    def newest_snapshot(self, node_id: int) -> tuple[int, Path]:
        """Return end offset and file."""
        return list(snapshots(self.mixed.nodes.folder_of(node_id)).items())[-1]

    def images(self) -> dict[int, MetadataImage]:
        """Return the images of the log by end offset."""
        return {image.offset + 1: image for image in replayed(self.logs[OURS])}


def cases() -> list[Case]:
    """Return the list in an order that keeps what is created. Quotas are last, since they affect this list too."""
    made = [*broker_requests(), *topic_requests(), *config_requests(), *isr_requests(), *reassignment_requests()]
    users = [*scram_requests(), *acl_requests(), *forwarded_requests()]
    users += [fixed("rights", CreateAclsRequest(creations=RIGHTS), 3)]
    return [*made, *deletion_requests(), *feature_requests(), *unfinished_requests(), *users, *quota_requests()]


def depose(mixed: MixedQuorum, how: Signals, requests: Requests) -> int:
    """Kill or stop the leader so that the other side leads. Return the old leader."""
    while True:
        leader_id = mixed.leader_id
        if mixed.hand_over(leader_id, APACHE if leader_id != APACHE else OURS, how, requests):
            return leader_id


def run_story(mixed: MixedQuorum) -> Story:
    """Send a quarter of the list under each of four leaders: of both sides, killed or stopped."""
    nodes = mixed.nodes
    everything = cases()
    requests = Requests(mixed, everything)
    quarter = len(everything) // 4
    lives = Counter(VOTERS)
    for how in (SIGKILL, SIGTERM, SIGKILL):
        requests.wait_for(quarter)
        lives[depose(mixed, how, requests)] += 1
    requests.wait_for(len(everything))
    kafka.wait_until(
        lambda: registrations(raw_batches(nodes.folder_of(OURS))) >= lives,
        kafka.PATIENCE_S,
        "every controller has registered again: what is written later is not in all of the last snapshots",
    )
    end = mixed.describe().high_watermark
    for node_id in VOTERS:
        kafka.wait_until(
            lambda node_id=node_id: max(snapshots(nodes.folder_of(node_id)), default=0) >= end,
            kafka.PATIENCE_S,
            "the last snapshots",
        )
    mixed.wait_until_caught_up(*VOTERS, BROKER, slack=0)
    assert all(process.alive for process in nodes.processes.values()), nodes.outputs()
    nodes.stop_all()
    logs = {node_id: raw_batches(nodes.folder_of(node_id)) for node_id in (*VOTERS, BROKER)}
    return Story(mixed, requests.answered, logs)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, tools: Tools) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("images")
    with quorum(folder, len(VOTERS), **SETTINGS) as nodes:
        mixed = MixedQuorum(nodes, frozenset({APACHE}), tools)
        for node_id in VOTERS:
            mixed.format(node_id)
            mixed.start(node_id)
        secret = {"delegation_token_secret_key": SETTINGS["delegation_token_secret_key"]}
        with kafka.broker(folder / f"node-{BROKER}", BROKER, nodes.bootstrap, nodes.cluster_id, **secret) as (
            broker,
            _,
        ):
            broker.wait_for_output("Kafka Server started")
            found = run_story(mixed)
            assert broker.alive, broker.output[-3000:]
            yield found


def test_both_sides_led_and_were_killed_and_stopped(story: Story) -> None:
    in_turn = list(leaders(story.logs[OURS]).values())
    assert in_turn.count(APACHE) >= 1
    assert len(in_turn) - in_turn.count(APACHE) >= 1
    assert len(in_turn) >= 4


def test_logs_are_byte_identical(story: Story) -> None:
    assert committed_prefix(list(story.logs.values())) > 300


def test_every_snapshot_of_every_controller_equals_the_log(story: Story) -> None:
    images = story.images()
    for node_id in VOTERS:
        found = snapshots(story.mixed.nodes.folder_of(node_id))
        assert len(found) > 3, f"node {node_id}"
        for offset, path in found.items():
            assert snapshot_records(path)[1] == image_records_of(images[offset]), path


def test_the_last_snapshots_of_both_sides_are_equal_record_by_record(story: Story) -> None:
    """All were made after the last request; since then only offsets have changed."""
    apache, *ours = (snapshot_records(story.newest_snapshot(node_id)[1])[1] for node_id in VOTERS)
    for each in ours:
        assert each == apache
    kinds = Counter(record.partition("(")[0] for record in apache)
    assert set(kinds) == KINDS, kinds
    assert [each for each in TELLTALES if not any(each in record for record in apache)] == []
    assert story.answered == len(cases())
