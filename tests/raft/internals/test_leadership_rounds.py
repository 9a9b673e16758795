"""A leader confirms its leadership before a read: which responses count, and which are too old. Raft thesis, 6.4."""

from typing import Any

import pytest

from kraft_core.protocol.errors import ErrorCode, NotController
from kraft_core.protocol.internal_topics import METADATA_TOPIC
from kraft_core.protocol.messages import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseSupportedFeatureKey,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    BeginQuorumEpochResponsePartitionData,
    BeginQuorumEpochResponseTopicData,
    RemoveRaftVoterRequest,
)
from kraft_core.raft.effects import SendRequest
from kraft_core.raft.events import FailureReason, Timer
from tests.raft.one_node import CLUSTER_ID, LISTENER, OneNode, begin_request, fetch_request, key, only


def leading(*voters: int, kraft_version: int = 1) -> OneNode:
    """A leader of this quorum that has committed its epoch, and whose first announcements are answered."""
    node = OneNode(voters, kraft_version=kraft_version)
    if len(voters) > 1:
        node.become_leader_with(len(voters) // 2)
    else:
        node.pass_time(2_000)
    for voter in voters[1:]:
        catch_up(node, voter)
    for request in begin_requests(node):
        node.answer(request, agreed(node))
    assert node.client.is_leader
    assert node.client.high_watermark == node.log.end_offset
    return node


def catch_up(node: OneNode, voter: int) -> None:
    """The voter has fetched all there is, and its next Fetch waits."""
    node.request(fetch_request(voter, node.client.epoch, node.log.end_offset, node.log.last_epoch))


def begin_requests(node: OneNode) -> list[SendRequest]:
    return node.sent(BeginQuorumEpochRequest)


def agreed(node: OneNode, *, error: int = 0, epoch: int | None = None, leader: int = 0) -> BeginQuorumEpochResponse:
    partition = BeginQuorumEpochResponsePartitionData(
        error_code=error, leader_id=leader, leader_epoch=node.client.epoch if epoch is None else epoch
    )
    topic = BeginQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return BeginQuorumEpochResponse(topics=(topic,))


def answer(node: OneNode, voter: int, **more: Any) -> None:
    (request,) = node.sent(BeginQuorumEpochRequest, voter)
    node.answer(request, agreed(node, **more))


def read(node: OneNode) -> int:
    """Request a round and carry out its effects."""
    number = node.client.confirm_leadership(node.client.epoch)
    node.step(Timer())
    return number


def is_confirmed(node: OneNode, number: int) -> bool:
    return node.client.confirmed_round >= number


def test_a_single_voter_needs_no_other_node() -> None:
    node = leading(0)
    assert is_confirmed(node, read(node))
    assert is_confirmed(node, read(node))
    assert not begin_requests(node)


@pytest.mark.parametrize(("voters", "needed"), [(2, 1), (3, 1), (4, 2), (5, 2)])
@pytest.mark.parametrize("kraft_version", [0, 1])
def test_a_majority_with_the_leader_confirms(voters: int, needed: int, kraft_version: int) -> None:
    node = leading(*range(voters), kraft_version=kraft_version)
    number = read(node)
    assert {each.destination.node_id for each in begin_requests(node)} == set(range(1, voters))
    for voter in range(1, needed + 1):
        assert not is_confirmed(node, number)
        answer(node, voter)
    assert is_confirmed(node, number)


def test_a_response_to_a_request_before_the_round_does_not_count() -> None:
    """The voter may have sent it, then voted for another candidate, and then got the next request."""
    node = leading(0, 1, 2)
    first = read(node)
    answer(node, 1)
    assert is_confirmed(node, first)
    (late,) = node.sent(BeginQuorumEpochRequest, 2)
    second = read(node)
    node.answer(late, agreed(node))
    assert not is_confirmed(node, second)
    answer(node, 2)  # the repeated request
    assert is_confirmed(node, second)


def test_no_fetch_counts_that_acknowledges_nothing_new() -> None:
    """Its time of sending is unknown: in flight, sent again, or after a broken connection."""
    node = leading(0, 1, 2)
    number = read(node)
    for _ in range(3):
        catch_up(node, 1)
        catch_up(node, 2)
    assert not is_confirmed(node, number)


def test_a_record_appended_after_the_rounds_start_confirms_it_once_committed() -> None:
    """So it is under writes, and for a leader that cannot connect to voters which fetch from it."""
    node = leading(0, 1, 2)
    number = read(node)
    for request in begin_requests(node):
        node.fail(request)
    node.append([b"younger"])
    assert not is_confirmed(node, number)
    catch_up(node, 1)
    assert is_confirmed(node, number)


def test_a_record_that_was_prepared_before_the_round_does_not_confirm_it() -> None:
    node = leading(0, 1, 2)
    node.append([b"older"])
    number = read(node)
    catch_up(node, 1)
    assert node.client.high_watermark == node.log.end_offset
    assert not is_confirmed(node, number)


def test_reads_that_come_before_a_round_begins_share_it_and_later_ones_share_the_next() -> None:
    node = leading(0, 1, 2)
    first = [node.client.confirm_leadership(node.client.epoch) for _ in range(50)]
    node.step(Timer())
    assert len(set(first)) == 1
    later = [read(node) for _ in range(50)]
    assert set(later) == {first[0] + 1}
    assert len(begin_requests(node)) == 2  # one round at a time
    answer(node, 1)
    assert is_confirmed(node, first[0])
    assert not is_confirmed(node, later[0])
    answer(node, 1)
    assert is_confirmed(node, later[0])
    answer(node, 2)
    assert not begin_requests(node)  # no other round is requested


def test_a_voter_that_refuses_does_not_count() -> None:
    node = leading(0, 1, 2)
    number = read(node)
    answer(node, 1, error=ErrorCode.INVALID_VOTER_KEY)
    answer(node, 2, error=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert not is_confirmed(node, number)


def test_a_failed_request_to_a_voter_is_retried() -> None:
    node = leading(0, 1, 2)
    number = read(node)
    for request in begin_requests(node):
        node.fail(request, FailureReason.TIMED_OUT)
    node.pass_time(100)
    answer(node, 2)
    assert is_confirmed(node, number)


def test_a_newer_epoch_ends_the_leadership_and_confirms_nothing() -> None:
    node = leading(0, 1, 2)
    epoch = node.client.epoch
    number = read(node)
    answer(node, 1, error=ErrorCode.FENCED_LEADER_EPOCH, epoch=epoch + 1, leader=2)
    assert not node.client.is_leader
    assert not is_confirmed(node, number)
    with pytest.raises(NotController):
        node.client.confirm_leadership(epoch)


def test_rounds_of_another_epoch_are_refused() -> None:
    node = leading(0, 1, 2)
    with pytest.raises(NotController):
        node.client.confirm_leadership(node.client.epoch - 1)
    follower = OneNode()
    follower.request(begin_request(1, 1), 1)
    with pytest.raises(NotController):
        follower.client.confirm_leadership(1)


def test_nothing_is_confirmed_before_a_record_of_the_leaders_epoch_is_committed() -> None:
    """The leader does not know yet what was committed before it."""
    node = OneNode()
    node.become_leader()
    for request in begin_requests(node):  # the first announcements
        node.answer(request, agreed(node))
    number = read(node)
    answer(node, 1)
    answer(node, 2)
    assert not is_confirmed(node, number)
    catch_up(node, 1)
    assert is_confirmed(node, number)


def test_a_leader_that_removes_itself_does_not_count_itself() -> None:
    node = leading(0, 1, 2)
    removal = RemoveRaftVoterRequest(cluster_id=None, voter_id=0, voter_directory_id=key(0).directory_id)
    assert node.request(removal, 0) is None
    number = read(node)
    answer(node, 1)
    assert not is_confirmed(node, number)
    answer(node, 2)
    assert is_confirmed(node, number)


def test_a_voter_that_is_added_counts_from_its_append_on() -> None:
    """Two of four are no majority, also when three were voters as the round began."""
    node = leading(0, 1, 2)
    catch_up(node, 3)
    number = read(node)
    addition = AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        voter_id=3,
        voter_directory_id=key(3).directory_id,
        listeners=(AddRaftVoterRequestListener(name=LISTENER, host="host3", port=9093),),
    )
    assert node.request(addition, 1) is None
    (probe,) = node.sent(ApiVersionsRequest)
    feature = ApiVersionsResponseSupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    node.answer(probe, ApiVersionsResponse(supported_features=(feature,)))
    assert list(node.client.voters.by_id) == [0, 1, 2, 3]
    answer(node, 1)
    assert not is_confirmed(node, number)
    answer(node, 3)
    assert is_confirmed(node, number)


def test_a_voter_answers_in_the_epoch_that_it_is_in_and_is_not_disturbed() -> None:
    """The other side: an announcement of the known leader moves no timer and no state."""
    voter = OneNode()
    voter.follow(leader=1, epoch=1)
    deadline_ms = voter.client.next_deadline_ms()
    voter.now += 10
    answer_ = only(voter.request(begin_request(1, 1), 1))
    assert (answer_.error_code, answer_.leader_id, answer_.leader_epoch) == (ErrorCode.NONE, 1, 1)
    assert voter.client.next_deadline_ms() == deadline_ms
    voter.request(begin_request(2, 2), 1)
    answer_ = only(voter.request(begin_request(1, 1), 1))
    assert (answer_.error_code, answer_.leader_epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 2)
