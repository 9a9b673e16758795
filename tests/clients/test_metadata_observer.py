"""The observer never publishes an older image than before, and never skips records that it cannot read."""

import asyncio
from collections.abc import Sequence
from typing import cast
from uuid import UUID

import pytest

from kraft_core.clients.kafka_client import KafkaConnection
from kraft_core.clients.metadata_observer import MetadataObserver
from kraft_core.clients.observed_log import ObservedLog
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.replay_error import ReplayError
from kraft_core.protocol.messages import FetchResponsePartitionData
from kraft_core.protocol.metadata_records import (
    FeatureLevelRecord,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
    encode_record,
)
from kraft_core.protocol.record_batch import encode_batch
from kraft_core.protocol.wire import Message

NOBODY = cast("KafkaConnection", None)
RECORDS: list[MetadataRecord] = [
    FeatureLevelRecord(name="metadata.version", feature_level=30),
    *(TopicRecord(name=f"topic-{number}", topic_id=UUID(int=1000 + number)) for number in range(1, 4)),
]
LOG = [encode_batch(offset, 1, 0, [encode_record(record, 0)]) for offset, record in enumerate(RECORDS)]


def fetched(batches: Sequence[bytes], high_watermark: int) -> FetchResponsePartitionData:
    return FetchResponsePartitionData(high_watermark=high_watermark, records=b"".join(batches))


def topics(image: MetadataImage) -> list[str]:
    return sorted(image.topics.by_name)


async def reading() -> MetadataObserver:
    observer = MetadataObserver([("127.0.0.1", 1)])
    observer.epoch = 1
    await observer._handle_fetch(NOBODY, fetched(LOG, 4))
    assert topics(observer.image) == ["topic-1", "topic-2", "topic-3"]
    return observer


def test_an_observer_that_restarts_publishes_no_older_image_and_no_records_between() -> None:
    """With an older image a broker would delete the logs of topics that the image lacks."""

    async def main() -> None:
        observer = await reading()
        seen: list[tuple[list[str], list[str], int]] = []
        observer.subscribe(lambda old, new, records: seen.append((topics(old), topics(new), len(records))))
        observer._restart()
        await observer._handle_fetch(NOBODY, fetched(LOG[:2], 4))
        assert topics(observer.image) == ["topic-1", "topic-2", "topic-3"]
        assert seen == []
        later = TopicRecord(name="topic-4", topic_id=UUID(int=1004))
        more = [*LOG[2:], encode_batch(4, 1, 0, [encode_record(later, 0)])]
        await observer._handle_fetch(NOBODY, fetched(more, 5))
        assert seen == [(["topic-1", "topic-2", "topic-3"], ["topic-1", "topic-2", "topic-3", "topic-4"], 0)]

    asyncio.run(main())


def test_a_quorum_that_lost_its_log_is_followed_once_its_whole_log_is_read() -> None:
    async def main() -> None:
        observer = await reading()
        observer._restart()
        await observer._handle_fetch(NOBODY, fetched(LOG[:2], 2))
        assert topics(observer.image) == ["topic-1"]

    asyncio.run(main())


def test_a_failing_listener_does_not_stop_the_observer(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        observer = MetadataObserver([("127.0.0.1", 1)])
        observer.epoch = 1

        def faulty(old: MetadataImage, new: MetadataImage, records: Sequence[Message]) -> None:
            raise ZeroDivisionError

        seen: list[MetadataImage] = []
        observer.subscribe(faulty)
        observer.subscribe(lambda old, new, records: seen.append(new))
        await observer._handle_fetch(NOBODY, fetched(LOG, 4))
        assert seen == [observer.image]
        assert "metadata_listener_failed" in caplog.messages

    asyncio.run(main())


def test_a_batch_that_cannot_be_replayed_is_never_skipped() -> None:
    bad = encode_batch(2, 1, 0, [encode_record(RemoveTopicRecord(topic_id=UUID(int=77)), 0)])
    observed = ObservedLog()
    observed.append(b"".join([LOG[0], LOG[1], bad, LOG[3]]), 1)
    observed.advance(4)
    assert observed.next_change() is not None
    assert observed.next_change() is not None
    for _ in range(2):
        with pytest.raises(ReplayError):
            observed.next_change()
    assert topics(observed.image) == ["topic-1"]
