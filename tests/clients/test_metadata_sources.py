"""Properties of each MetadataSource, be it the process's controller or an observer.

An image holds no part of an open transaction, and the records lead from one image to the next.
Source: MetadataPublisher and MetadataLoader, Kafka 4.3.1.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_core.clients.metadata_observer import MetadataObserver
from kraft_core.clients.metadata_source import MetadataListener, MetadataListeners
from kraft_core.controller.controller_config import ControllerConfig
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.node import ImageChanged, Node, NodeConfig
from kraft_core.protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    TopicRecord,
    encode_record,
)
from kraft_core.protocol.record_batch import RecordBatch, encode_batch, read_batches
from kraft_core.protocol.wire import Message
from tests.clients.test_metadata_observer import NOBODY, fetched

Changes = list[tuple[MetadataImage, MetadataImage, list[Message]]]
Stream = list[list[MetadataRecord]]


def topic(number: int) -> TopicRecord:
    return TopicRecord(name=f"topic-{number}", topic_id=UUID(int=1000 + number))


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Batches of records, some in transactions that end, are aborted or stay open; a transaction may span batches."""
    records: list[MetadataRecord] = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    number = 0
    for kind in draw(st.lists(st.sampled_from(["plain", "ended", "aborted"]), max_size=6)):
        count = draw(st.integers(0, 3))
        topics: list[MetadataRecord] = [topic(number + each) for each in range(count)]
        number += count
        if kind == "plain":
            records += topics
        else:
            end = EndTransactionRecord() if kind == "ended" else AbortTransactionRecord(reason="why")
            records += [BeginTransactionRecord(name="t"), *topics, end]
    if draw(st.booleans()):
        records += [BeginTransactionRecord(name="open"), topic(number)]
    batches: Stream = []
    while records:
        size = draw(st.integers(1, 4))
        batches.append(records[:size])
        records = records[size:]
    return batches


def encoded(stream: Stream) -> list[bytes]:
    found, offset = [], 0
    for records in stream:
        found.append(encode_batch(offset, 1, 0, [encode_record(each, type(each).VERSIONS[1]) for each in records]))
        offset += len(records)
    return found


def listener_into(changes: Changes) -> MetadataListener:
    return lambda old, new, records: changes.append((old, new, list(records)))


def changes_of_an_observer(stream: Stream) -> Changes:
    changes: Changes = []

    async def main() -> None:
        observer = MetadataObserver([("127.0.0.1", 1)])
        observer.epoch = 1
        observer.subscribe(listener_into(changes))
        end = 0
        for raw, records in zip(encoded(stream), stream, strict=True):
            end += len(records)
            await observer._handle_fetch(NOBODY, fetched([raw], end))

    asyncio.run(main())
    return changes


class _Reader:
    """Committed batches, as raft passes them to its listener."""

    def __init__(self, batches: Sequence[RecordBatch]) -> None:
        self._batches = batches
        self.last_offset = batches[-1].last_offset
        self.last_timestamp = 0
        self.size_bytes = 1

    def __iter__(self) -> object:
        return iter(self._batches)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def changes_of_a_controller(stream: Stream) -> Changes:
    from kraft_core.raft.raft_config import RaftConfig
    from tests.raft.memory_raft_log import MemoryRaftLog

    raft = RaftConfig(node_id=1, directory_id=UUID(int=1), cluster_id="c", is_voter_capable=True, endpoints=())
    config = NodeConfig(raft=raft, controller=ControllerConfig(node_id=1, cluster_id="c"), bootstrap_records=())
    node = Node(config, MemoryRaftLog(), None, Random(0), 0)
    for raw in encoded(stream):
        (batch,) = read_batches(raw)
        node.handle_commit(_Reader([batch]))  # type: ignore[arg-type]  # has all methods that are used
    return [(each.old, each.new, list(each.records)) for each in node.step_all([], 0) if isinstance(each, ImageChanged)]


SOURCES = [changes_of_an_observer, changes_of_a_controller]


@pytest.mark.parametrize("source", SOURCES, ids=["observer", "controller"])
@given(stream=streams())
@settings(max_examples=60, deadline=None)
def test_the_records_lead_from_each_image_to_the_next(source: Callable[[Stream], Changes], stream: Stream) -> None:
    changes = source(stream)
    for (_, shown, _), (old, _, _) in pairwise(changes):
        assert old is shown, "no image between two calls is skipped"
    for number, (old, new, records) in enumerate(changes):
        is_first = source is changes_of_an_observer and number == 0
        assert not (is_first and records), "no image precedes the first one"
        assert is_first or replay_all(old, records, new.offset, new.epoch).same_metadata(new)
    assert bool(changes), "the first record is in no transaction"


@pytest.mark.parametrize("source", SOURCES, ids=["observer", "controller"])
@given(stream=streams())
@settings(max_examples=60, deadline=None)
def test_records_of_aborted_and_open_transactions_are_not_published(
    source: Callable[[Stream], Changes], stream: Stream
) -> None:
    kept: list[str] = []
    open_: list[str] | None = None
    for record in (each for batch in stream for each in batch):
        if isinstance(record, BeginTransactionRecord):
            open_ = []
        elif isinstance(record, EndTransactionRecord):
            kept += open_ or []
            open_ = None
        elif isinstance(record, AbortTransactionRecord):
            open_ = None
        elif isinstance(record, TopicRecord):
            (kept if open_ is None else open_).append(record.name)
    changes = source(stream)
    names = [each.name for _, _, records in changes for each in records if isinstance(each, TopicRecord)]
    if source is changes_of_an_observer:  # the first image comes without its records
        kept_at_first = len(changes[0][1].topics.by_name)
        assert names == kept[kept_at_first:]
    else:
        assert names == kept
    assert sorted(changes[-1][1].topics.by_name) == sorted(kept)


def test_all_listeners_are_called_even_if_one_fails() -> None:
    listeners = MetadataListeners()
    changes: list[str] = []

    def faulty(*_: object) -> None:
        raise ValueError("a failure of a listener")

    listeners.add(lambda *_: changes.append("first"))
    listeners.add(faulty)
    end = listeners.add(lambda *_: changes.append("last"))
    listeners.notify(MetadataImage.EMPTY, MetadataImage.EMPTY, [])
    assert (changes, listeners.failures) == (["first", "last"], 1)
    end()
    end()
    listeners.notify(MetadataImage.EMPTY, MetadataImage.EMPTY, [])
    assert changes == ["first", "last", "first"]


def test_a_subscription_may_end_during_a_notification() -> None:
    listeners = MetadataListeners()
    changes: list[str] = []
    ends = [listeners.add(lambda *_: [end() for end in ends] and None)]  # type: ignore[func-returns-value]  # all end
    ends.append(listeners.add(lambda *_: changes.append("second")))
    for _ in range(2):
        listeners.notify(MetadataImage.EMPTY, MetadataImage.EMPTY, [])
    assert changes == ["second"]
