"""KafkaConsumer in classic groups, on our broker and on Apache's, alone and among librdkafka's and Java's members."""

import asyncio
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.group_errors import CommitFailed
from kraft_core.clients.consumer.kafka_consumer import KafkaConsumer
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from tests.interop.clients.group_reader import GroupReader, Owners, new_topic, on_event_loop, produce, until
from tests.interop.clients.member_process import member_process
from tests.interop.kafka import Process, java


def new_group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
@on_event_loop
async def test_members_share_the_partitions_and_take_over_those_of_one_that_leaves(ours: str, strategy: str) -> None:
    broker, topic, group, owners = ours, new_topic(ours, 6), new_group(), Owners()
    more = {"partition_assignment_strategy": strategy}
    readers = [await GroupReader(broker, group, "a", owners, **more).start(topic)]
    await until(lambda: len(readers[0].owned) == 6, "the first member owns all")
    readers.append(await GroupReader(broker, group, "b", owners, **more).start(topic))
    await until(lambda: [len(each.owned) for each in readers] == [3, 3], "two members share")
    readers.append(await GroupReader(broker, group, "c", owners, **more).start(topic))
    await until(lambda: [len(each.owned) for each in readers] == [2, 2, 2], "three members share")
    await readers.pop(0).close()
    await until(lambda: [len(each.owned) for each in readers] == [3, 3], "two members share what the first left")
    for each in readers:
        await each.close()
    assert owners.clashes == []
    assert owners.by_partition == {}


@on_event_loop
async def test_every_record_is_read_by_one_member_while_members_come_and_go(broker: str) -> None:
    """KIP-429: with cooperative-sticky, no partition has two owners at any time, and others keep being read."""
    topic, group, owners = new_topic(broker, 4), new_group(), Owners()
    produce(broker, topic, 4, 100)
    more = {"partition_assignment_strategy": "cooperative-sticky", "max_poll_records": 10}
    first = await GroupReader(broker, group, "first", owners, **more).start(topic)
    await until(lambda: first.read, "records arrive")
    second = await GroupReader(broker, group, "second", owners, **more).start(topic)
    await until(lambda: len(second.owned) == 2, "the second member has its share")
    produce(broker, topic, 4, 100)
    third = await GroupReader(broker, group, "third", owners, **more).start(topic)
    await until(lambda: third.owned, "the third member has its share")
    await second.close()
    readers = (first, second, third)
    wanted = sorted([*range(100), *range(100)])
    await until(
        lambda: all(sorted(v for each in readers for v in each.read.get(p, [])) == wanted for p in range(4)),
        "every record is read once",
    )
    for each in (first, third):
        await each.close()
    assert owners.clashes == []


@on_event_loop
async def test_the_partitions_of_a_killed_member_go_to_the_others(broker: str, tmp_path: Path) -> None:
    topic, group = new_topic(broker, 4), new_group()
    reader = await GroupReader(broker, group, "survivor").start(topic)
    with member_process(tmp_path, broker, group, topic, "session.timeout.ms=1500") as victim:
        await until(lambda: "assigned" in victim.output and len(reader.owned) == 2, "both have their share")
        victim.kill()
    await until(lambda: len(reader.owned) == 4, "the survivor owns all")
    await reader.close()


@pytest.mark.parametrize("is_leader", [True, False])
@on_event_loop
async def test_a_static_member_that_restarts_gets_its_partitions_back_without_a_rebalance(
    broker: str, is_leader: bool
) -> None:
    """KIP-345; the first member leads the group (KIP-814)."""
    topic, group, owners = new_topic(broker, 4), new_group(), Owners()

    async def start(name: str) -> GroupReader:
        return await GroupReader(broker, group, name, owners, group_instance_id=name, session_timeout_ms=30_000).start(
            topic
        )

    readers = {"one": await start("one")}
    await until(lambda: len(readers["one"].owned) == 4, "the first member owns all")
    readers["two"] = await start("two")
    await until(lambda: [len(each.owned) for each in readers.values()] == [2, 2], "both have their share")
    restarted, other = ("one", "two") if is_leader else ("two", "one")
    before, calls = readers[restarted].owned, len(readers[other].calls)
    await readers[restarted].close()
    readers[restarted] = await start(restarted)
    await until(lambda: readers[restarted].owned == before, "the same partitions")
    await asyncio.sleep(0.5)  # more than two heartbeats of the other member
    assert len(readers[other].calls) == calls
    assert owners.clashes == []
    for each in readers.values():
        await each.close()


