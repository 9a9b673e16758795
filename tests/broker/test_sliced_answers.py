"""Requests about everything a broker has are answered in steps, so that other requests run in between.

Steps are counted.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from rpds import HashTrieMap

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.broker.apis.kafka_apis import KafkaApis
from kraft_core.broker.metadata_cache import MetadataCache
from kraft_core.broker.slices import Work
from kraft_core.clients.metadata_source import MetadataSource
from kraft_core.image.metadata_image import MetadataImage, TopicImage
from kraft_core.image.topics_image import TopicsImage
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopicRequest,
    ListGroupsRequest,
    OffsetFetchRequest,
    OffsetFetchRequestOffsetFetchRequestGroup,
)
from kraft_core.protocol.wire import Message
from kraft_core.server.network.request import Request
from tests.broker.group_world import World

COUNT = 1_000
MESSAGES: dict[str, tuple[ApiKey, int, Message]] = {
    "DescribeTopicPartitions of existing topics": (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        DescribeTopicPartitionsRequest(response_partition_limit=2_000),
    ),
    "DescribeTopicPartitions of unknown topics": (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        DescribeTopicPartitionsRequest(
            topics=tuple(DescribeTopicPartitionsRequestTopicRequest(name=f"unknown-{n}") for n in range(COUNT))
        ),
    ),
    "ListGroups": (ApiKey.LIST_GROUPS, 5, ListGroupsRequest()),
    "DescribeGroups": (ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(groups=tuple(map(str, range(COUNT))))),
    "OffsetFetch of one group": (ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(group_id="g", topics=None)),
    "OffsetFetch of a list of groups": (
        ApiKey.OFFSET_FETCH,
        9,
        OffsetFetchRequest(groups=(OffsetFetchRequestOffsetFetchRequestGroup(group_id="g", topics=None),)),
    ),
    "DescribeLogDirs": (ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None)),
}


def broker_with_much(folder: Path, work: Callable[[Request, Work[None]], None]) -> BrokerContext:
    """The parts of a broker with COUNT topics, groups, logs, and committed offsets of the group "g"."""
    world = World()
    for number in range(COUNT):
        world.join(group=str(number))
        world.coordinator.offsets.replay(
            "g", f"t{number}", 0, cast("Any", SimpleNamespace(offset=1, leader_epoch=0, metadata=""))
        )
    ids = {UUID(int=number + 1): f"t{number}" for number in range(COUNT)}
    topics = TopicsImage(
        by_id=HashTrieMap({key: TopicImage(name, key) for key, name in ids.items()}),
        by_name=HashTrieMap({name: key for key, name in ids.items()}),
    )
    source = cast("MetadataSource", SimpleNamespace(image=MetadataImage(topics=topics)))
    directory = SimpleNamespace(path=folder, directory_id=UUID(int=5))
    logs = {(name, 0): SimpleNamespace(directory=folder / f"{name}-0", partition=0, size=9) for name in ids.values()}
    manager = SimpleNamespace(directories=[directory], logs=logs, failures=SimpleNamespace(is_online=lambda path: True))
    parts: Any = SimpleNamespace(
        config=SimpleNamespace(max_request_partition_size_limit=2_000, node_id=1),
        node_id=1,
        metadata=MetadataCache(source, 1, {}),
        coordinator=SimpleNamespace(check=lambda group: ErrorCode.NONE, groups=world.coordinator, is_loading=False),
        replicas=SimpleNamespace(logs=manager),
        work=work,
    )
    return cast("BrokerContext", parts)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_request_about_everything_takes_one_step_for_each_thing(name: str, tmp_path: Path) -> None:
    started: list[Work[None]] = []
    answers: list[Message] = []
    api_key, version, body = MESSAGES[name]
    request: Any = SimpleNamespace(
        header=SimpleNamespace(api_key=api_key, api_version=version),
        size=0,
        is_large=False,
        listener_name="L",
        take_body=lambda: body,
        respond=answers.append,
    )

    async def steps() -> int:
        apis = KafkaApis(broker_with_much(tmp_path, lambda request, work: started.append(work)))
        try:
            apis.handle(request)
            return sum(1 for work in started for _ in work)
        finally:
            apis.close()

    assert asyncio.run(steps()) >= COUNT
    assert len(answers) == 1
