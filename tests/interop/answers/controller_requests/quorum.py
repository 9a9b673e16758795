"""Requests of the raft layer that are rejected and change nothing."""

from collections.abc import Iterator
from uuid import UUID

from kraft_core.protocol.messages import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    UpdateRaftVoterRequestListener,
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
)
from tests.interop.answers.controller_requests.case import TIMEOUT_MS, Case

METADATA = "__cluster_metadata"
ELSEWHERE = "AAAAAAAAAAAAAAAAAAAAAA"
STRANGER = UUID(int=0x57)


def quorum_requests() -> Iterator[Case]:
    """Return votes, epochs, snapshots and voter changes that a leader rejects."""
    for version in range(3):
        for name, changes in (
            ("in an old epoch", {}),
            ("in another cluster", {"cluster_id": ELSEWHERE}),
            ("for another topic", {"topic": "other"}),
            ("for another partition", {"partition": 1}),
            ("by nobody", {"replica_id": -1}),
        ):
            yield Case(f"vote {name}", lambda known, c=changes: _vote(**{"cluster_id": known.cluster_id, **c}), version)  # type: ignore[arg-type, misc]  # keywords
    for version in range(2):
        yield Case("a snapshot of another cluster", lambda _: _snapshot(ELSEWHERE), version)
        for name, changes in (("old", {}), ("of another cluster", {"cluster_id": ELSEWHERE}), ("of x", {"topic": "x"})):
            yield Case(
                f"an epoch {name}", lambda known, c=changes: _begin(**{"cluster_id": known.cluster_id, **c}), version
            )  # type: ignore[misc]  # as above
            yield Case(
                f"the end of an epoch {name}",
                lambda known, c=changes: _end(**{"cluster_id": known.cluster_id, **c}),
                version,
            )  # type: ignore[misc]  # as above
    for cluster_id in (None, ELSEWHERE):
        yield Case(
            f"add a voter that is one, cluster {cluster_id}",
            lambda known, c=cluster_id: _add(c or known.cluster_id, 1),
            1,
        )
        yield Case(
            f"remove a voter that is none, cluster {cluster_id}",
            lambda known, c=cluster_id: RemoveRaftVoterRequest(
                cluster_id=c or known.cluster_id, voter_id=7, voter_directory_id=STRANGER
            ),
            0,
        )
        yield Case(
            f"update a voter that is none, cluster {cluster_id}",
            lambda known, c=cluster_id: UpdateRaftVoterRequest(
                cluster_id=c or known.cluster_id,
                current_leader_epoch=0,
                voter_id=7,
                voter_directory_id=STRANGER,
                listeners=(UpdateRaftVoterRequestListener(name="CONTROLLER", host="127.0.0.1", port=1),),
            ),
            0,
        )
    yield Case("add a voter without listeners", lambda known: _add(known.cluster_id, 7, listeners=()), 1)
    yield Case("add a voter with another listener", lambda known: _add(known.cluster_id, 7, listeners=("OTHER",)), 1)
    yield Case("add a negative voter", lambda known: _add(known.cluster_id, -7), 1)


def _vote(cluster_id: str, *, topic: str = METADATA, partition: int = 0, replica_id: int = 7) -> VoteRequest:
    data = VoteRequestPartitionData(
        partition_index=partition,
        replica_epoch=0,
        replica_id=replica_id,
        replica_directory_id=STRANGER,
        last_offset_epoch=0,
        last_offset=0,
    )
    return VoteRequest(cluster_id=cluster_id, topics=(VoteRequestTopicData(topic_name=topic, partitions=(data,)),))


def _begin(cluster_id: str, *, topic: str = METADATA) -> BeginQuorumEpochRequest:
    data = BeginQuorumEpochRequestPartitionData(partition_index=0, leader_id=7, leader_epoch=0)
    topics = (BeginQuorumEpochRequestTopicData(topic_name=topic, partitions=(data,)),)
    return BeginQuorumEpochRequest(cluster_id=cluster_id, topics=topics)


def _end(cluster_id: str, *, topic: str = METADATA) -> EndQuorumEpochRequest:
    data = EndQuorumEpochRequestPartitionData(partition_index=0, leader_id=7, leader_epoch=0)
    topics = (EndQuorumEpochRequestTopicData(topic_name=topic, partitions=(data,)),)
    return EndQuorumEpochRequest(cluster_id=cluster_id, topics=topics)


def _snapshot(cluster_id: str) -> FetchSnapshotRequest:
    data = FetchSnapshotRequestPartitionSnapshot(
        partition=0, current_leader_epoch=1, snapshot_id=FetchSnapshotRequestSnapshotId(end_offset=77777, epoch=1)
    )
    topics = (FetchSnapshotRequestTopicSnapshot(name=METADATA, partitions=(data,)),)
    return FetchSnapshotRequest(cluster_id=cluster_id, replica_id=7, topics=topics)


def _add(cluster_id: str, voter_id: int, listeners: tuple[str, ...] = ("CONTROLLER",)) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=TIMEOUT_MS,
        voter_id=voter_id,
        voter_directory_id=STRANGER,
        listeners=tuple(AddRaftVoterRequestListener(name=name, host="127.0.0.1", port=1) for name in listeners),
    )
