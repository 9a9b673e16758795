"""Admin under random faults: whatever fails, every call ends within its time, with a result for every item."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from kraft_core.clients.admin.admin_call import Results
from kraft_core.clients.admin.offsets import OffsetSpec
from kraft_core.clients.admin.topics import NewTopic
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    CreateTopicsResponseCreatableTopicResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseDeletableGroupResult,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    ListGroupsRequest,
    ListGroupsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponseListOffsetsPartitionResponse,
    ListOffsetsResponseListOffsetsTopicResponse,
)
from kraft_core.protocol.wire import Message
from tests.clients.admin.virtual_admin import TICK_MS, VirtualAdmin

TIMEOUT_MS = 3_000
PARTITIONS = [TopicPartition("t", index) for index in range(6)]
GROUPS = ["g", "h", "i"]
MOVED = (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE)
LOST = (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
FINAL = ErrorCode.GROUP_AUTHORIZATION_FAILED


class Chaos:
    """Brokers that answer at random, also with errors, not at all, or not for every item."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.admin = VirtualAdmin(self.leaders(), timeout_ms=TIMEOUT_MS)
        self.admin.serve_cluster()
        for kind, answer in (
            (ListOffsetsRequest, self.offsets),
            (FindCoordinatorRequest, self.coordinators),
            (DeleteGroupsRequest, self.deleted),
            (CreateTopicsRequest, self.created),
            (ListGroupsRequest, lambda _request: ListGroupsResponse(error_code=random.choice(LOST))),
        ):
            self.admin.serve(kind, lambda _, request, answer=answer: self.maybe(answer, request))
        self.admin.on_tick = self.break_something

    def leaders(self) -> dict[str, dict[int, tuple[int, int]]]:
        return {"t": {each.partition: (self.random.choice((1, 2, 3, 3, -1)), 0) for each in PARTITIONS}}

    def maybe(self, answer: Any, request: Message) -> Message | None:
        return None if self.random.random() < 0.1 else answer(request)

    def some(self, items: Sequence[Any]) -> list[Any]:
        """Leave an item out now and then."""
        return [each for each in items if self.random.random() > 0.03]

    def break_something(self) -> None:
        random, admin = self.random, self.admin
        if random.random() < 0.1:
            number = random.choice((1, 2, 3))
            admin.nodes[number].is_up = not admin.nodes[number].is_up
            admin.network.cut(admin.core.network, number, admin.now_ms)
        if random.random() < 0.1:
            admin.topics.update(self.leaders())
            admin.set_controller(random.choice((-1, 1, 2, 3)))

    def offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsResponseListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsResponseListOffsetsPartitionResponse(
                            partition_index=each.partition_index, error_code=self.random.choice(MOVED), offset=1
                        )
                        for each in self.some(topic.partitions)
                    ),
                )
                for topic in request.topics
            )
        )

    def coordinators(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        node = self.random.choice((1, 2, 3))
        return FindCoordinatorResponse(
            coordinators=tuple(
                FindCoordinatorResponseCoordinator(
                    key=key,
                    node_id=node,
                    host=f"broker-{node}",
                    port=9092,
                    error_code=self.random.choice((0, 0, 0, 15, FINAL)),
                )
                for key in self.some(request.coordinator_keys)
            )
        )

    def deleted(self, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            results=tuple(
                DeleteGroupsResponseDeletableGroupResult(group_id=name, error_code=self.random.choice(LOST))
                for name in self.some(request.groups_names)
            )
        )

    def created(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        codes = (ErrorCode.NONE, ErrorCode.NOT_CONTROLLER, ErrorCode.TOPIC_ALREADY_EXISTS)
        return CreateTopicsResponse(
            topics=tuple(
                CreateTopicsResponseCreatableTopicResult(name=topic.name, error_code=self.random.choice(codes))
                for topic in self.some(request.topics)
            )
        )

    def ask(self) -> tuple[list[object], Results[Any, Any]]:
        """Return the items of a random operation and its results."""
        admin = self.admin
        match self.random.randrange(3):
            case 0:
                return [*PARTITIONS], admin.do(admin.list_offsets(dict.fromkeys(PARTITIONS, OffsetSpec.LATEST)))
            case 1:
                return [*GROUPS], admin.do(admin.delete_consumer_groups(GROUPS))
            case _:
                return ["a", "b"], admin.do(admin.create_topics([NewTopic(name=name) for name in ("a", "b")]))


@pytest.mark.parametrize("seed", range(40))
def test_every_call_ends_within_its_time_with_a_result_for_every_item(seed: int) -> None:
    chaos = Chaos(seed)
    outcomes = set()
    for _ in range(6):
        began_ms = chaos.admin.now_ms
        items, results = chaos.ask()
        assert list(results) == items
        assert chaos.admin.now_ms - began_ms <= TIMEOUT_MS + TICK_MS
        outcomes |= {type(each) for each in results.values()}
    assert outcomes
    network = chaos.admin.core.network
    for number, node in chaos.admin.nodes.items():
        node.is_up = True
        chaos.admin.set_controller(1)
        chaos.admin.network.cut(network, number, chaos.admin.now_ms)
    chaos.admin.on_tick = lambda: None
    chaos.admin.serve_cluster()
    assert len(chaos.admin.do(chaos.admin.describe_cluster()).nodes) == 3
