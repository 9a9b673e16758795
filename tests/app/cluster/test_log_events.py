"""Events of the metadata log: flaps, elections outside the ISR, timelines of brokers, and how they are read."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from app.cluster.about import About
from app.cluster.history import Change, History
from app.cluster.log_events.broker_timeline import timeline
from app.cluster.log_events.events import BrokerEvent, Event, FeatureChange, PartitionMove, events_of
from app.cluster.log_events.flaps import Window, elections, rank
from app.cluster.log_events.survey import LogEvents
from app.cluster.log_store import recorder as recorder_module
from app.cluster.log_store.archive import Archive, Stretch
from app.pages.broker_timeline import timeline_chart
from app.pages.flaps import loss_text
from kraft_core.clients.observed_log import CommittedChange, ObservedLog
from kraft_core.image.topics_image import RECOVERED, RECOVERING
from kraft_core.protocol import metadata_records as r
from kraft_core.protocol.metadata_records import MetadataRecord
from kraft_core.protocol.record_batch import encode_batch
from tests.app.cluster.test_log_store import Store
from tests.app.reports.lake.script import (
    BROKER_FLAPS,
    BROKER_LEADERS,
    DAY,
    MINUTE,
    PARTITION_FLAPS,
    PARTITION_LEADERS,
    SCRIPT,
    START,
    change,
    fencing,
)
from tests.app.reports.lake.test_feed import topic
from tests.image.records import DIRECTORIES, partition, register_broker

START_MS = round(START.timestamp() * 1000)
Script = Sequence[tuple[int, Sequence[MetadataRecord]]]


def committed(script: Script) -> list[CommittedChange]:
    """Each item of a script, (minute, records), as a committed change."""
    log, changes, offset = ObservedLog(), [], 0
    for minute, records in script:
        values = [r.encode_record(record, type(record).VERSIONS[1]) for record in records]
        log.append(encode_batch(offset, 1, START_MS + minute * MINUTE, values), 1)
        offset += len(values)
        log.advance(offset)
        while (found := log.next_change()) is not None:
            changes.append(found)
    return changes


def history_of(script: Script) -> History:
    history = History(10_000)
    for each in committed(script):
        history.add(each)
    return history


def events(script: Script) -> list[Event]:
    return [event for each in history_of(script) for event in events_of(each)]


def moves(script: Script) -> list[PartitionMove]:
    return [each for each in events(script) if isinstance(each, PartitionMove)]


@pytest.fixture(scope="module")
def scripted() -> list[PartitionMove]:
    return moves(SCRIPT)


def test_a_scripted_flap_is_counted_as_the_trends_of_reports_count_it(scripted: list[PartitionMove]) -> None:
    found = rank(scripted, Window())
    flaps = [(row.topic, row.partition, row.flaps, row.out_ms) for row in found.partitions if row.flaps]
    assert flaps == PARTITION_FLAPS
    brokers = sorted((row for row in found.brokers if row.flaps), key=lambda row: -row.flaps)
    assert [(row.broker_id, row.flaps, row.out_ms) for row in brokers] == BROKER_FLAPS
    by_leader = rank(scripted, Window(), "leader")
    leaders = [(row.topic, row.partition, row.leader_changes) for row in by_leader.partitions if row.leader_changes]
    assert leaders == PARTITION_LEADERS
    gained = [(row.broker_id, row.leaders_gained, row.leaders_lost) for row in by_leader.brokers if row.leader_changes]
    assert gained == BROKER_LEADERS
    assert (found.flaps, found.leader_changes) == (3, 5)


def test_shrinks_and_expansions_are_counted_by_partition_and_broker(scripted: list[PartitionMove]) -> None:
    found = rank(scripted, Window())
    rows = [(row.topic, row.partition, row.shrinks, row.expansions) for row in found.partitions]
    assert rows == [("t1", 0, 3, 3), ("t1", 1, 2, 0), ("t3", 0, 1, 1)]
    assert [(row.broker_id, row.left, row.joined) for row in found.brokers] == [
        (3, 4, 2),
        (1, 2, 1),
        (4, 0, 1),
        (2, 0, 0),
    ]
    assert found.isr_changes == 10


def test_a_window_counts_what_is_in_it_and_knows_who_left_before_it(scripted: list[PartitionMove]) -> None:
    hour = rank(scripted, Window.of("hour", None, None, START_MS + (DAY + 30) * MINUTE))
    assert [(row.topic, row.partition) for row in hour.partitions] == [("t3", 0), ("t1", 1)]
    first = next(move.offset for move in scripted if move.joined)
    one = rank(scripted, Window.of("all", first, first, 0))
    assert [(row.shrinks, row.expansions, row.flaps, row.out_ms) for row in one.partitions] == [(0, 1, 1, 5 * MINUTE)]
    with pytest.raises(ValueError, match="greater than the last"):
        Window.of("day", 7, 6, 0)


def test_a_leader_outside_the_isr_is_unclean_eligible_or_the_end_of_a_move() -> None:
    found = moves(
        [
            (0, [topic(1), *(partition(1, index) for index in range(4))]),
            # 0: unclean; elected again while it recovers, also unclean; then recovered
            (1, [change(1, 0, isr=(1,)), change(1, 0, leader=-1)]),
            (2, [change(1, 0, leader=3, isr=(3,), leader_recovery_state=RECOVERING)]),
            (3, [change(1, 0, leader=2, isr=(2,))]),
            (4, [change(1, 0, leader_recovery_state=RECOVERED)]),
            # 1: eligible
            (5, [change(1, 1, leader=-1, isr=(), eligible_leader_replicas=(2,))]),
            (6, [change(1, 1, leader=2, isr=(2,), eligible_leader_replicas=())]),
            # 2: the last known leader
            (7, [change(1, 2, leader=-1, isr=(), last_known_elr=(1,))]),
            (8, [change(1, 2, leader=1, isr=(1,), last_known_elr=(), leader_recovery_state=RECOVERING)]),
            # 3: a move to broker 4 completes
            (9, [change(1, 3, replicas=(4,), isr=(4,), leader=4, directories=(DIRECTORIES[4],))]),
        ]
    )
    listed = [
        (each.partition, each.election, each.leader_before, each.isr_before, each.leader) for each in elections(found)
    ]
    assert listed == [
        (2, "last-known-leader", -1, (), 1),
        (1, "elr", -1, (), 2),
        (0, "unclean", 3, (3,), 2),
        (0, "unclean", -1, (1,), 3),
    ]
    assert [each.partition for each in elections(found, "t1", 0)] == [0, 0]
    assert elections(found, "t2") == []
    texts = {each.election: loss_text(each) for each in elections(found)}
    assert "broker 1 had and broker 3 had not fetched" in texts["unclean"]
    assert "Nothing that is below the high watermark" in texts["elr"]
    assert "broker 1, the last known leader" in texts["last-known-leader"]


def test_unclean_elections_are_counted_in_memory_for_the_dashboard() -> None:
    history = history_of(
        [
            (0, [topic(1), partition(1, 0), partition(1, 1)]),
            (1, [change(1, 0, isr=(1,)), change(1, 0, leader=-1)]),
            (2, [change(1, 0, leader=3, isr=(3,), leader_recovery_state=RECOVERING)]),
            (3, [change(1, 0, leader=2, isr=(2,))]),
            (4, [change(1, 1, leader=2)]),
        ]
    )
    assert history.unclean_since(START_MS) == 2
    assert history.unclean_since(START_MS + 3 * MINUTE) == 1
    assert history.unclean_since(START_MS + 4 * MINUTE) == 0


LIFE: Script = [
    (0, [register_broker(1, 1, fenced=True), register_broker(2, 2, fenced=True)]),
    (1, [fencing(1, -1), r.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, fenced=-1)]),
    (2, [topic(1), partition(1, 0, (1, 2)), partition(1, 1, (1, 2)), partition(1, 2, (2, 1))]),
    # a controlled shutdown moves one leader with it and one later; then broker 1 is fenced
    (
        10,
        [
            change(1, 0, leader=2),
            r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, in_controlled_shutdown=1),
        ],
    ),
    (11, [change(1, 1, leader=2)]),
    (12, [fencing(1, 1)]),
    # a new incarnation 20 minutes later
    (32, [register_broker(1, 40, fenced=True)]),
    (33, [r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=40, fenced=-1)]),
    (34, [change(1, 0, leader=1)]),
    # a directory goes offline and costs the leader; one is cordoned
    (
        40,
        [
            r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=40, log_dirs=(DIRECTORIES[7],)),
            change(1, 0, leader=2),
        ],
    ),
    (41, [r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=40, cordoned_log_dirs=(DIRECTORIES[7],))]),
    (50, [r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=40, fenced=1)]),
    (60, [r.UnregisterBrokerRecord(broker_id=1, broker_epoch=40)]),
]


def test_the_timeline_of_a_broker_has_its_states_what_they_cost_and_how_long_they_lasted() -> None:
    found = timeline(events(LIFE), 1, state_now="unregistered", first_ms=START_MS, now_ms=START_MS + 90 * MINUTE)
    rows = [
        (entry.event.kind, None if entry.lasted_ms is None else entry.lasted_ms // MINUTE, entry.leaders_lost)
        for entry in found.entries
    ]
    assert rows == [
        ("registered", 1, 0),
        ("unfenced", 9, None),
        ("controlled-shutdown", 2, 2),
        ("fenced", 20, 0),
        ("registered-again", 1, 0),
        ("unfenced", 17, None),
        ("directories-online", None, None),
        ("directories-offline", None, 1),
        ("cordoned", None, None),
        ("fenced", 10, 0),
        ("unregistered", 30, 0),
    ]
    assert [entry.is_current for entry in found.entries] == [False] * 10 + [True]
    assert "the broker was restarted" in found.entries[4].event.detail
    states = [(span.state, (span.to_ms - span.from_ms) // MINUTE) for span in found.spans]
    assert states == [
        ("unregistered", 0),
        ("fenced", 1),
        ("active", 9),
        ("shutting-down", 2),
        ("fenced", 20),
        ("fenced", 1),
        ("active", 17),
        ("fenced", 10),
        ("unregistered", 30),
    ]
    chart = timeline_chart(found, 1)
    assert chart is not None
    assert chart.count("<rect") == 7
    assert "shutting down for 2 min" in chart
    assert "style=" not in chart


def test_a_broker_without_events_had_its_state_all_the_time() -> None:
    found = timeline([], 5, state_now="active", first_ms=START_MS, now_ms=START_MS + MINUTE)
    assert [(span.state, span.to_ms - span.from_ms) for span in found.spans] == [("active", MINUTE)]


def test_feature_levels_and_changes_of_one_partition() -> None:
    script: Script = [
        (0, [r.FeatureLevelRecord(name="metadata.version", feature_level=25)]),
        (1, [r.FeatureLevelRecord(name="metadata.version", feature_level=30), topic(1), partition(1, 3)]),
        (2, [r.FeatureLevelRecord(name="metadata.version", feature_level=30), change(1, 3, leader=2)]),
    ]
    levels = [(each.name, each.before, each.after) for each in events(script) if isinstance(each, FeatureChange)]
    assert levels == [("metadata.version", 0, 25), ("metadata.version", 25, 30)]
    about = About("partition", "t1-3")
    last: Change = history_of(script).newest(1)[0]
    assert [about(record, last) for _, record in last.records] == [False, True]
    assert not About("partition", "t1-2")(last.records[1][1], last)


# reading


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "CHECKPOINT_BYTES", 600)


def registrations(count: int) -> Script:
    return [
        (number, [register_broker(number % 3, 10 + number, incarnation_id=UUID(int=number))]) for number in range(count)
    ]


@pytest.mark.usefixtures("often")
def test_what_is_on_disk_and_in_memory_is_read_once_and_then_followed(tmp_path: Path) -> None:
    changes = committed(registrations(60))

    async def main() -> None:
        store = await Store.open(tmp_path)
        store.read(changes[:50])
        await store.recorder.written()
        assert store.history.oldest_offset > 30, "most is on disk only"
        log_events = LogEvents(store.history, store.archive)
        first = await log_events.survey(30)
        assert first.is_whole
        assert [each.offset for each in first.events] == list(range(50))
        assert (first.first_offset, first.last_offset) == (0, 49)
        store.read(changes[50:55])
        again = await log_events.survey(0)
        assert [each.offset for each in again.events] == list(range(55))
        assert [each.offset for each in again.until(12).events] == list(range(13))
        await log_events.stop()
        await store.recorder.stop()

    asyncio.run(main())


@pytest.mark.usefixtures("often")
def test_a_reader_far_behind_the_memory_reads_what_it_missed_from_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = committed(registrations(60))
    asked: list[int | None] = []
    stretch = Archive.stretch

    async def noted(archive: Archive, before: int | None) -> Stretch:
        asked.append(before)
        return await stretch(archive, before)

    monkeypatch.setattr(Archive, "stretch", noted)

    async def main() -> None:
        store = await Store.open(tmp_path)
        store.read(changes[:10])
        log_events = LogEvents(store.history, store.archive)
        store.read(changes[10:40])
        await store.recorder.written()
        assert len((await log_events.survey(30)).events) == 40
        asked.clear()
        store.read(changes[40:])
        await store.recorder.written()
        found = await log_events.survey(30)
        assert [each.offset for each in found.events] == list(range(60))
        assert (found.first_offset, found.is_whole) == (0, True)
        assert min(each for each in asked if each is not None) >= 40, "what is known is not read again"
        await log_events.stop()
        await store.recorder.stop()

    asyncio.run(main())


def test_the_oldest_of_too_many_events_are_not_held() -> None:
    history = History(10_000)
    for each in committed(registrations(30)):
        history.add(each)

    async def main() -> None:
        log_events = LogEvents(history, Archive(history, 1_000, lambda: history.newest_offset), events_max=7)
        found = await log_events.survey(30)
        assert [each.offset for each in found.events] == list(range(23, 30))
        assert (found.first_offset, found.is_whole) == (23, True)
        assert isinstance(found.events[0], BrokerEvent)

    asyncio.run(main())
