"""Admin's requests to brokers of several ages, and what its answers mean, on a virtual network."""

from uuid import UUID

import pytest

from kraft_core.clients.admin.admin_call import Results
from kraft_core.clients.admin.cluster import FeatureUpdate, UpgradeType
from kraft_core.clients.admin.group_lag import group_lags
from kraft_core.clients.admin.groups import GroupDescription
from kraft_core.clients.admin.offset_reset import ShiftBy, ToCurrent, ToOffsets, ToSpec, plan_reset, require_inactive
from kraft_core.clients.admin.offsets import OffsetSpec
from kraft_core.clients.client_metadata import Node, TopicPartition
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.protocol.errors import ErrorCode, KafkaError, UnsupportedVersion
from kraft_core.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResponseDeletableTopicResult,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseDescribeTopicPartitionsResponseTopic,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    ListGroupsRequest,
    ListGroupsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponseListOffsetsPartitionResponse,
    ListOffsetsResponseListOffsetsTopicResponse,
    MetadataRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseOffsetFetchResponseGroup,
    OffsetFetchResponseOffsetFetchResponsePartition,
    OffsetFetchResponseOffsetFetchResponsePartitions,
    OffsetFetchResponseOffsetFetchResponseTopic,
    OffsetFetchResponseOffsetFetchResponseTopics,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpdateFeaturesResponseUpdatableFeatureResult,
)
from tests.clients.admin.virtual_admin import VirtualAdmin

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LOG = {T0: (10, 90), T1: (0, 7)}
"""The first offset and the end of each partition."""


@pytest.fixture
def admin() -> VirtualAdmin:
    made = VirtualAdmin({"t": {0: (1, 0), 1: (2, 0)}})
    made.serve(FindCoordinatorRequest, lambda _, request: coordinators(request))
    return made