@on_event_loop
async def test_a_consumer_resumes_where_the_last_one_committed(broker: str) -> None:
    topic, group = new_topic(broker, 1), new_group()
    produce(broker, topic, 1, 50)
    settings = {"bootstrap.servers": broker, "group.id": group, "auto.offset.reset": "earliest"}
    key = TopicPartition(topic, 0)
    seen: list[int] = []
    async with KafkaConsumer({**settings, "max.poll.records": 20, "enable.auto.commit": False}) as consumer:
        consumer.subscribe([topic])
        while len(seen) < 20:
            seen += [int(each.value) for each in (await consumer.poll(1_000)).get(key, [])]
        await consumer.commit({key: OffsetAndMetadata(15, "mine")})
        assert await consumer.committed([key]) == {key: OffsetAndMetadata(15, "mine")}
    assert seen == list(range(20))
    async with KafkaConsumer(settings) as consumer:
        consumer.subscribe([topic])
        seen = []
        while len(seen) < 35:
            seen += [int(each.value) for each in (await consumer.poll(1_000)).get(key, [])]
    assert seen == list(range(15, 50))
    async with KafkaConsumer(settings) as consumer:
        committed = (await consumer.committed([key]))[key]
        assert committed is not None
        assert committed.offset == 50  # by enable.auto.commit at the end


@on_event_loop
async def test_commits_without_waiting_end_in_their_order(broker: str) -> None:
    topic, group = new_topic(broker, 1), new_group()
    key, ended = TopicPartition(topic, 0), []

    def committed(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        ended.append((offsets[key].offset, error))
        raise ValueError("an application's fault does no harm")

    async with KafkaConsumer({"bootstrap.servers": broker, "group.id": group}) as consumer:
        consumer.assign([key])
        await consumer.commit({key: OffsetAndMetadata(0)})  # waits for a coordinator that still loads its group
        for offset in range(50):
            consumer.commit_async({key: OffsetAndMetadata(offset)}, committed)
        await consumer.commit({})
        assert ended == [(offset, None) for offset in range(50)]
        assert await consumer.committed([key]) == {key: OffsetAndMetadata(49)}


@on_event_loop
async def test_a_member_that_does_not_poll_in_time_leaves_and_cannot_commit(broker: str) -> None:
    topic, group = new_topic(broker, 2), new_group()
    times = {"max_poll_interval_ms": 1_500, "enable_auto_commit": False}
    slow = await GroupReader(broker, group, "slow", **times).start(topic)
    await until(lambda: len(slow.owned) == 2, "one member owns all")
    await slow.pause()
    other = await GroupReader(broker, group, "other").start(topic)
    await until(lambda: len(other.owned) == 2, "the other member owns all")
    with pytest.raises(CommitFailed):
        await slow.consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(1)})
    for _ in range(20):
        await slow.consumer.poll(50)
    assert slow.calls[1] == ("lost", [0, 1])
    for each in (slow, other):
        await each.close()


