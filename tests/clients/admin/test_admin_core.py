"""Where Admin sends requests, what it retries, and which items fail, on a virtual network."""

import pytest

from kraft_core.clients.admin.admin_call import Results
from kraft_core.clients.admin.admin_core import UNKNOWN_TOPIC_GRACE_MS
from kraft_core.clients.admin.configs import ConfigResource, ConfigResourceType
from kraft_core.clients.admin.offsets import OffsetSpec
from kraft_core.clients.admin.topics import NewTopic
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.network_requests import Disconnected
from kraft_core.protocol.errors import ErrorCode, KafkaError, RequestTimedOut, UnsupportedVersion
from kraft_core.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    CreateTopicsResponseCreatableTopicResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseDeletableGroupResult,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResponseDescribeConfigsResult,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    ListGroupsRequest,
    ListGroupsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponseListOffsetsPartitionResponse,
    ListOffsetsResponseListOffsetsTopicResponse,
    SaslHandshakeResponse,
)
from kraft_core.security.listener_security import ClientSecurity
from kraft_core.security.sasl_client_authenticator import LoginFailed
from tests.clients.admin.virtual_admin import VirtualAdmin

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))


@pytest.fixture
def admin() -> VirtualAdmin:
    made = VirtualAdmin({"t": {0: (1, 5), 1: (2, 5), 2: (1, 5)}})
    made.leaders = {T0: 1, T1: 2, T2: 1, TopicPartition("late", 0): 2}
    made.serve(ListOffsetsRequest, lambda node_id, request: offsets(made, node_id, request))
    made.serve(FindCoordinatorRequest, lambda _, request: coordinators(request, 2))
    made.serve_cluster()
    made.serve(ListGroupsRequest, lambda _, __: ListGroupsResponse())
    return made


def offsets(admin: VirtualAdmin, node_id: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer as the leader does, with the partition's index as its offset."""

    def partition(topic: str, index: int) -> ListOffsetsResponseListOffsetsPartitionResponse:
        is_leader = admin.leaders[TopicPartition(topic, index)] == node_id
        code = ErrorCode.NONE if is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ListOffsetsResponseListOffsetsPartitionResponse(partition_index=index, offset=index, error_code=code)

    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsResponseListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(partition(topic.name, each.partition_index) for each in topic.partitions),
            )
            for topic in request.topics
        )
    )


def coordinators(request: FindCoordinatorRequest, node_id: int) -> FindCoordinatorResponse:
    host = f"broker-{node_id}"
    return FindCoordinatorResponse(
        node_id=node_id,
        host=host,
        port=9092,
        coordinators=tuple(
            FindCoordinatorResponseCoordinator(key=key, node_id=node_id, host=host, port=9092)
            for key in request.coordinator_keys
        ),
    )


def created(request: CreateTopicsRequest, code: ErrorCode = ErrorCode.NONE) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=tuple(
            CreateTopicsResponseCreatableTopicResult(name=topic.name, error_code=code, num_partitions=1)
            for topic in request.topics
        )
    )


def deleted(request: DeleteGroupsRequest, code: ErrorCode = ErrorCode.NONE) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=tuple(
            DeleteGroupsResponseDeletableGroupResult(group_id=name, error_code=code) for name in request.groups_names
        )
    )


def test_partitions_with_one_leader_share_a_request(admin: VirtualAdmin) -> None:
    found = admin.do(admin.list_offsets({T0: OffsetSpec.LATEST, T1: OffsetSpec.LATEST, T2: OffsetSpec.EARLIEST}))
    assert {partition: info.offset for partition, info in found.all().items()} == {T0: 0, T1: 1, T2: 2}
    seen = admin.seen(ListOffsetsRequest)
    assert {number: len(requests) for number, requests in seen.items()} == {1: 1, 2: 1}
    assert [(each.partition_index, each.timestamp) for each in seen[1][0].topics[0].partitions] == [(0, -1), (2, -2)]


def test_results_keep_the_order_of_the_call(admin: VirtualAdmin) -> None:
    assert list(admin.do(admin.list_offsets(dict.fromkeys((T2, T1, T0), OffsetSpec.LATEST)))) == [T2, T1, T0]


def test_a_partition_whose_leader_moved_is_asked_again_at_the_new_leader(admin: VirtualAdmin) -> None:
    admin.leaders[T0] = 3  # metadata still says 1
    admin.on_tick = lambda: admin.topics.update(t={**admin.topics["t"], 0: (3, 6)})
    found = admin.do(admin.list_offsets({T0: OffsetSpec.LATEST, T1: OffsetSpec.LATEST}))
    assert not found.failed
    assert {number: len(requests) for number, requests in admin.seen(ListOffsetsRequest).items()} == {1: 1, 2: 1, 3: 1}