def coordinators(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    found = tuple(
        FindCoordinatorResponseCoordinator(key=key, node_id=2, host="broker-2", port=9092)
        for key in request.coordinator_keys
    )
    return FindCoordinatorResponse(node_id=2, host="broker-2", port=9092, coordinators=found)


def test_topics_are_described_in_pages(admin: VirtualAdmin) -> None:
    """Each page has one partition; the topic `t` continues on the second page."""
    pages = {None: ("t", 0, ("t", 1)), ("t", 1): ("t", 1, ("u", 0)), ("u", 0): ("u", 0, None)}

    def page(_: int, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        cursor = request.cursor and (request.cursor.topic_name, request.cursor.partition_index)
        name, index, following = pages[cursor]
        partition = DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition(
            partition_index=index, leader_id=1, eligible_leader_replicas=(1,)
        )
        return DescribeTopicPartitionsResponse(
            topics=(
                DescribeTopicPartitionsResponseDescribeTopicPartitionsResponseTopic(name=name, partitions=(partition,)),
            ),
            next_cursor=following
            and DescribeTopicPartitionsResponseCursor(topic_name=following[0], partition_index=following[1]),
        )

    admin.serve(DescribeTopicPartitionsRequest, page)
    found = admin.do(admin.describe_topics(["u", "t", "v"], partition_size_limit_per_response=1))
    assert {name: [each.partition for each in topic.partitions] for name, topic in found.succeeded.items()} == {
        "u": [0],
        "t": [0, 1],
    }
    assert [error.code for error in found.failed.values()] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    asked = [each for requests in admin.seen(DescribeTopicPartitionsRequest).values() for each in requests]
    assert sorted([topic.name for topic in each.topics] for each in asked) == [
        ["t", "u", "v"],
        ["t", "u", "v"],
        ["u", "v"],
    ]


def test_topics_of_an_older_broker_come_from_metadata(admin: VirtualAdmin) -> None:
    found = admin.do(admin.describe_topics(["t", "unknown"]))
    assert [(each.partition, each.leader, each.elr) for each in found.get_or_raise("t").partitions] == [
        (0, 1, None),
        (1, 2, None),
    ]
    assert found.failed["unknown"].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    metadata = [each for requests in admin.seen(MetadataRequest).values() for each in requests]
    assert not any(each.allow_auto_topic_creation for each in metadata)


def test_topics_are_deleted_by_name_at_an_older_broker_and_not_by_id(admin: VirtualAdmin) -> None:
    def delete(_: int, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        results = tuple(DeleteTopicsResponseDeletableTopicResult(name=name) for name in request.topic_names)
        return DeleteTopicsResponse(responses=results)

    admin.serve(DeleteTopicsRequest, delete, (1, 5))
    assert admin.do(admin.delete_topics(["a", "b"])) == {"a": None, "b": None}
    by_id = admin.do(admin.delete_topics([UUID(int=5)]))
    assert isinstance(by_id.failed[UUID(int=5)], UnsupportedVersion)
    with pytest.raises(ValueError, match="by name or by id"):
        admin.do(admin.delete_topics(["a", UUID(int=5)]))


def test_groups_are_listed_by_state_and_type_where_brokers_can_do_that(admin: VirtualAdmin) -> None:
    admin.serve(ListGroupsRequest, lambda _, __: ListGroupsResponse())
    admin.nodes[1].versions[ListGroupsRequest.API_KEY] = (0, 3)
    admin.serve_cluster()
    found = admin.do(admin.list_groups(states=["preparing_rebalance"], types=["CONSUMER"]))
    assert list(found.succeeded) == [2, 3]
    assert isinstance(found.failed[1], UnsupportedVersion)
    assert admin.seen(ListGroupsRequest)[2][0] == ListGroupsRequest(
        states_filter=("PreparingRebalance",), types_filter=("Consumer",)
    )
    with pytest.raises(ValueError, match="Unknown group type 'x': must be one of Classic, Consumer, Share, Streams"):
        admin.do(admin.list_groups(types=["x"]))


def test_a_classic_group_is_described_where_the_new_api_does_not_know_it(admin: VirtualAdmin) -> None:
    def new(_: int, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
        codes = {"old": ErrorCode.GROUP_ID_NOT_FOUND, "secret": ErrorCode.GROUP_AUTHORIZATION_FAILED}
        return ConsumerGroupDescribeResponse(
            groups=tuple(
                ConsumerGroupDescribeResponseDescribedGroup(
                    group_id=name, error_code=codes.get(name, 0), group_state="Stable", group_epoch=4
                )
                for name in request.group_ids
            )
        )

    def classic(_: int, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        groups = tuple(
            DescribeGroupsResponseDescribedGroup(group_id=name, group_state="Empty") for name in request.groups
        )
        return DescribeGroupsResponse(groups=groups)

    admin.serve(ConsumerGroupDescribeRequest, new)
    admin.serve(DescribeGroupsRequest, classic)
    found = admin.do(admin.describe_consumer_groups(["new", "old", "secret"]))
    assert {name: (group.type, group.epoch) for name, group in found.succeeded.items()} == {
        "new": ("Consumer", 4),
        "old": ("Classic", None),
    }
    assert found.failed["secret"].code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert found.get_or_raise("new").coordinator == Node(2, "broker-2", 9092)


def test_features_of_an_older_broker_have_results_of_their_own(admin: VirtualAdmin) -> None:
    def update(_: int, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        results = tuple(
            UpdateFeaturesResponseUpdatableFeatureResult(
                feature=each.feature, error_code=95 if each.feature == "b" else 0
            )
            for each in request.feature_updates
        )
        return UpdateFeaturesResponse(results=results)

    admin.serve(UpdateFeaturesRequest, update, (0, 0))
    updates = {"a": FeatureUpdate(1), "b": FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE)}
    found = admin.do(admin.update_features(updates))
    assert found["a"] is None
    assert found.failed["b"].code == ErrorCode.INVALID_UPDATE_VERSION
    (request,) = admin.seen(UpdateFeaturesRequest)[1]
    assert [each.allow_downgrade for each in request.feature_updates] == [False, True]


def serve_offsets(admin: VirtualAdmin, committed: dict[TopicPartition, int]) -> None:
    """Let brokers serve the log's offsets and the committed ones of every group, in the newest version."""

    def fetch(_: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
        return OffsetFetchResponse(
            groups=tuple(
                OffsetFetchResponseOffsetFetchResponseGroup(
                    group_id=group.group_id,
                    topics=tuple(
                        OffsetFetchResponseOffsetFetchResponseTopics(
                            name=topic,
                            partitions=(
                                OffsetFetchResponseOffsetFetchResponsePartitions(
                                    partition_index=index, committed_offset=offset
                                ),
                            ),
                        )
                        for (topic, index), offset in committed.items()
                    ),
                )
                for group in request.groups
            )
        )

    def offset(partition: TopicPartition, timestamp: int) -> int:
        first, end = LOG[partition]
        return {OffsetSpec.EARLIEST: first, OffsetSpec.LATEST: end}.get(timestamp, 50 if partition == T0 else -1)

    def listed(_: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsResponseListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsResponseListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            offset=offset(TopicPartition(topic.name, each.partition_index), each.timestamp),
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    admin.serve(OffsetFetchRequest, fetch)
    admin.serve(ListOffsetsRequest, listed)


def test_an_older_broker_is_asked_for_the_offsets_of_one_group_at_a_time(admin: VirtualAdmin) -> None:
    def fetch(_: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
        offset = {"g": 5, "h": -1}[request.group_id]
        partition = OffsetFetchResponseOffsetFetchResponsePartition(partition_index=0, committed_offset=offset)
        topic = OffsetFetchResponseOffsetFetchResponseTopic(name="t", partitions=(partition,))
        return OffsetFetchResponse(topics=(topic,))

    admin.serve(OffsetFetchRequest, fetch, (1, 6))
    found = admin.do(admin.list_consumer_group_offsets({"g": None, "h": [T0]}))
    assert found.all() == {"g": {T0: OffsetAndMetadata(5)}, "h": {T0: None}}
    assert [each.topics is None for each in admin.seen(OffsetFetchRequest)[2]] == [True, False]


def test_offsets_are_asked_for_again_while_a_transaction_holds_them_up(admin: VirtualAdmin) -> None:
    codes = [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.NONE]

    def fetch(_: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
        partition = OffsetFetchResponseOffsetFetchResponsePartitions(
            partition_index=0, committed_offset=5, error_code=codes.pop(0)
        )
        topic = OffsetFetchResponseOffsetFetchResponseTopics(name="t", partitions=(partition,))
        return OffsetFetchResponse(groups=(OffsetFetchResponseOffsetFetchResponseGroup(group_id="g", topics=(topic,)),))

    admin.serve(OffsetFetchRequest, fetch)
    found = admin.do(admin.list_consumer_group_offsets({"g": None}, require_stable=True))
    assert found.all() == {"g": {T0: OffsetAndMetadata(5)}}


@pytest.mark.parametrize(
    ("scenario", "planned"),
    [
        (ToSpec(OffsetSpec.EARLIEST), [(10, ""), (0, "")]),
        (ToSpec(OffsetSpec.LATEST), [(90, ""), (7, "")]),
        (ToSpec(1_000), [(50, ""), (7, "no record that new")]),
        (ToOffsets(8), [(10, "8 is before the log's start"), (7, "8 is beyond the log's end")]),
        (ToOffsets({T0: 11, T1: 6}), [(11, ""), (6, "")]),
        (ToCurrent(), [(40, ""), (7, "no committed offset")]),
    ],
)
def test_offsets_are_planned_within_the_log(admin: VirtualAdmin, scenario: object, planned: list) -> None:
    serve_offsets(admin, {T0: 40})
    plan = admin.do(plan_reset(admin, "g", [T1, T0], scenario))
    assert [(each.partition, each.committed) for each in plan] == [(T0, 40), (T1, None)]
    assert [(each.new_offset, each.note) for each in plan] == planned


def test_a_shift_needs_a_committed_offset(admin: VirtualAdmin) -> None:
    serve_offsets(admin, {T0: 40})
    (shifted,) = admin.do(plan_reset(admin, "g", None, ShiftBy(-5)))
    assert (shifted.partition, shifted.new_offset) == (T0, 35)
    with pytest.raises(ValueError, match="Partition t-1 has no committed offset to shift by 5"):
        admin.do(plan_reset(admin, "g", [T0, T1], ShiftBy(5)))


def test_a_partition_without_a_leader_has_no_lag_and_an_error(admin: VirtualAdmin) -> None:
    serve_offsets(admin, {T0: 40, T1: 2})
    admin.topics["t"][1] = (-1, 1)
    group = GroupDescription("g", "Classic", "consumer", "Empty", "", Node(2, "broker-2", 9092), ())
    started_ms = admin.now_ms
    first, second = admin.do(group_lags(admin, [group]))["g"]
    assert (first.lag, second.lag) == (50, None)
    assert second.error is not None
    assert "LEADER" in second.error.message.upper()
    assert admin.now_ms - started_ms < 6_000


def test_a_group_that_does_not_exist_is_inactive() -> None:
    require_inactive("g", KafkaError(ErrorCode.GROUP_ID_NOT_FOUND))
    with pytest.raises(KafkaError, match="refused"):
        require_inactive("g", KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "refused"))


def test_results_of_nothing_are_empty(admin: VirtualAdmin) -> None:
    assert admin.do(admin.create_topics([])) == Results()
    assert admin.do(admin.describe_topics([])) == {}
    assert admin.do(admin.describe_user_scram_credentials([])) == {}
