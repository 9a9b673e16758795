"""KIP-853 and KIP-1186 on one node. Names in docstrings are Kafka's own tests."""

from itertools import pairwise
from typing import Any

import pytest

from kraft_core.protocol.control_records import VotersRecord, encode_control
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    AddRaftVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseSupportedFeatureKey,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    UpdateRaftVoterRequestKRaftVersionFeature,
    UpdateRaftVoterRequestListener,
    UpdateRaftVoterResponse,
    UpdateRaftVoterResponseCurrentLeader,
    VoteRequest,
)
from kraft_core.protocol.record_batch import encode_batch
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.raft.effects import SendRequest
from kraft_core.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet
from tests.raft.one_node import (
    CLUSTER_ID,
    LISTENER,
    T0,
    OneNode,
    batch,
    dynamic_voters,
    endpoint,
    fetch_request,
    fetch_response,
    key,
    vote_request,
)


def add_request(node_id: int, **more: Any) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        **{
            "cluster_id": CLUSTER_ID,
            "voter_id": node_id,
            "voter_directory_id": key(node_id).directory_id,
            "listeners": (AddRaftVoterRequestListener(name=LISTENER, host=f"host{node_id}", port=9093),),
            **more,
        }
    )


def remove_request(node_id: int, **more: Any) -> RemoveRaftVoterRequest:
    fields = {"cluster_id": None, "voter_id": node_id, "voter_directory_id": key(node_id).directory_id, **more}
    return RemoveRaftVoterRequest(**fields)


def update_request(node_id: int, epoch: int = 1, **more: Any) -> UpdateRaftVoterRequest:
    return UpdateRaftVoterRequest(
        **{
            "cluster_id": CLUSTER_ID,
            "current_leader_epoch": epoch,
            "voter_id": node_id,
            "voter_directory_id": key(node_id).directory_id,
            "listeners": (UpdateRaftVoterRequestListener(name=LISTENER, host="elsewhere", port=1),),
            "kraft_version_feature": UpdateRaftVoterRequestKRaftVersionFeature(
                min_supported_version=0, max_supported_version=1
            ),
            **more,
        }
    )


def leading(*voters: int, kraft_version: int = 1, commits: bool = True) -> OneNode:
    node = OneNode(voters or (0, 1, 2), kraft_version=kraft_version)
    node.become_leader()
    if commits:
        node.commit_epoch()
    return node


def catch_up(node: OneNode, replica: int) -> None:
    node.request(fetch_request(replica, 1, node.log.end_offset, 1, max_wait_ms=0))


def supports(low: int = 0, high: int = 1, error: int = 0) -> ApiVersionsResponse:
    feature = ApiVersionsResponseSupportedFeatureKey(name="kraft.version", min_version=low, max_version=high)
    return ApiVersionsResponse(error_code=error, supported_features=(feature,))


def probe(node: OneNode) -> SendRequest:
    (request,) = node.sent(ApiVersionsRequest)
    return request


def test_a_voter_is_added_when_the_new_majority_has_the_record() -> None:
    """testAddVoter."""
    node = leading()
    catch_up(node, 3)
    assert node.request(add_request(3), 1) is None
    asked = node.last_request_id()
    node.answer(probe(node), supports())
    assert list(node.client.voters.by_id) == [0, 1, 2, 3]  # it counts from its append on
    catch_up(node, 1)
    assert asked not in node.answers  # two of four
    catch_up(node, 3)
    assert node.answers[asked].error_code == ErrorCode.NONE  # type: ignore[attr-defined]  # an AddRaftVoterResponse


