"""Raft requests with stale and future epochs, wrong clusters, wrong voters and unknown senders, in every version.

A case builds a request from the state of its receiver. `KEEPS` do not change the quorum, `MOVES` may raise the epoch,
`LIES` name a wrong leader. Source: docs/protocol.md, "Raft RPCs".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kraft_core.protocol.messages import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
    FetchRequestReplicaState,
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    UpdateRaftVoterRequestKRaftVersionFeature,
    UpdateRaftVoterRequestListener,
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
)
from kraft_core.protocol.uuids import METADATA_TOPIC_ID, ZERO_UUID
from kraft_core.protocol.wire import Message
from tests.hostile.twins import View

TOPIC = "__cluster_metadata"
STRANGER = 99
STRANGER_DIRECTORY = UUID(int=0x1234_5678_9ABC_DEF0_1122_3344_5566_7788)
WRONG_CLUSTER = "another-cluster-id-000"
Build = Callable[[View, str], Message]


@dataclass(frozen=True)
class Case:
    """A request for the `role` ("leader" or "follower") in one version."""

    name: str
    version: int
    role: str
    build: Build

    @property
    def label(self) -> str:
        """Return the name of the case."""
        return f"{self.name} v{self.version} to the {self.role}"

    def request(self, view: View) -> Message:
        """Return the request for this quorum."""
        return self.build(view, self.role)


def vote(**changed: Any) -> Build:
    """Return a Vote of an unknown candidate with a long log. `epoch` is relative; other arguments replace fields."""

    def build(view: View, role: str) -> Message:
        given = {name: of(view, role) if callable(of) else of for name, of in changed.items()}
        partition = VoteRequestPartitionData(
            partition_index=given.get("partition_index", 0),
            replica_epoch=view.epoch + given.get("epoch", 0),
            replica_id=given.get("replica_id", STRANGER),
            replica_directory_id=given.get("replica_directory_id", ZERO_UUID),
            voter_directory_id=given.get("voter_directory_id", ZERO_UUID),
            last_offset_epoch=given.get("last_offset_epoch", 0),
            last_offset=given.get("last_offset", 0),
            pre_vote=given.get("pre_vote", False),
        )
        topic = VoteRequestTopicData(topic_name=given.get("topic", TOPIC), partitions=(partition,))
        topics = given.get("topics", (topic,))
        return VoteRequest(
            cluster_id=given.get("cluster_id", view.cluster_id), voter_id=given.get("voter_id", -1), topics=topics
        )

    return build


def begin(**changed: Any) -> Build:
    """Return a BeginQuorumEpoch of the leader. `epoch` is relative; other arguments replace fields."""

    def build(view: View, role: str) -> Message:
        given = {name: of(view, role) if callable(of) else of for name, of in changed.items()}
        partition = BeginQuorumEpochRequestPartitionData(
            partition_index=given.get("partition_index", 0),
            voter_directory_id=given.get("voter_directory_id", ZERO_UUID),
            leader_id=given.get("leader_id", view.leader),
            leader_epoch=view.epoch + given.get("epoch", 0),
        )
        topic = BeginQuorumEpochRequestTopicData(topic_name=given.get("topic", TOPIC), partitions=(partition,))
        return BeginQuorumEpochRequest(
            cluster_id=given.get("cluster_id", view.cluster_id),
            voter_id=given.get("voter_id", -1),
            topics=given.get("topics", (topic,)),
            leader_endpoints=(),
        )

    return build


def end(**changed: Any) -> Build:
    """Return an EndQuorumEpoch of the leader without preferred successors."""

    def build(view: View, role: str) -> Message:
        given = {name: of(view, role) if callable(of) else of for name, of in changed.items()}
        partition = EndQuorumEpochRequestPartitionData(
            partition_index=given.get("partition_index", 0),
            leader_id=given.get("leader_id", view.leader),
            leader_epoch=view.epoch + given.get("epoch", 0),
            preferred_successors=(),
            preferred_candidates=(),
        )
        topic = EndQuorumEpochRequestTopicData(topic_name=given.get("topic", TOPIC), partitions=(partition,))
        return EndQuorumEpochRequest(
            cluster_id=given.get("cluster_id", view.cluster_id),
            topics=given.get("topics", (topic,)),
            leader_endpoints=(),
        )

    return build


def fetch(**changed: Any) -> Build:
    """Return a Fetch of an observer from the end of the log, without a wait."""

    def build(view: View, role: str) -> Message:
        given = {name: of(view, role) if callable(of) else of for name, of in changed.items()}
        version, replica_id = given["version"], given.get("replica_id", STRANGER)
        optional: dict[str, Any] = {}
        if version >= 9:
            optional["current_leader_epoch"] = view.epoch + given.get("epoch", 0)
        if version >= 12:
            optional["last_fetched_epoch"] = given.get("last_fetched_epoch", view.epoch)
        if version >= 17:
            optional["replica_directory_id"] = given.get("replica_directory_id", STRANGER_DIRECTORY)
        partition = FetchRequestFetchPartition(
            partition=given.get("partition", 0),
            fetch_offset=given.get("fetch_offset", view.high_watermark),
            log_start_offset=-1,
            partition_max_bytes=0,
            **optional,
        )
        topic_id = given.get("topic_id", METADATA_TOPIC_ID)
        topic = (
            FetchRequestFetchTopic(topic_id=topic_id, partitions=(partition,))
            if version >= 13
            else FetchRequestFetchTopic(topic=TOPIC, partitions=(partition,))
        )
        replica: dict[str, Any] = {"replica_id": replica_id}
        if version >= 15:
            replica = {"replica_state": FetchRequestReplicaState(replica_id=replica_id)}
        return FetchRequest(
            cluster_id=given.get("cluster_id", view.cluster_id) if version >= 12 else None,
            max_wait_ms=given.get("max_wait_ms", 0),
            min_bytes=0,
            max_bytes=1_048_576,
            session_epoch=-1,
            topics=given.get("topics", (topic,)),
            **replica,
        )

    return build


def snapshot(**changed: Any) -> Build:
    """Return a FetchSnapshot for a snapshot that does not exist."""

    def build(view: View, role: str) -> Message:
        given = {name: of(view, role) if callable(of) else of for name, of in changed.items()}
        asked = FetchSnapshotRequestSnapshotId(end_offset=given.get("end_offset", 7), epoch=given.get("of_epoch", 1))
        partition = FetchSnapshotRequestPartitionSnapshot(
            partition=given.get("partition", 0),
            current_leader_epoch=view.epoch + given.get("epoch", 0),
            snapshot_id=asked,
            position=given.get("position", 0),
            replica_directory_id=STRANGER_DIRECTORY if given["version"] >= 1 else ZERO_UUID,
        )
        topic = FetchSnapshotRequestTopicSnapshot(name=given.get("topic", TOPIC), partitions=(partition,))
        return FetchSnapshotRequest(
            cluster_id=given.get("cluster_id", view.cluster_id),
            replica_id=STRANGER,
            max_bytes=1_000,
            topics=given.get("topics", (topic,)),
        )

    return build


def describe(topic: str = TOPIC, partition: int = 0) -> Build:
    """Return a DescribeQuorum."""
    asked = DescribeQuorumRequestPartitionData(partition_index=partition)
    return lambda view, role: DescribeQuorumRequest(
        topics=(DescribeQuorumRequestTopicData(topic_name=topic, partitions=(asked,)),)
    )


def add(**changed: Any) -> Build:
    """Return an AddRaftVoter for a node that does not exist."""

    def build(view: View, role: str) -> Message:
        given = {name: of(view, role) if callable(of) else of for name, of in changed.items()}
        listener = AddRaftVoterRequestListener(name=given.get("listener", "CONTROLLER"), host="127.0.0.1", port=1)
        return AddRaftVoterRequest(
            cluster_id=given.get("cluster_id", view.cluster_id),
            timeout_ms=1_000,
            voter_id=given.get("voter_id", STRANGER),
            voter_directory_id=given.get("directory_id", STRANGER_DIRECTORY),
            listeners=given.get("listeners", (listener,)),
        )

    return build


def remove(**changed: Any) -> Build:
    """Return a RemoveRaftVoter for a node that is not a voter."""

    def build(view: View, role: str) -> Message:
        given = {name: of(view, role) if callable(of) else of for name, of in changed.items()}
        return RemoveRaftVoterRequest(
            cluster_id=given.get("cluster_id", view.cluster_id),
            voter_id=given.get("voter_id", STRANGER),
            voter_directory_id=given.get("directory_id", STRANGER_DIRECTORY),
        )

    return build


def update(**changed: Any) -> Build:
    """Return an UpdateRaftVoter for a node that is not a voter."""

    def build(view: View, role: str) -> Message:
        given = {name: of(view, role) if callable(of) else of for name, of in changed.items()}
        listener = UpdateRaftVoterRequestListener(name=given.get("listener", "CONTROLLER"), host="127.0.0.1", port=1)
        low, high = given.get("versions", (0, 1))
        return UpdateRaftVoterRequest(
            cluster_id=given.get("cluster_id", view.cluster_id),
            current_leader_epoch=view.epoch + given.get("epoch", 0),
            voter_id=given.get("voter_id", STRANGER),
            voter_directory_id=given.get("directory_id", STRANGER_DIRECTORY),
            listeners=given.get("listeners", (listener,)),
            kraft_version_feature=UpdateRaftVoterRequestKRaftVersionFeature(
                min_supported_version=low, max_supported_version=high
            ),
        )

    return build


def receiver(view: View, role: str) -> int:
    """Return the id of the receiver."""
    return view.node(role)


def other(view: View, role: str) -> int:
    """Return the id of the other voter."""
    return 3 - view.node(role)


def directory(view: View, role: str) -> UUID:
    """Return the directory id of the receiver."""
    return view.directory(view.node(role))


def stale(view: View, role: str) -> int:
    """Return an earlier epoch, if there was one."""
    return -1


BOTH = ("leader", "follower")


def _vote_cases() -> Iterator[tuple[str, Build, range]]:
    since_0, since_1, since_2 = range(3), range(1, 3), range(2, 3)
    yield "stale vote", vote(epoch=stale, last_offset_epoch=0), since_0
    yield "vote of this epoch by a stranger", vote(), since_0
    yield "vote of this epoch by the other voter", vote(replica_id=other, last_offset=2**40), since_0
    yield "vote of another cluster", vote(cluster_id=WRONG_CLUSTER), since_0
    yield "vote without a cluster", vote(cluster_id=None), since_0
    yield "vote for another topic", vote(topic="__other"), since_0
    yield "vote for another partition", vote(partition_index=1), since_0
    yield "vote for no topic", vote(topics=()), since_0
    yield "vote with a negative offset", vote(last_offset=-1), since_0
    yield "vote with a negative last epoch", vote(last_offset_epoch=-1), since_0
    yield "vote with a last epoch of now", vote(last_offset_epoch=lambda view, role: view.epoch), since_0
    yield "vote with a last epoch to come", vote(last_offset_epoch=lambda view, role: view.epoch + 4), since_0
    yield "vote for another node", vote(voter_id=other), since_1
    yield "vote for a stranger", vote(voter_id=STRANGER), since_1
    yield "vote for this node", vote(voter_id=receiver, voter_directory_id=directory), since_1
    yield "vote for another directory", vote(voter_id=receiver, voter_directory_id=STRANGER_DIRECTORY), since_1
    yield (
        "stale vote for another directory",
        vote(epoch=stale, voter_id=receiver, voter_directory_id=STRANGER_DIRECTORY),
        since_1,
    )
    yield "pre-vote of a short log", vote(pre_vote=True), since_2
    yield (
        "pre-vote of a long log",
        vote(pre_vote=True, last_offset=2**40, last_offset_epoch=lambda view, role: view.epoch),
        since_2,
    )
    yield (
        "pre-vote with a last epoch to come",
        vote(pre_vote=True, last_offset_epoch=lambda view, role: view.epoch + 1),
        since_2,
    )
    yield "stale pre-vote", vote(pre_vote=True, epoch=stale), since_2


def _epoch_cases() -> Iterator[tuple[str, Build, range]]:
    for name, make in (("begin", begin), ("end", end)):
        yield f"stale {name}", make(epoch=stale), range(2)
        yield f"{name} of another cluster", make(cluster_id=WRONG_CLUSTER), range(2)
        yield f"{name} for another topic", make(topic="__other"), range(2)
        yield f"{name} for another partition", make(partition_index=1), range(2)
        yield f"{name} without a leader", make(leader_id=-1), range(2)
        yield f"stale {name} by a stranger", make(epoch=stale, leader_id=STRANGER), range(2)
    yield "begin of the leader", begin(), range(2)
    yield "begin of the leader for another node", begin(voter_id=other), range(1, 2)
    yield (
        "begin of the leader for another directory",
        begin(voter_id=receiver, voter_directory_id=STRANGER_DIRECTORY),
        range(1, 2),
    )
    yield "begin of the leader for this node", begin(voter_id=receiver, voter_directory_id=directory), range(1, 2)


def _fetch_cases() -> Iterator[tuple[str, Build, range]]:
    for version in range(4, 19):
        only = range(version, version + 1)
        yield "fetch at the end", fetch(version=version), only
        if version >= 13:
            yield "fetch of a stale epoch", fetch(version=version, epoch=stale, last_fetched_epoch=0), only
            yield "fetch of an epoch to come", fetch(version=version, epoch=5), only
            yield "fetch of another cluster", fetch(version=version, cluster_id=WRONG_CLUSTER), only
    newest = range(18, 19)
    for name, changed in {
        "fetch with a negative wait": {"max_wait_ms": -1},
        "fetch with a negative offset": {"fetch_offset": -1},
        "fetch with a negative last epoch": {"last_fetched_epoch": -1},
        "fetch with a last epoch to come": {"last_fetched_epoch": lambda view, role: view.epoch + 1},
        "fetch of another topic": {"topic_id": STRANGER_DIRECTORY},
        "fetch of another partition": {"partition": 3},
        "fetch of nothing": {"topics": ()},
        "fetch from the beginning": {"fetch_offset": 0, "last_fetched_epoch": 0},
        "fetch that diverges": {"fetch_offset": 2**40},
        "fetch that diverges long ago": {"fetch_offset": 5, "last_fetched_epoch": 0},
        "fetch by the receiver itself": {"replica_id": receiver, "replica_directory_id": directory},
        "fetch by a voter of another directory": {"replica_id": other},
    }.items():
        yield name, fetch(version=18, **changed), newest


def _snapshot_cases() -> Iterator[tuple[str, Build, range]]:
    for version in range(2):
        only = range(version, version + 1)
        for name, changed in {
            "snapshot that does not exist": {},
            "snapshot 0-0": {"end_offset": 0, "of_epoch": 0},
            "snapshot in a stale epoch": {"epoch": stale},
            "snapshot in an epoch to come": {"epoch": 3},
            "snapshot of another cluster": {"cluster_id": WRONG_CLUSTER},
            "snapshot of another topic": {"topic": "__other"},
            "snapshot of another partition": {"partition": 2},
            "snapshot at a negative position": {"position": -1},
        }.items():
            yield name, snapshot(version=version, **changed), only


def _voter_cases() -> Iterator[tuple[str, Build, range]]:
    yield "describe", describe(), range(3)
    yield "describe another topic", describe("__other"), range(3)
    yield "describe another partition", describe(partition=4), range(3)
    for name, changed in {
        "add of another cluster": {"cluster_id": WRONG_CLUSTER},
        "add without a directory": {"directory_id": ZERO_UUID},
        "add of a negative id": {"voter_id": -1},
        "add without an endpoint": {"listeners": ()},
        "add with another listener": {"listener": "OTHER"},
        "add of a voter": {"voter_id": other},
        "add of a voter without a cluster": {"voter_id": other, "cluster_id": None},
    }.items():
        yield name, add(**changed), range(2)
    for name, changed in {
        "remove of another cluster": {"cluster_id": WRONG_CLUSTER},
        "remove without a directory": {"directory_id": ZERO_UUID},
        "remove of a negative id": {"voter_id": -1},
        "remove of a stranger": {},
        "remove of a voter in another directory": {"voter_id": other},
    }.items():
        yield name, remove(**changed), range(1)
    for name, changed in {
        "update of another cluster": {"cluster_id": WRONG_CLUSTER},
        "update in a stale epoch": {"epoch": stale},
        "update in an epoch to come": {"epoch": 2},
        "update without a directory": {"directory_id": ZERO_UUID},
        "update of a negative id": {"voter_id": -1},
        "update without an endpoint": {"listeners": ()},
        "update with another listener": {"listener": "OTHER"},
        "update with versions the wrong way round": {"versions": (1, 0)},
        "update with negative versions": {"versions": (-1, -1)},
        "update to versions without this one": {"versions": (2, 3)},
        "update of a stranger": {},
        "update of a voter in another directory": {"voter_id": other},
    }.items():
        yield name, update(**changed), range(1)


def _each(found: Iterator[tuple[str, Build, range]]) -> list[Case]:
    return [
        Case(name, version, role, build) for name, build, versions in found for version in versions for role in BOTH
    ]


KEEPS = [
    *_each(_vote_cases()),
    *_each(_epoch_cases()),
    *_each(_fetch_cases()),
    *_each(_snapshot_cases()),
    *_each(_voter_cases()),
]
MOVES = [
    Case("pre-vote of an epoch to come", 2, "follower", vote(epoch=2, pre_vote=True, last_offset=2**40)),
    Case("vote of an epoch to come by a stranger", 0, "follower", vote(epoch=1, last_offset=2**40)),
    Case("vote of an epoch to come with a short log", 2, "leader", vote(epoch=1)),
    Case("vote of an epoch to come for another node", 2, "leader", vote(epoch=1, voter_id=STRANGER)),
    Case("end of this epoch", 0, "follower", end()),
    Case("end of this epoch", 1, "follower", end()),
]
LIES = [
    Case("begin of this epoch by a stranger", 1, "follower", begin(leader_id=STRANGER)),
    Case("begin of this epoch by the follower", 1, "leader", begin(leader_id=other)),
    Case("begin of an epoch to come by the receiver", 0, "follower", begin(epoch=1, leader_id=receiver)),
    Case("begin of an epoch to come by the other voter", 0, "leader", begin(epoch=3, leader_id=other)),
    Case("begin of an epoch to come by a stranger", 1, "leader", begin(epoch=2, leader_id=STRANGER)),
    Case("end of this epoch by a stranger", 1, "follower", end(leader_id=STRANGER)),
    Case("end of an epoch to come by the other voter", 1, "leader", end(epoch=2, leader_id=other)),
    Case("end of an epoch to come by a stranger", 0, "leader", end(epoch=2, leader_id=STRANGER)),
]
"""Cases that name a wrong leader. They end the raft thread of an Apache node with an IllegalStateException, directly or
through another node, so only ours gets them."""