def test_an_unreachable_broker_costs_only_its_own_items(admin: VirtualAdmin) -> None:
    admin.do(admin.describe_cluster())
    admin.nodes[3].is_up = False
    admin.network.cut(admin.core.network, 3, admin.now_ms)
    found = admin.do(admin.list_groups())
    assert found.succeeded == {1: (), 2: ()}
    error = found.failed[3]
    assert isinstance(error, RequestTimedOut)
    assert "Not done within 10000 ms" in error.message
    assert "broker-3:9092: connection refused" in error.message


def test_a_broker_that_left_the_cluster_fails_at_once(admin: VirtualAdmin) -> None:
    def configs(_: int, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(
            results=tuple(
                DescribeConfigsResponseDescribeConfigsResult(
                    resource_type=each.resource_type, resource_name=each.resource_name
                )
                for each in request.resources
            )
        )

    admin.serve(DescribeConfigsRequest, configs)
    started_ms = admin.now_ms
    names = ("2", "9")
    found = admin.do(admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, name) for name in names]))
    assert [error.message for error in found.failed.values()] == [
        "Broker 9 is not in the cluster; its brokers are 1, 2, 3."
    ]
    assert [resource.name for resource in found.succeeded] == ["2"]
    assert list(admin.seen(DescribeConfigsRequest)) == [2]
    assert admin.now_ms - started_ms < 1_000