def test_an_addition_may_be_answered_before_its_commit() -> None:
    """KIP-1186: ackWhenCommitted=false."""
    node = leading()
    catch_up(node, 3)
    node.request(add_request(3, ack_when_committed=False), 1)
    asked = node.last_request_id()
    node.answer(probe(node), supports())
    assert node.answers[asked].error_code == ErrorCode.NONE  # type: ignore[attr-defined]  # an AddRaftVoterResponse
    assert node.request(remove_request(1), 0).error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (supports(error=35), ErrorCode.REQUEST_TIMED_OUT),
        (supports(0, 0), ErrorCode.INVALID_REQUEST),
        (ApiVersionsResponse(), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_voter_that_cannot_take_part_is_not_added(answer: ApiVersionsResponse, error: int) -> None:
    node = leading()
    catch_up(node, 3)
    node.request(add_request(3), 1)
    node.answer(probe(node), answer)
    assert node.answers[node.last_request_id()].error_code == error  # type: ignore[attr-defined]  # as above
    assert list(node.client.voters.by_id) == [0, 1, 2]


def test_a_lagging_voter_is_not_added() -> None:
    """testAddVoterWithLaggingNewVoter."""
    node = leading()
    node.request(add_request(3), 1)
    node.answer(probe(node), supports())
    response = node.answers[node.last_request_id()]
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT  # type: ignore[attr-defined]  # as above


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (add_request(3, cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (add_request(-1), ErrorCode.INVALID_REQUEST),
        (add_request(3, voter_directory_id=ZERO_UUID), ErrorCode.INVALID_REQUEST),
        (add_request(3, listeners=()), ErrorCode.INVALID_REQUEST),
        (add_request(1), ErrorCode.DUPLICATE_VOTER),
        (remove_request(1, cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (remove_request(-1), ErrorCode.INVALID_REQUEST),
        (remove_request(7), ErrorCode.VOTER_NOT_FOUND),
        (remove_request(1, voter_directory_id=key(7).directory_id), ErrorCode.VOTER_NOT_FOUND),
        (update_request(1, cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (update_request(1, 0), ErrorCode.FENCED_LEADER_EPOCH),
        (update_request(1, 2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (update_request(-1), ErrorCode.INVALID_REQUEST),
        (update_request(1, listeners=()), ErrorCode.INVALID_REQUEST),
        (update_request(7), ErrorCode.VOTER_NOT_FOUND),
        (
            update_request(1, kraft_version_feature=UpdateRaftVoterRequestKRaftVersionFeature()),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_a_wrong_change_gets_kafkas_error(request_: Any, error: int) -> None:
    node = leading()
    end = node.log.end_offset
    assert node.request(request_, 0).error_code == error
    assert node.log.end_offset == end


@pytest.mark.parametrize("request_", [add_request(3), remove_request(1), update_request(1)])
def test_no_change_before_a_record_of_the_leaders_epoch_is_committed(request_: Any) -> None:
    """testAddVoterWithoutFencedPreviousLeaders."""
    node = leading(commits=False)
    assert node.request(request_, 0).error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("request_", [add_request(3), remove_request(1), update_request(1)])
def test_one_change_at_a_time(request_: Any) -> None:
    """testAddVoterWithPendingAddVoter, testRemoveVoterWithPendingAddVoter."""
    node = leading()
    assert node.request(remove_request(2), 0) is None
    assert node.request(request_, 0).error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("request_", [add_request(3), remove_request(1)])
def test_static_voters_are_not_changed(request_: Any) -> None:
    assert leading(kraft_version=0).request(request_, 0).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("request_", [add_request(3), remove_request(1), update_request(1, 0)])
def test_a_change_is_for_the_leader(request_: Any) -> None:
    assert OneNode().request(request_, 0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_change_that_is_not_committed_in_time_times_out() -> None:
    node = leading()
    node.request(remove_request(2), 0)
    asked = node.last_request_id()
    node.pass_time(2001)
    assert node.answers[asked].error_code == ErrorCode.REQUEST_TIMED_OUT  # type: ignore[attr-defined]  # as above


def test_a_new_voter_that_cannot_be_reached_is_not_added() -> None:
    """testAddVoterTimeout: it does not say which versions it has."""
    node = leading()
    catch_up(node, 3)
    assert node.request(add_request(3), 1) is None
    asked = node.last_request_id()
    node.fail(probe(node))
    assert node.answers[asked].error_code == ErrorCode.REQUEST_TIMED_OUT  # type: ignore[attr-defined]  # as above
    assert list(node.client.voters.by_id) == [0, 1, 2]
    node.pass_time(100)
    assert node.request(add_request(3), 1) is None, "another try may begin"


def test_a_change_that_timed_out_blocks_others_until_it_is_committed() -> None:
    """testRemoveVoterTimedOut: its record is in the log."""
    node = leading()
    node.request(remove_request(2), 0)
    node.pass_time(2001)
    assert node.request(add_request(3), 1).error_code == ErrorCode.REQUEST_TIMED_OUT
    catch_up(node, 1)
    catch_up(node, 3)
    assert node.request(add_request(3), 1) is None


@pytest.mark.parametrize("is_appended", [False, True])
def test_a_pending_addition_ends_with_the_leadership(*, is_appended: bool) -> None:
    """testAddVoterFailsWhenLosingLeadership."""
    node = leading()
    catch_up(node, 3)
    node.request(add_request(3), 1)
    asked = node.last_request_id()
    if is_appended:
        node.answer(probe(node), supports())
    node.follow(1, 5)
    assert node.answers[asked].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER  # type: ignore[attr-defined]  # as above


def test_auto_join_is_retried_until_it_succeeds() -> None:
    """KIP-1186; the leader may be busy with another change."""
    node = OneNode((1, 2, 3), auto_join=True)
    node.follow(1, 1)
    asked = []
    for _ in range(15):
        node.answer(node.fetch_out(), fetch_response(1, 1))
        for request in node.sent(AddRaftVoterRequest):
            asked.append(node.now)
            node.answer(request, AddRaftVoterResponse(error_code=ErrorCode.REQUEST_TIMED_OUT))
        node.pass_time(450)
    assert len(asked) == 3
    assert all(1_500 < later - earlier < 2_500 for earlier, later in pairwise(asked))


@pytest.mark.parametrize(
    "settings", [{"auto_join": False}, {"auto_join": True, "kraft_version": 0}], ids=["not told to", "static voters"]
)
def test_a_node_without_auto_join_sends_no_add_request(settings: dict[str, Any]) -> None:
    """testObserverDoesNotAddItselfWhenAutoJoinDisabled, testObserverDoesNotAutoJoinWithKRaftVersion0."""
    node = OneNode((1, 2, 3), **settings)
    node.follow(1, 1)
    for _ in range(15):
        node.answer(node.fetch_out(), fetch_response(1, 1))
        node.pass_time(450)
    assert not node.sent(AddRaftVoterRequest)


def test_a_removed_leader_commits_without_itself_and_resigns() -> None:
    """testRemoveVoterIsLeader."""
    node = leading()
    node.request(remove_request(0), 0)
    asked = node.last_request_id()
    assert list(node.client.voters.by_id) == [1, 2]
    catch_up(node, 1)
    assert asked not in node.answers  # one of two: it does not count itself
    catch_up(node, 2)
    assert node.answers[asked].error_code == ErrorCode.NONE  # type: ignore[attr-defined]  # as above
    assert not node.client.is_leader


def test_the_last_voter_is_not_removed() -> None:
    node = OneNode((0,))
    node.pass_time(2000)
    assert node.request(remove_request(0), 0).error_code == ErrorCode.VOTER_NOT_FOUND


def test_a_truncated_voter_set_loses_its_effect() -> None:
    node = leading()
    node.request(remove_request(2), 0)
    assert list(node.client.voters.by_id) == [0, 1]
    node.follow(1, 5)
    node.answer(node.fetch_out(), fetch_response(1, 5, diverging=(3, 1)))
    assert list(node.client.voters.by_id) == [0, 1, 2]


def test_a_voter_set_is_restored_after_a_restart() -> None:
    node = leading()
    node.request(remove_request(2), 0)
    again = OneNode(log=node.log)
    assert list(again.client.voters.by_id) == [0, 1]
    assert again.client.kraft_version == 1
    assert list(again.client._core.control.voters_at(3).by_id) == [0, 1, 2]


def test_a_voter_whose_removal_is_not_committed_can_still_be_elected() -> None:
    """Else a quorum is stuck whose only long log is that of a leader which began to remove itself."""
    node = leading(0, 1)
    node.request(remove_request(0), 0)
    again = OneNode((0, 1), log=node.log)
    assert list(again.client.voters.by_id) == [1]
    again.become_leader()
    again.request(fetch_request(1, again.client.epoch, again.log.end_offset, again.log.last_epoch))
    assert not again.client.is_leader  # committed: now it goes


def test_a_voter_whose_removal_is_committed_does_not_stand() -> None:
    node = OneNode((0, 1, 2))
    node.follow(1, 1)
    leader = leading()
    leader.request(remove_request(0), 0)
    records = leader.log.read(0, 10_000)
    node.answer(node.fetch_out(), fetch_response(1, 1, records, high_watermark=leader.log.end_offset))
    node.pass_time(10_000)
    assert not node.sent(VoteRequest)


def test_an_observer_may_grant_a_vote() -> None:
    """testHandleVoteRequestAsObserver: it can be a voter that has not heard of it yet."""
    node = OneNode((1, 2, 3))
    answer = node.request(vote_request(1, 1), 2)
    assert answer.topics[0].partitions[0].vote_granted


# --- UpdateRaftVoter --------------------------------------------------------------------------------------------------


def test_an_update_changes_the_entry_at_once() -> None:
    node = leading()
    assert node.request(update_request(1), 0).error_code == ErrorCode.NONE
    assert node.client.voters.endpoint(1, LISTENER) == Endpoint(LISTENER, "elsewhere", 1)


def test_a_follower_whose_entry_differs_says_so_every_two_seconds() -> None:
    """testFollowerSendsUpdateVoterWhenDifferent."""
    node = OneNode()
    changed = VoterNode(key(0), (Endpoint(LISTENER, "old-host", 9),))
    voters = VoterSet.of([changed, *dynamic_voters(1, 2).by_id.values()])
    node.client._core.control.voters = voters
    node.follow(1, 1)
    for _ in range(5):
        node.answer(node.fetch_out(), fetch_response(1, 1))
        node.pass_time(450)
    (request,) = node.sent(UpdateRaftVoterRequest)
    said = request.message
    assert isinstance(said, UpdateRaftVoterRequest)
    assert (said.voter_id, said.listeners[0].host) == (0, "host0")


def test_static_voters_update_each_new_leader_once_and_can_then_upgrade_to_version_1() -> None:
    follower = OneNode(kraft_version=0)
    follower.follow(1, 1)
    for _ in range(5):
        follower.answer(follower.fetch_out(), fetch_response(1, 1))
        follower.pass_time(450)
    (request,) = follower.sent(UpdateRaftVoterRequest)
    current = UpdateRaftVoterResponseCurrentLeader(leader_id=1, leader_epoch=1)
    follower.answer(request, UpdateRaftVoterResponse(current_leader=current))
    for _ in range(10):
        follower.answer(follower.fetch_out(), fetch_response(1, 1))
        follower.pass_time(450)
    assert not follower.sent(UpdateRaftVoterRequest)

    leader = leading(kraft_version=0)
    with pytest.raises(KafkaError, match="Voter 1 has not said"):
        leader.client.upgrade_kraft_version(1, leader.now)
    for voter in (1, 2):
        assert leader.request(update_request(voter), 0).error_code == ErrorCode.NONE
    leader.client.upgrade_kraft_version(1, leader.now, validate_only=True)
    assert leader.client.kraft_version == 0
    leader.client.upgrade_kraft_version(1, leader.now)
    assert leader.client.kraft_version == 1
    assert [each.key for each in leader.client.voters.by_id.values()] == [key(0), key(1), key(2)]
    with pytest.raises(KafkaError) as raised:
        leader.client.upgrade_kraft_version(0, leader.now)
    assert raised.value.code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(("known", "sent"), [(None, AddRaftVoterRequest), (key(99), RemoveRaftVoterRequest)])
def test_auto_join_adds_itself_after_removing_its_old_directory(known: Any, sent: type) -> None:
    """testAutoAddNewVoter, testAutoRemoveOldVoter."""
    node = OneNode((1, 2, 3), auto_join=True)
    if known is not None:
        old = VoterNode(type(known)(0, known.directory_id), (endpoint(0),))
        node.client._core.control.voters = node.client.voters.with_voter(old)
    node.follow(1, 1)
    for _ in range(5):
        node.answer(node.fetch_out(), fetch_response(1, 1))
        node.pass_time(450)
    (request,) = node.sent(sent)
    assert request.message.voter_id == 0  # type: ignore[attr-defined]  # of both kinds


# --- voter sets -------------------------------------------------------------------------------------------------------


def test_a_voter_set_survives_its_record() -> None:
    voters = dynamic_voters(3, 1, 2)
    assert VoterSet.from_record(voters.to_record()) == voters
    assert list(voters.by_id) == [1, 2, 3]


@pytest.mark.parametrize(
    ("before", "after", "overlaps"),
    [((1, 2, 3), (1, 2), True), ((1, 2), (1, 2, 3), True), ((1, 2, 3), (1, 2, 4), True), ((1, 2, 3), (1, 4, 5), False)],
)
def test_at_most_one_voter_changes(before: tuple[int, ...], after: tuple[int, ...], overlaps: bool) -> None:
    """VoterSetTest.testNonOverlappingMajority."""
    assert dynamic_voters(*before).has_overlapping_majority(dynamic_voters(*after)) is overlaps


def test_a_voter_without_a_directory_matches_any() -> None:
    voters = VoterSet.of([VoterNode(ReplicaKey(1), (Endpoint(LISTENER, "::1", 9094),), 0, 0)])
    assert voters.is_voter(key(1))
    assert voters.endpoint(1, LISTENER.lower()) == Endpoint(LISTENER, "::1", 9094)


def test_a_control_batch_counts_from_its_append() -> None:
    node = OneNode()
    node.follow(1, 1)
    leader = leading()
    leader.request(remove_request(2), 0)
    node.answer(node.fetch_out(), fetch_response(1, 1, leader.log.read(0, 10_000) + batch(4, 1)))
    assert list(node.client.voters.by_id) == [0, 1]
    assert node.client.high_watermark == -1


@pytest.mark.parametrize("ids", [(), (1, 1)], ids=["nobody", "one of them twice"])
def test_an_invalid_voter_set_is_not_accepted_from_a_peer(ids: tuple[int, ...]) -> None:
    """The good batches before it are kept; it is not in the log, so it counts for nothing after a restart either."""
    node = OneNode()
    node.follow(1, 1)
    said = VotersRecord(voters=tuple(dynamic_voters(each).to_record().voters[0] for each in ids))
    key_, value = encode_control(said)
    wrong = encode_batch(1, 1, T0, [value], control_keys=[key_])
    node.answer(node.fetch_out(), fetch_response(1, 1, batch(0, 1) + wrong))
    assert node.log.end_offset == 1
    assert list(node.client.voters.by_id) == [0, 1, 2]
