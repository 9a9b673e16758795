"""Every raft RPC in every version: what a peer of that version sends is understood, and the answer fits its version."""

from collections.abc import Callable
from typing import Any

import pytest

from kraft_core.protocol.api_keys import ApiKey, request_class, response_class
from kraft_core.protocol.codec import decode, encode
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.internal_topics import METADATA_TOPIC
from kraft_core.protocol.messages import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestReplicaInfo,
    EndQuorumEpochRequestTopicData,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
    VoteRequest,
)
from kraft_core.protocol.wire import Message
from kraft_core.raft.kafka_raft_client import REQUEST_HANDLERS
from kraft_core.raft.raft_log import OffsetAndEpoch
from tests.raft.internals.test_reconfiguration import add_request, remove_request, update_request
from tests.raft.one_node import (
    CLUSTER_ID,
    OneNode,
    begin_request,
    dynamic_voters,
    fetch_request,
    key,
    only,
    snapshot_bytes,
    vote_request,
)

SNAPSHOT_ID = OffsetAndEpoch(3, 1)


def vote(version: int) -> VoteRequest:
    request = vote_request(1, 2, 1, 3)
    return VoteRequest(cluster_id=CLUSTER_ID, topics=request.topics) if version == 0 else request


def end(version: int) -> EndQuorumEpochRequest:
    partition = EndQuorumEpochRequestPartitionData(
        leader_id=1,
        leader_epoch=1,
        preferred_successors=(0,) if version == 0 else (),
        preferred_candidates=()
        if version == 0
        else (EndQuorumEpochRequestReplicaInfo(candidate_id=0, candidate_directory_id=key(0).directory_id),),
    )
    topic = EndQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return EndQuorumEpochRequest(cluster_id=CLUSTER_ID, topics=(topic,))


def fetch(version: int) -> FetchRequest:
    request = fetch_request(1, 1, 3, 1 if version >= 12 else -1, max_wait_ms=0)
    if version >= 15:
        return request
    return FetchRequest(replica_id=1, cluster_id=CLUSTER_ID, max_wait_ms=0, topics=request.topics)


def fetch_snapshot(_: int) -> FetchSnapshotRequest:
    partition = FetchSnapshotRequestPartitionSnapshot(
        current_leader_epoch=1,
        snapshot_id=FetchSnapshotRequestSnapshotId(end_offset=SNAPSHOT_ID.offset, epoch=SNAPSHOT_ID.epoch),
    )
    topic = FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=(partition,))
    return FetchSnapshotRequest(cluster_id=CLUSTER_ID, replica_id=1, topics=(topic,))


def describe(_: int) -> DescribeQuorumRequest:
    topic = DescribeQuorumRequestTopicData(
        topic_name=METADATA_TOPIC, partitions=(DescribeQuorumRequestPartitionData(partition_index=0),)
    )
    return DescribeQuorumRequest(topics=(topic,))


REQUESTS: dict[ApiKey, Callable[[int], Message]] = {
    ApiKey.VOTE: vote,
    ApiKey.BEGIN_QUORUM_EPOCH: lambda _: begin_request(1, 1),
    ApiKey.END_QUORUM_EPOCH: end,
    ApiKey.FETCH: fetch,
    ApiKey.FETCH_SNAPSHOT: fetch_snapshot,
    ApiKey.DESCRIBE_QUORUM: describe,
    ApiKey.ADD_RAFT_VOTER: lambda _: add_request(9),
    ApiKey.REMOVE_RAFT_VOTER: lambda _: remove_request(9),
    ApiKey.UPDATE_RAFT_VOTER: lambda _: update_request(1),
}
VERSIONS = [
    (api_key, version)
    for api_key in REQUESTS
    for version in range(request_class(api_key).VERSIONS[0], request_class(api_key).VERSIONS[1] + 1)
]


def over_the_wire(node: OneNode, api_key: ApiKey, version: int) -> Any:
    """What a peer of this version gets: both messages are bytes in between."""
    message_class = request_class(api_key)
    request = decode(message_class, version, encode(REQUESTS[api_key](version), version))
    answer = node.request(request, version)
    assert answer is not None
    return decode(response_class(api_key), version, encode(answer, version))


def leading() -> OneNode:
    node = OneNode()
    node.become_leader()
    node.commit_epoch()
    node.log.snapshots[SNAPSHOT_ID] = snapshot_bytes(SNAPSHOT_ID, 1, dynamic_voters(0, 1, 2), [b"state"])
    return node


