"""BeginQuorumEpoch and EndQuorumEpoch: refusals, retries, elections. Names in docstrings are Kafka's tests."""

import logging
from typing import Any

import pytest
from msgspec import structs

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.internal_topics import METADATA_TOPIC
from kraft_core.protocol.messages import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    EndQuorumEpochResponsePartitionData,
    EndQuorumEpochResponseTopicData,
    FetchRequest,
    FetchResponse,
)
from kraft_core.raft.events import FailureReason
from kraft_core.raft.quorum_state import ElectionState
from tests.raft.internals.test_election import end_request
from tests.raft.one_node import OneNode, begin_request, fetch_request, fetch_response, only

NAMES = ["begin", "end"]


def announcement(name: str, leader: int = 1, epoch: int = 4) -> Any:
    if name == "begin":
        return begin_request(leader, epoch)
    asked = end_request(0, 2)
    topic = asked.topics[0]
    partition = structs.replace(topic.partitions[0], leader_id=leader, leader_epoch=epoch)
    return structs.replace(asked, topics=(structs.replace(topic, partitions=(partition,)),))


@pytest.mark.parametrize("name", NAMES)
def test_an_announcement_for_another_cluster_or_topic_is_refused_as_a_whole(name: str) -> None:
    """testHandleBeginQuorumRequest, testEndQuorumEpochRequest with an invalid cluster id."""
    node = OneNode(election=ElectionState(3))
    asked = announcement(name)
    for change, error in (
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"topics": (structs.replace(asked.topics[0], topic_name="other"),)}, ErrorCode.INVALID_REQUEST),
        ({"topics": ()}, ErrorCode.INVALID_REQUEST),
    ):
        assert node.request(structs.replace(asked, **change), 1).error_code == error
    assert (node.client.epoch, node.client.leader_id) == (3, -1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("leader", "epoch", "error"),
    [(-1, 5, ErrorCode.INVALID_REQUEST), (1, 3, ErrorCode.FENCED_LEADER_EPOCH), (0, 5, ErrorCode.INVALID_REQUEST)],
    ids=["no leader", "old epoch", "this node, which does not lead"],
)
def test_an_invalid_announcement_changes_nothing_and_gets_the_leader(
    name: str, leader: int, epoch: int, error: int
) -> None:
    node = OneNode()
    node.follow(2, 4)
    answer = node.request(announcement(name, leader, epoch), 1)
    assert answer.error_code == ErrorCode.NONE
    told = only(answer)
    assert (told.error_code, told.leader_id, told.leader_epoch) == (error, 2, 4)
    assert [each.host for each in answer.node_endpoints] == ["host2"]
    assert (node.client.state_name, node.client.epoch) == ("follower", 4)


def test_an_announcement_for_another_voter_is_adopted_but_refused() -> None:
    """KafkaRaftClientReconfigTest.testBeginQuorumEpochWithInvalidVoterKey: the leader has a wrong address."""
    node = OneNode()
    assert only(node.request(begin_request(1, 4, voter=2), 1)).error_code == ErrorCode.INVALID_VOTER_KEY
    assert (node.client.leader_id, node.client.epoch) == (1, 4)


def test_the_end_of_an_epoch_whose_leader_was_not_known_starts_an_election_too() -> None:
    """testEndQuorumStartsNewElectionImmediatelyIfFollowerUnattached."""
    node = OneNode(election=ElectionState(4))
    assert node.client.state_name == "unattached"
    assert only(node.request(announcement("end"), 1)).error_code == ErrorCode.NONE
    assert node.client.state_name == "prospective"
    assert node.client.epoch == 4


def test_a_pre_vote_without_responses_ends_without_a_new_epoch() -> None:
    """testProspectiveTransitionsToUnattachedOnElectionFailure: its timeout."""
    node = OneNode()
    node.become_prospective()
    until = node.now + 2_000
    while node.client.state_name == "prospective" and node.now < until:
        node.pass_time(1)
    assert (node.client.state_name, node.client.epoch) == ("unattached", 0)


def ended(error: int = 0) -> EndQuorumEpochResponse:
    partition = EndQuorumEpochResponsePartitionData(leader_id=0, leader_epoch=1, error_code=error)
    topic = EndQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return EndQuorumEpochResponse(topics=(topic,))


def test_end_quorum_epoch_is_retried_until_each_voter_has_responded() -> None:
    """testEndQuorumEpochRetriesWhileShuttingDown."""
    node = OneNode()
    node.become_leader()
    for voter in (1, 2):
        node.request(fetch_request(voter, 1, node.log.end_offset, 1, max_wait_ms=0))
    node.client.resign(1)
    node.pass_time(0)
    node._see(node.client.take_effects(node.now))
    (first,), (second,) = node.sent(EndQuorumEpochRequest, 1), node.sent(EndQuorumEpochRequest, 2)
    node.answer(first, ended())
    node.fail(second, FailureReason.TIMED_OUT)
    node.pass_time(40)
    assert not node.sent(EndQuorumEpochRequest, 1)
    (again,) = node.sent(EndQuorumEpochRequest, 2)
    node.answer(again, ended())
    node.pass_time(40)
    assert not node.sent(EndQuorumEpochRequest)


def test_a_top_level_error_is_logged_once_and_the_request_retried(caplog: pytest.LogCaptureFixture) -> None:
    """KafkaRaftClientClusterAuthTest has Apache's node end here; rights may be given later."""
    caplog.set_level(logging.WARNING)
    node = OneNode()
    node.follow(1, 3)
    for _ in range(20):
        for request in node.sent(FetchRequest):  # to other nodes as well, which may know another leader
            node.answer(request, FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        node.pass_time(10)
    said = [vars(each) for each in caplog.records if each.message == "raft_request_refused"]
    assert [each["error"] for each in said if each["to"] == 1] == ["CLUSTER_AUTHORIZATION_FAILED"]
    while not (asked := node.sent(FetchRequest, 1)):
        for request in node.sent(FetchRequest):
            node.fail(request)
        node.pass_time(10)
    node.answer(asked[0], fetch_response(1, 3))
    assert (node.client.leader_id, node.client.state_name) == (1, "follower")