@on_event_loop
async def test_auto_commit_never_commits_what_was_not_handed_out(broker: str) -> None:
    topic, group, random = new_topic(broker, 3), new_group(), Random(7)
    produce(broker, topic, 3, 200)
    more = {"auto_commit_interval_ms": 20, "max_poll_records": 7, "partition_assignment_strategy": "cooperative-sticky"}
    handed_out = dict.fromkeys(range(3), 0)
    watcher = KafkaConsumer({"bootstrap.servers": broker, "group.id": group})
    await watcher.__aenter__()
    keys = [TopicPartition(topic, index) for index in range(3)]
    for number in range(6):
        settings = {"bootstrap.servers": broker, "group.id": group, "auto.offset.reset": "earliest"}
        settings |= {key.replace("_", "."): value for key, value in more.items()}
        async with KafkaConsumer(settings) as consumer:
            consumer.subscribe([topic])
            for _ in range(random.randrange(4, 9)):
                for key, records in (await consumer.poll(500)).items():
                    handed_out[key.partition] = max(handed_out[key.partition], records[-1].offset + 1)
                for key, found in (await watcher.committed(keys)).items():
                    assert found is None or found.offset <= handed_out[key.partition], number
        for key, found in (await watcher.committed(keys)).items():
            assert handed_out[key.partition] == (0 if found is None else found.offset)
    await watcher.close()
    assert sum(handed_out.values()) > 100


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@on_event_loop
async def test_a_group_of_ours_and_of_librdkafkas_members_has_one_owner_for_each_partition(
    broker: str, strategy: str
) -> None:
    topic, group = new_topic(broker, 6), new_group()
    settings = {"bootstrap.servers": broker, "group.id": group, "partition.assignment.strategy": strategy}
    theirs = Consumer({**settings, "session.timeout.ms": 6_000, "heartbeat.interval.ms": 200})
    mine = await GroupReader(broker, group, "ours", partition_assignment_strategy=strategy).start(topic)
    stops = asyncio.Event()

    async def poll_theirs() -> None:
        while not stops.is_set():
            await asyncio.to_thread(theirs.poll, 0.1)

    theirs.subscribe([topic])
    polling = asyncio.create_task(poll_theirs())

    def shares() -> bool:
        given = sorted(each.partition for each in theirs.assignment())
        return len(given) == len(mine.owned) == 3 and sorted(given + mine.owned) == list(range(6))

    await until(shares, "both members have half")
    stops.set()
    await polling
    await asyncio.to_thread(theirs.close)
    await until(lambda: len(mine.owned) == 6, "our member owns all")
    await mine.close()


@pytest.mark.interop
@on_event_loop
async def test_a_group_of_ours_and_of_javas_members_has_one_owner_for_each_partition(
    apache: str, tmp_path: Path
) -> None:
    topic, group = new_topic(apache, 6), new_group()
    assignor = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    arguments = ("--bootstrap-server", apache, "--topic", topic, "--group-id", group, "--session-timeout", "6000")
    tool = "org.apache.kafka.tools.VerifiableConsumer"
    command = java(tool, *arguments, "--assignment-strategy", assignor, log_level="ERROR")
    mine = await GroupReader(apache, group, "ours", partition_assignment_strategy=assignor).start(topic)
    await until(lambda: len(mine.owned) == 6, "our member leads and owns all")
    with Process("java", command, tmp_path) as theirs:
        await until(lambda: len(mine.owned) == 3 and len(java_owned(theirs.output)) == 3, "both have half")
        assert sorted(mine.owned + java_owned(theirs.output)) == list(range(6))
        assert await asyncio.to_thread(theirs.stop) in {0, 143}
        await until(lambda: len(mine.owned) == 6, "our member owns all")
    await mine.close()


def java_owned(output: str) -> list[int]:
    """Return the partitions of a VerifiableConsumer by its output."""
    owned: set[int] = set()
    for line in output.splitlines():
        event = json.loads(line) if line.startswith('{"timestamp"') else {}
        partitions = {each["partition"] for each in event.get("partitions", [])}
        if event.get("name") == "partitions_assigned":
            owned |= partitions
        elif event.get("name") == "partitions_revoked":
            owned -= partitions
    return sorted(owned)
