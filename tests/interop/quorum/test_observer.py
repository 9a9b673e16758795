"""The observer during snapshots, killed leaders, and a voter with uncommitted records."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cluster.history import History
from kraft_core.clients.metadata_observer import MetadataObserver
from kraft_core.protocol.errors import ErrorCode
from tests.interop import conclave, kafka

pytestmark = pytest.mark.interop

SESSION_MS = 3_600_000
"""Long, since the brokers of these tests stop sending heartbeats and topics need unfenced brokers."""


async def until(condition: Callable[[], bool], observer: MetadataObserver, what: str) -> None:
    deadline = time.monotonic() + kafka.PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: offset {observer.applied_offset}, {observer.last_error}"
        await asyncio.sleep(0.02)


def observe(quorum: conclave.Quorum) -> MetadataObserver:
    return MetadataObserver([("127.0.0.1", port) for port in quorum.ports])


async def make_topics(quorum: conclave.Quorum, names: list[str], broker_id: int = 101) -> None:
    """Create topics on a raw broker, and wait for the acknowledgements; existing ones are fine."""
    client = conclave.controller_client(quorum.bootstrap)
    try:
        broker = conclave.RawBroker(broker_id, quorum.cluster_id, client)
        await broker.register()
        for start in range(0, len(names), 50):
            answer = await client.request(conclave.create_topics(names[start : start + 50]), idempotent=True)
            codes = {topic.error_code for topic in answer.topics}  # type: ignore[attr-defined]  # CreateTopicsResponse
            assert codes <= {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}, answer
    finally:
        client.close()


def names_of(observer: MetadataObserver) -> set[str]:
    return set(observer.image.topics.by_name)


async def observe_late(quorum: conclave.Quorum, names: set[str]) -> tuple[MetadataObserver, History]:
    """Start another observer, wait until it has all topics, and return the part of the log that it has read."""
    late, history = observe(quorum), History(1_000)
    late.subscribe_log(history.add, history.snapshot)
    late.start()
    await until(lambda: names_of(late) == names, late, "the late observer has all topics")
    return late, history


async def leader_of(quorum: conclave.Quorum, observer: MetadataObserver) -> int:
    """Wait until the observer follows this leader and return it."""
    deadline = time.monotonic() + kafka.PATIENCE_S
    while True:
        found, seen = await quorum.leader(), observer.leader()
        if found is not None and seen is not None and found == (seen.node_id, observer.epoch):
            return seen.node_id
        assert time.monotonic() < deadline, (found, seen, observer.epoch)
        await asyncio.sleep(0.05)


def test_an_observer_starts_with_the_snapshot_and_continues_with_the_log(tmp_path: Path) -> None:
    async def scenario(quorum: conclave.Quorum) -> None:
        first = [f"before-{number}" for number in range(200)]
        await make_topics(quorum, first)
        metadata = quorum.folder_of(1) / "data" / "__cluster_metadata-0"

        def snapshots() -> list[Path]:
            return [path for path in metadata.glob("*.checkpoint") if not path.name.startswith("0" * 20)]

        witness = observe(quorum)
        witness.start()
        await until(lambda: bool(snapshots()), witness, "a snapshot was made")
        late, history = await observe_late(quorum, set(first))
        while history.oldest_offset == 0:  # the leader did not know yet of the snapshot on its disk
            await late.stop()
            late, history = await observe_late(quorum, set(first))
        second = ["after-1", "after-2"]
        await make_topics(quorum, second, 102)
        for observer in (late, witness):
            await until(lambda each=observer: names_of(each) == {*first, *second}, observer, "the log continues")  # type: ignore[misc]  # used at once
        assert late.image.topics == witness.image.topics
        await late.stop()
        await witness.stop()

    settings = {"metadata_log_max_record_bytes_between_snapshots": 4_000, "broker_session_timeout_ms": SESSION_MS}
    with conclave.running_quorum(tmp_path, 1, **settings) as quorum:
        asyncio.run(scenario(quorum))


def test_an_observer_follows_three_leaders_in_a_row_and_misses_nothing(tmp_path: Path) -> None:
    async def scenario(quorum: conclave.Quorum) -> None:
        observer, seen = observe(quorum), History(10_000)
        observer.subscribe_log(seen.add, seen.snapshot)
        observer.start()
        expected: set[str] = set()
        epochs: list[int] = []
        for turn in range(3):
            names = [f"turn-{turn}-{number}" for number in range(20)]
            await make_topics(quorum, names, 101 + turn)
            expected.update(names)
            await until(lambda: names_of(observer) == expected, observer, f"turn {turn} is seen")
            leader_id = await leader_of(quorum, observer)
            epochs.append(observer.epoch)
            quorum.processes[leader_id].kill()
            await until(lambda was=epochs[-1]: observer.epoch > was, observer, "a new leader")  # type: ignore[misc]  # used at once
            quorum.start(leader_id)
        assert epochs == sorted(set(epochs))
        seen_epochs = [each.epoch for each in reversed(seen.epochs.epochs)]
        assert seen_epochs == sorted(set(seen_epochs))
        assert set(epochs) <= set(seen_epochs)
        assert observer.last_update_monotonic is not None
        await observer.stop()

    with conclave.running_quorum(tmp_path, 3, broker_session_timeout_ms=SESSION_MS) as quorum:
        asyncio.run(scenario(quorum))