def test_all_of_rafts_requests_are_here() -> None:
    assert {request_class(api_key) for api_key in REQUESTS} == set(REQUEST_HANDLERS)


def parametrized(*api_keys: ApiKey) -> Any:
    found = [each for each in VERSIONS if each[0] in api_keys]
    return pytest.mark.parametrize(("api_key", "version"), found, ids=[f"{key.name}-v{each}" for key, each in found])


@parametrized(ApiKey.VOTE)
def test_a_vote_of_every_version_is_granted(api_key: ApiKey, version: int) -> None:
    answer = over_the_wire(leading(), api_key, version)
    assert (answer.error_code, only(answer).error_code) == (0, 0)
    assert only(answer).vote_granted
    assert only(answer).leader_epoch == 2


@parametrized(ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH)
def test_a_leader_of_every_version_is_followed_until_its_resignation(api_key: ApiKey, version: int) -> None:
    node = OneNode()
    if api_key is ApiKey.END_QUORUM_EPOCH:
        node.follow(1, 1)
    answer = over_the_wire(node, api_key, version)
    assert (answer.error_code, only(answer).error_code) == (0, 0)
    assert (only(answer).leader_id, only(answer).leader_epoch) == (1, 1)
    assert len(answer.node_endpoints) == (1 if version >= 1 else 0)
    expected = "prospective" if api_key is ApiKey.END_QUORUM_EPOCH else "follower"
    assert node.client.state_name == expected, "the first successor stands at once"


@parametrized(ApiKey.FETCH)
def test_a_fetch_names_the_topic_by_id_or_is_refused(api_key: ApiKey, version: int) -> None:
    """Versions below 13 name the topic, below 12 lack the last fetched epoch: Kafka's raft refuses them as well."""
    answer = over_the_wire(leading(), api_key, version)
    if version < 13:
        assert answer.error_code == (ErrorCode.INVALID_REQUEST if version >= 7 else 0), "6 has no field for it"
        assert answer.responses == ()
        return
    assert (answer.error_code, only(answer).error_code) == (0, 0)
    assert only(answer).high_watermark == 3
    assert (only(answer).current_leader.leader_id, only(answer).current_leader.leader_epoch) == (0, 1)
    assert len(answer.node_endpoints) == (1 if version >= 16 else 0)


@parametrized(ApiKey.FETCH_SNAPSHOT)
def test_a_snapshot_is_served_to_every_version(api_key: ApiKey, version: int) -> None:
    node = leading()
    piece = only(over_the_wire(node, api_key, version))
    assert piece.error_code == 0
    assert piece.unaligned_records == node.log.snapshots[SNAPSHOT_ID]
    assert (piece.size, piece.position) == (len(piece.unaligned_records), 0)


@parametrized(ApiKey.DESCRIBE_QUORUM)
def test_the_quorum_is_described_to_every_version(api_key: ApiKey, version: int) -> None:
    answer = over_the_wire(leading(), api_key, version)
    told = only(answer)
    assert [each.replica_id for each in told.current_voters] == [0, 1, 2]
    assert [each.log_end_offset for each in told.current_voters] == [3, 3, -1]
    assert (told.current_voters[1].last_fetch_timestamp > 0) is (version >= 1)
    assert (told.current_voters[0].replica_directory_id == key(0).directory_id) is (version >= 2)
    assert len(answer.nodes) == (3 if version >= 2 else 0)


@parametrized(ApiKey.UPDATE_RAFT_VOTER)
def test_a_voter_is_updated_in_every_version(api_key: ApiKey, version: int) -> None:
    assert over_the_wire(leading(), api_key, version).error_code == 0


@parametrized(ApiKey.ADD_RAFT_VOTER)
def test_an_addition_of_every_version_begins_and_is_answered(api_key: ApiKey, version: int) -> None:
    """v1 may ask for an answer before the commit (KIP-1186)."""
    node = leading()
    message_class = request_class(api_key)
    node.request(decode(message_class, version, encode(add_request(9), version)), version)
    request_id = node.last_request_id()
    assert request_id not in node.answers
    node.pass_time(2_100)
    answer = decode(response_class(api_key), version, encode(node.answers[request_id], version))
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


@parametrized(ApiKey.REMOVE_RAFT_VOTER)
def test_a_removal_of_every_version_is_answered(api_key: ApiKey, version: int) -> None:
    assert over_the_wire(leading(), api_key, version).error_code == ErrorCode.VOTER_NOT_FOUND
