"""Reads of the active controller wait for a round of the quorum; the node is driven under a virtual clock."""

import pytest

from kraft_core.configs.config_resource import BROKER
from kraft_core.controller.controller_request_context import ControllerRequestContext
from kraft_core.node import ControllerRequest
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.internal_topics import METADATA_TOPIC
from kraft_core.protocol.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ListPartitionReassignmentsRequest,
)
from kraft_core.raft.effects import SendRequest
from kraft_core.raft.events import RequestReceived
from tests.node_cluster import CLUSTER_ID, Cluster, Member


def describe_min_isr() -> DescribeConfigsRequest:
    """Return a read of the cluster's min.insync.replicas."""
    resource = DescribeConfigsRequestDescribeConfigsResource(
        resource_type=BROKER, resource_name="", configuration_keys=("min.insync.replicas",)
    )
    return DescribeConfigsRequest(resources=(resource,))


def set_min_isr(value: int) -> IncrementalAlterConfigsRequest:
    config = IncrementalAlterConfigsRequestAlterableConfig(
        name="min.insync.replicas", config_operation=0, value=str(value)
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=BROKER, resource_name="", configs=(config,)
    )
    return IncrementalAlterConfigsRequest(resources=(resource,))


def read_value(member: Member, request_id: int) -> str | None:
    """Return the value in the response to `describe_min_isr`, None without a response."""
    answer = member.answers.get(request_id)
    if answer is None:
        return None
    result = answer.results[0]
    assert result.error_code == ErrorCode.NONE
    return str(result.configs[0].value)


def test_a_read_on_the_active_controller_is_answered_after_a_round_of_the_quorum() -> None:
    cluster = Cluster(3)
    active = cluster.active()
    write = active.request(set_min_isr(2), 1)
    cluster.until(lambda: write in active.answers)
    read = active.request(describe_min_isr(), 4)
    assert read_value(active, read) is None
    cluster.settle()
    assert read_value(active, read) == "2"


def test_a_single_controller_answers_a_read_at_once() -> None:
    active = Cluster(1).active()
    assert read_value(active, active.request(describe_min_isr(), 4)) == "1"


def test_other_nodes_answer_reads_at_once_from_committed_state() -> None:
    """As in Kafka: only the active controller returns the newest state."""
    cluster = Cluster(3)
    active = cluster.active()
    cluster.run(1000)
    (follower, _) = (each for each in cluster.members.values() if each is not active)
    cluster.cut_off.add(follower.node_id)
    assert read_value(follower, follower.request(describe_min_isr(), 4)) == "1"


def test_an_isolated_leader_answers_no_stale_read() -> None:
    cluster = Cluster(3)
    old = cluster.active()
    cluster.run(1000)
    cluster.cut_off.add(old.node_id)
    new = cluster.active()
    write = new.request(set_min_isr(2), 1)
    cluster.until(lambda: write in new.answers)
    assert old.node.is_active, "it has not noticed yet"
    held = [old.request(describe_min_isr(), 4), old.request(ListPartitionReassignmentsRequest(topics=None), 0)]
    cluster_read = old.request(DescribeClusterRequest(endpoint_type=2), 2)
    assert cluster_read in old.answers, "by this clients find the controllers"
    cluster.until(lambda: not old.node.is_active)
    assert old.answers[held[0]].results[0].error_code == ErrorCode.NOT_CONTROLLER
    assert old.answers[held[1]].error_code == ErrorCode.NOT_CONTROLLER
    read = new.request(describe_min_isr(), 4)
    cluster.settle()
    assert read_value(new, read) == "2"


def test_a_read_that_arrives_with_the_news_of_a_successor_is_refused() -> None:
    """Raft no longer leads, and the controller does not know it yet."""
    cluster = Cluster(3)
    old = cluster.active()
    cluster.run(1000)
    partition = BeginQuorumEpochRequestPartitionData(
        leader_id=next(each for each in cluster.node_ids if each != old.node_id), leader_epoch=old.node.raft.epoch + 1
    )
    topic = BeginQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    news = BeginQuorumEpochRequest(cluster_id=CLUSTER_ID, voter_id=old.node_id, topics=(topic,))
    read = cluster.new_id()
    old.step(
        RequestReceived(cluster.new_id(), news, 1),
        ControllerRequest(read, describe_min_isr(), 4, ControllerRequestContext()),
    )
    assert old.answers[read].results[0].error_code == ErrorCode.NOT_CONTROLLER


def test_an_unconfirmed_read_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The voters fetch, so the leader stays; its requests to them are lost, and nothing is appended."""
    cluster = Cluster(3)
    active = cluster.active()
    cluster.run(1000)
    send = cluster.send

    def without_announcements(sender: Member, effect: SendRequest) -> None:
        if not isinstance(effect.message, BeginQuorumEpochRequest):
            send(sender, effect)

    monkeypatch.setattr(cluster, "send", without_announcements)
    first = active.request(describe_min_isr(), 4)
    cluster.run(active.node.config.raft.check_quorum_timeout_ms - 10)
    assert first not in active.answers
    cluster.run(20)
    assert active.answers[first].results[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert active.node.is_active
    second = active.request(describe_min_isr(), 4)
    cluster.settle()
    assert second not in active.answers
    for value in (2, 3):  # the first confirms the current round, the second the next
        write = active.request(set_min_isr(value), 1)
        cluster.settle()
        assert active.answers[write].responses[0].error_code == ErrorCode.NONE
    assert read_value(active, second) == "3"


def test_a_storm_of_reads_costs_two_rounds() -> None:
    cluster = Cluster(3)
    active = cluster.active()
    cluster.run(1000)
    sent: list[SendRequest] = []
    send = cluster.send

    def counted(sender: Member, effect: SendRequest) -> None:
        if isinstance(effect.message, BeginQuorumEpochRequest):
            sent.append(effect)
        send(sender, effect)

    cluster.send = counted  # type: ignore[method-assign]  # counts, and passes on
    reads = [
        active.request(describe_min_isr(), 4) for _ in range(500)
    ]  # the first begins a round, the others share one
    cluster.settle()
    assert {read_value(active, each) for each in reads} == {"1"}
    assert len(sent) == 2 * 2
