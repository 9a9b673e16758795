"""The last definition of a deleted topic: which ACLs belong to it."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from app.cluster.cluster import Cluster
from app.cluster.history import Change, History
from app.http.errors import NotFoundError
from app.pages.topic_again import definition_of
from kraft_core.clients.observed_log import ObservedLog
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol import metadata_records as r
from kraft_core.protocol.acl import PatternType
from kraft_core.protocol.metadata_records import MetadataRecord
from kraft_core.protocol.record_batch import encode_batch
from tests.image.records import partition, topic_id


def acl(number: int, name: str, principal: str, pattern: int = PatternType.LITERAL) -> r.AccessControlEntryRecord:
    return r.AccessControlEntryRecord(
        id=UUID(int=number), resource_type=2, resource_name=name, pattern_type=pattern, principal=principal, host="*",
        operation=3, permission_type=3,
    )  # fmt: skip


def test_the_acls_are_those_that_named_the_topic_when_it_was_deleted_and_are_gone_now() -> None:
    steps: list[list[MetadataRecord]] = [
        [r.FeatureLevelRecord(name="metadata.version", feature_level=30)],
        [r.TopicRecord(name="t", topic_id=topic_id(1))],
        [partition(1, 0), partition(1, 1)],
        [r.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="7")],
        [acl(1, "t", "User:before"), acl(2, "t", "User:with"), acl(3, "t", "User:stays"), acl(4, "t2", "User:other")],
        [acl(5, "t", "User:prefix", PatternType.PREFIXED)],
        [r.RemoveAccessControlEntryRecord(id=UUID(int=1))],
        [
            r.RemoveTopicRecord(topic_id=topic_id(1)),
            r.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms"),
        ],
        [r.RemoveAccessControlEntryRecord(id=UUID(int=number)) for number in (2, 4, 5)],
    ]  # fmt: skip
    history, log, offset, deleted_at = History(1_000), ObservedLog(), 0, -1
    for step in steps:
        values = [r.encode_record(record, type(record).VERSIONS[1]) for record in step]
        log.append(encode_batch(offset, 1, 0, values), 1)
        offset += len(step)
        log.advance(offset)
        change = log.next_change()
        assert change is not None
        history.add(change)
        deleted_at = offset - 1 if isinstance(step[0], r.RemoveTopicRecord) else deleted_at

    async def change_at(wanted: int) -> Change | None:
        return next((each for each in history if each.first_offset <= wanted <= each.offset), None)

    def cluster_at(image: MetadataImage) -> Cluster:
        archive: Any = SimpleNamespace(change_at=change_at)
        return cast("Cluster", SimpleNamespace(archive=archive, image=image))

    found = asyncio.run(definition_of(cluster_at(history.image), "t", deleted_at))
    assert [each.principal for each in found.acls] == ["User:with"]
    assert (found.wish.partitions, found.wish.replication_factor) == (2, 3)
    assert found.wish.configs == {"retention.ms": "7"}
    with pytest.raises(NotFoundError, match="was not deleted at offset 0"):
        asyncio.run(definition_of(cluster_at(history.image), "t", 0))
    with pytest.raises(NotFoundError, match="was not deleted at offset"):
        asyncio.run(definition_of(cluster_at(history.image), "u", deleted_at))