def test_a_topic_that_no_broker_knows_fails_after_a_short_while(admin: VirtualAdmin) -> None:
    started_ms = admin.now_ms
    unknown = TopicPartition("unknown", 0)
    beyond = TopicPartition("t", 7)
    found = admin.do(admin.list_offsets({T0: OffsetSpec.LATEST, unknown: OffsetSpec.LATEST, beyond: -1}))
    assert list(found.succeeded) == [T0]
    assert {error.code for error in found.failed.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert UNKNOWN_TOPIC_GRACE_MS <= admin.now_ms - started_ms < UNKNOWN_TOPIC_GRACE_MS + 1_000


def test_a_topic_that_was_just_created_is_found(admin: VirtualAdmin) -> None:
    admin.on_tick = lambda: admin.topics.update(late={0: (2, 0)}) if admin.now_ms > 2_000 else None
    found = admin.do(admin.list_offsets({TopicPartition("late", 0): OffsetSpec.LATEST}))
    assert not found.failed


def test_changes_go_to_the_controller_and_follow_it(admin: VirtualAdmin) -> None:
    controller = 2
    admin.set_controller(1)

    def create(node_id: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
        admin.set_controller(controller)
        return created(request, ErrorCode.NONE if node_id == controller else ErrorCode.NOT_CONTROLLER)

    admin.serve(CreateTopicsRequest, create)
    found = admin.do(admin.create_topics([NewTopic(name="a"), NewTopic(name="b")]))
    assert list(found.all()) == ["a", "b"]
    assert {number: len(requests) for number, requests in admin.seen(CreateTopicsRequest).items()} == {1: 1, 2: 1}


def test_only_the_items_that_moved_are_sent_again(admin: VirtualAdmin) -> None:
    sent: list[list[str]] = []

    def create(_: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
        sent.append([topic.name for topic in request.topics])
        codes = {"busy": ErrorCode.THROTTLING_QUOTA_EXCEEDED if len(sent) == 1 else ErrorCode.NONE, "bad": 17}
        return CreateTopicsResponse(
            topics=tuple(
                CreateTopicsResponseCreatableTopicResult(name=topic.name, error_code=codes.get(topic.name, 0))
                for topic in request.topics
            )
        )

    admin.serve(CreateTopicsRequest, create)
    found = admin.do(admin.create_topics([NewTopic(name=name) for name in ("good", "busy", "bad")]))
    assert sent == [["good", "busy", "bad"], ["busy"]]
    assert {name: error.code for name, error in found.failed.items()} == {"bad": ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_groups_go_to_their_coordinator_and_follow_it(admin: VirtualAdmin) -> None:
    coordinator = 2

    def delete(node_id: int, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        nonlocal coordinator
        if len(admin.seen(DeleteGroupsRequest)) == 1 and node_id == 2:
            coordinator = 3
            return deleted(request, ErrorCode.NOT_COORDINATOR)
        return deleted(request)

    admin.serve(FindCoordinatorRequest, lambda _, request: coordinators(request, coordinator))
    admin.serve(DeleteGroupsRequest, delete)
    assert not admin.do(admin.delete_consumer_groups(["g", "h"])).failed
    assert {number: len(requests) for number, requests in admin.seen(DeleteGroupsRequest).items()} == {2: 1, 3: 1}
    asked = [each for requests in admin.seen(FindCoordinatorRequest).values() for each in requests]
    assert [each.coordinator_keys for each in asked] == [("g", "h"), ("g", "h")]


def test_coordinators_are_asked_for_one_by_one_at_an_old_broker(admin: VirtualAdmin) -> None:
    admin.serve(FindCoordinatorRequest, lambda _, request: coordinators(request, 2), (0, 3))
    admin.serve(DeleteGroupsRequest, lambda _, request: deleted(request))
    assert not admin.do(admin.delete_consumer_groups(["g", "h", "i"])).failed


def test_a_coordinator_that_cannot_be_reached_is_looked_up_again(admin: VirtualAdmin) -> None:
    admin.nodes[2].is_up = False
    answers = iter([2])
    admin.serve(FindCoordinatorRequest, lambda _, request: coordinators(request, next(answers, 3)))
    admin.serve(DeleteGroupsRequest, lambda _, request: deleted(request))
    assert not admin.do(admin.delete_consumer_groups(["g"])).failed


def test_a_refused_lookup_fails_its_group_alone(admin: VirtualAdmin) -> None:
    def find(_: int, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        found = coordinators(request, 2)
        refused = tuple(
            FindCoordinatorResponseCoordinator(key=each.key, error_code=30) if each.key == "secret" else each
            for each in found.coordinators
        )
        return FindCoordinatorResponse(coordinators=refused)

    admin.serve(FindCoordinatorRequest, find)
    admin.serve(DeleteGroupsRequest, lambda _, request: deleted(request))
    found = admin.do(admin.delete_consumer_groups(["g", "secret"]))
    assert found["g"] is None
    assert [error.code for error in found.failed.values()] == [ErrorCode.GROUP_AUTHORIZATION_FAILED]


def test_a_request_whose_connection_ends_is_sent_again(admin: VirtualAdmin) -> None:
    answers = iter([None])
    admin.serve(CreateTopicsRequest, lambda _, request: next(answers, created(request)))

    def cut() -> None:
        admin.network.cut(admin.core.network, 1, admin.now_ms)
        admin.on_tick = lambda: None

    admin.on_tick = cut
    assert not admin.do(admin.create_topics([NewTopic(name="a")])).failed
    assert len(admin.seen(CreateTopicsRequest)[1]) == 2


def test_a_request_without_an_answer_says_that_it_may_have_taken_effect(admin: VirtualAdmin) -> None:
    admin.serve(CreateTopicsRequest, lambda _, __: None)
    error = admin.do(admin.create_topics([NewTopic(name="a")])).failed["a"]
    assert error.message == "Not done within 10000 ms. The last request has no answer and may have taken effect."


def test_without_any_broker_the_time_out_names_the_last_failure(admin: VirtualAdmin) -> None:
    for node in admin.nodes.values():
        node.is_up = False
    with pytest.raises(RequestTimedOut, match=r"The last error was: broker-1:9092: connection refused"):
        admin.do(admin.describe_cluster())


def test_a_refused_login_fails_the_call_at_once() -> None:
    security = ClientSecurity(mechanism="PLAIN", username="alice", password="secret")
    admin = VirtualAdmin(security=security)
    for node in admin.nodes.values():
        node.versions |= {17: (0, 1), 36: (0, 2)}
        node.handlers[17] = lambda _: SaslHandshakeResponse(error_code=33, mechanisms=("SCRAM-SHA-256",))
    with pytest.raises(LoginFailed):
        admin.do(admin.describe_cluster())
    assert admin.now_ms < 2_000


def test_an_api_that_a_broker_does_not_have_fails_that_brokers_items(admin: VirtualAdmin) -> None:
    del admin.nodes[2].versions[ListGroupsRequest.API_KEY]
    found = admin.do(admin.list_groups())
    assert isinstance(found.failed[2], UnsupportedVersion)
    assert list(found.succeeded) == [1, 3]


def test_an_item_that_the_answer_leaves_out_is_an_error(admin: VirtualAdmin) -> None:
    admin.serve(CreateTopicsRequest, lambda _, __: CreateTopicsResponse())
    error = admin.do(admin.create_topics([NewTopic(name="a")])).failed["a"]
    assert error.message == "The answer to CreateTopicsRequest leaves this item out."


def test_closing_ends_running_calls(admin: VirtualAdmin) -> None:
    admin.serve(CreateTopicsRequest, lambda _, __: None)
    admin.on_tick = admin.core.close
    assert isinstance(admin.do(admin.create_topics([NewTopic(name="a")])).failed["a"], Disconnected)


def test_results_raise_the_error_of_a_key_or_the_first_of_all() -> None:
    refused = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    results = Results({"a": 1, "b": refused})
    assert results.get_or_raise("a") == 1
    for raising in (lambda: results.get_or_raise("b"), results.all):
        with pytest.raises(KafkaError, match=refused.message):
            raising()


def test_nothing_is_asked_for_while_no_call_is_running(admin: VirtualAdmin) -> None:
    admin.do(admin.list_offsets({TopicPartition("unknown", 0): OffsetSpec.LATEST}))
    admin.step()
    seen = sum(len(node.seen) for node in admin.nodes.values())
    for _ in range(40):
        admin.now_ms += 500
        admin.step()
    assert sum(len(node.seen) for node in admin.nodes.values()) - seen <= 1
    assert admin.core.next_deadline_ms(admin.now_ms) is None
