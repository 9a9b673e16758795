"""A consumer under test: an application that polls the real ConsumerCore, and checks each record that it is given."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.consumer_config import ConsumerConfig
from kraft_core.clients.consumer.consumer_core import ConsumerCore
from kraft_core.clients.consumer.consumer_membership import ConsumerMembership
from kraft_core.clients.consumer.coordinator import CallbackKind, RebalanceCallback
from kraft_core.clients.consumer.group_errors import CommitFailed, RebalanceInProgress
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.pending import Pending
from kraft_core.protocol.errors import ErrorCode, KafkaError
from tests.simulator.invariant import InvariantBrokenError, check

if TYPE_CHECKING:
    from tests.clients.simulator.consumer_load import ConsumerStory

_CONSUMER_PROTOCOL: Mapping[str, object] = {"group.protocol": "consumer"}
_REPLACED = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)
_PENDING_MAX = 200
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", "range,cooperative-sticky")


@dataclass(frozen=True)
class ConsumerChoices:
    """The configs of a consumer, drawn from the seed."""

    group_id: str | None
    instance_id: str | None
    read_committed: bool
    commits: str  # auto, sync, async or none
    strategy: str
    max_poll_records: int
    partition_bytes: int
    fetch_bytes: int
    max_wait_ms: int
    poll_ms: int
    rack: str
    is_consumer_protocol: bool = False

    @classmethod
    def draw(cls, random: Random, group_id: str | None, strategy: str, *, read_committed: bool) -> "ConsumerChoices":
        """Draw a valid combination; what a group must share is given."""
        return cls(
            group_id=group_id,
            instance_id=None,
            read_committed=read_committed,
            commits="none" if group_id is None else random.choice(["auto", "auto", "sync", "async"]),
            strategy=strategy,
            max_poll_records=random.choice([1, 7, 500]),
            partition_bytes=random.choice([100, 1_000, 1_048_576]),
            fetch_bytes=random.choice([300, 52_428_800]),
            max_wait_ms=random.choice([40, 200, 200]),
            poll_ms=random.choice([10, 50, 100]),
            rack=random.choice(["", "", "", "rack-1", "rack-2"]),
        )

    def configs(self, bootstrap: str) -> Mapping[str, object]:
        """Return Kafka's configs."""
        configs: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if self.read_committed else "read_uncommitted",
            "max.poll.records": self.max_poll_records,
            "max.partition.fetch.bytes": self.partition_bytes,
            "fetch.max.bytes": self.fetch_bytes,
            "fetch.max.wait.ms": self.max_wait_ms,
            "client.rack": self.rack,
            "request.timeout.ms": 700,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 200,
            "metadata.max.age.ms": 2_000,
            "socket.connection.setup.timeout.ms": 500,
            "socket.connection.setup.timeout.max.ms": 1_000,
        }
        if self.group_id is not None:
            configs |= {
                "group.id": self.group_id,
                "enable.auto.commit": self.commits == "auto",
                "auto.commit.interval.ms": 100,
                "max.poll.interval.ms": 2_000,
            }
            configs |= _CONSUMER_PROTOCOL if self.is_consumer_protocol else self._classic_protocol()
        if self.instance_id is not None:
            configs["group.instance.id"] = self.instance_id
        return configs

    def _classic_protocol(self) -> Mapping[str, object]:
        return {
            "partition.assignment.strategy": self.strategy,
            "session.timeout.ms": 1_000,
            "heartbeat.interval.ms": 200,
        }


class ConsumerApp:
    """One consumer: assigned all partitions, or a member of a group that is subscribed to all topics."""

    def __init__(self, story: "ConsumerStory", app_id: int, choices: ConsumerChoices) -> None:
        self.story, self.world, self.cluster = story, story.scenario.world, story.scenario.cluster
        self.id, self.choices = app_id, choices
        self.random = story.scenario.client_random()
        bootstrap = ",".join(f"{host}:{port}" for host, port in self.cluster.links.by_address)
        self.core = ConsumerCore(ConsumerConfig(choices.configs(bootstrap)), self.random, lambda: self.process.wall_ms)
        self.process = story.scenario.new_process(self.core)
        self.is_member = choices.group_id is not None
        self.next_offset: dict[TopicPartition, int] = {}  # behind the last record given, of assigned partitions
        self.given_end: dict[TopicPartition, int] = {}  # the same, also of partitions that were given up
        self.given: dict[TopicPartition, set[int]] = {}
        self.commit: Pending[None] | None = None
        self.held: RebalanceCallback | None = None  # the call of the listener that takes long
        self.closing: Pending[None] | None = None
        self.polls = self.records = self.rebalances = self.commits = 0

    @property
    def now_ms(self) -> float:
        """The monotonic clock."""
        return self.process.now_ms

    def begin(self) -> None:
        """Subscribe or assign, and poll from here on."""
        subscriptions = self.core.subscriptions
        if self.is_member:
            subscriptions.subscribe(self.cluster.topic_ids, _Listener())
        else:
            subscriptions.assign_from_user(self.cluster.logs)
        self.core.subscription_changed(self.now_ms)
        self.process.wake()
        self.poll()

    # Polls

    def poll(self) -> None:
        """Poll as the front does, and check the records."""
        if not self.process.is_running or self.closing is not None:
            return
        if not self._call_listener():
            return
        self.polls += 1
        records: Mapping[TopicPartition, list[Any]] = {}
        try:
            records = self.core.poll(self.now_ms)
        except KafkaError as error:
            if error.code in _REPLACED and self.choices.instance_id is not None:
                self.process.kill()
                self.story.replace(self)
                return
            self._refused(error)
        for partition, batch in records.items():
            self._take(partition, batch)
        self._maybe_commit(bool(records))
        self.story.check_owner(self)
        self._check_bounds()
        self.process.wake()
        if self.core.coordinator is not None and self.core.coordinator.pending_callback is not None:
            self.world.after(0, self.poll)
            return
        is_slow = self.world.chance(self.story.slow_polls)
        self.world.after(2_500_000 if is_slow else self.choices.poll_ms * 1000, self.poll)

    def _refused(self, error: KafkaError) -> None:
        is_expected = error.retriable or isinstance(error, CommitFailed | RebalanceInProgress)
        if not is_expected:
            raise InvariantBrokenError(f"poll raises {error!r}")

    def _call_listener(self, *, may_hold: bool = True) -> bool:
        """Serve the calls of the listener; return whether all have ended. One may take long."""
        coordinator = self.core.coordinator
        held, self.held = self.held, None
        if held is not None:
            self._end_call(held)
        while coordinator is not None and (callback := coordinator.pending_callback) is not None:
            self._begin_call(callback)
            if may_hold and self.world.chance(self.story.slow_listeners):
                self.held = callback
                self.world.after(self.world.random.randint(20_000, 900_000), self.poll)
                return False
            self._end_call(callback)
        return True

    def _begin_call(self, callback: RebalanceCallback) -> None:
        self.rebalances += 1
        self.world.note("consumer", self.id, callback.kind.value, callback.partitions)
        for partition in callback.partitions:
            if callback.kind is CallbackKind.ASSIGNED:
                check(partition not in self.next_offset, "a partition is assigned twice", self.id, partition)
                self.next_offset[partition] = -1
            elif callback.kind is CallbackKind.REVOKED and self.closing is None:
                check(partition in self.next_offset, "a partition is revoked that was not assigned", self.id, partition)

    def _end_call(self, callback: RebalanceCallback) -> None:
        """End a call, even if the membership waits for another one by now; the core ignores it then.

        A member that is fenced or closed loses also what it was not called for yet, or has given up in such a call.
        """
        if callback.kind is not CallbackKind.ASSIGNED:
            for partition in callback.partitions:
                self.next_offset.pop(partition, None)
        self.core.callback_completed(callback, None, self.now_ms)

    def _take(self, partition: TopicPartition, records: list[Any]) -> None:
        truth = self.story.truths[partition]
        check(records, "an empty list of records", partition)
        if self.is_member:
            check(partition in self.next_offset, "records of a partition that is not assigned", self.id, partition)
        for record in records:
            expected = self.next_offset.get(partition, -1)
            known = truth.value(record.offset)
            check(known is not None, "a record that is not committed", partition, record)
            assert known is not None
            check(known[0] == record.value, "a record with another value", partition, record, known[0])
            if expected < 0 and not self.is_member:
                expected = truth.log.start
            if expected >= 0:
                check(
                    record.offset >= expected, "a record is given again, or out of order", partition, record, expected
                )
                missing = truth.due(expected, record.offset, read_committed=self.choices.read_committed)
                check(not missing, "records are left out", self.id, partition, missing, record.offset)
            if self.choices.read_committed:
                batch = known[1]
                check(record.offset < truth.log.last_stable_offset or not batch.is_transactional, "an open transaction")
                check(not truth.log.is_aborted(batch), "a record of an aborted transaction", partition, record)
            self.next_offset[partition] = self.given_end[partition] = record.offset + 1
            self.given.setdefault(partition, set()).add(record.offset)
            self.records += 1

    # Commits

    def _maybe_commit(self, has_records: bool) -> None:
        if self.choices.commits not in {"sync", "async"} or not has_records:
            return
        if self.commit is not None and not self.commit.is_done and self.choices.commits == "sync":
            return
        coordinator = self.core.coordinator
        assert coordinator is not None, "a member has a coordinator"
        offsets: dict[TopicPartition, OffsetAndMetadata] = self.core.subscriptions.all_consumed()
        deadline_ms = self.now_ms + 500 if self.choices.commits == "sync" else None
        self.commit = coordinator.commit_offsets(offsets, deadline_ms, self.now_ms)
        self.commit.when_done(lambda done: self._committed(offsets, done))
        self.commits += 1

    def _committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], done: Pending[None]) -> None:
        if done.error is None:
            for partition, value in offsets.items():
                written = (self.process.id, partition, value.offset) in self.cluster.written_commits
                check(written, "a commit succeeded that the coordinator did not accept", self.id, partition, value)

    def _check_bounds(self) -> None:
        coordinator = self.core.coordinator
        if isinstance(coordinator, ConsumerMembership):
            offsets, members = coordinator._offsets, coordinator._members
            pending = len(offsets._commits) + len(offsets._lookups)
            check(pending <= _PENDING_MAX, "commits and lookups pile up", self.id, pending)
            check(len(members._names) <= len(self.cluster.topic_ids), "names of topics pile up", self.id)

    def check_commit(self, partition: TopicPartition, offset: int) -> None:
        """Check an offset that arrives at the group's coordinator: all records before it were given out."""
        group_id = self.choices.group_id or ""
        known = max(self.given_end.get(partition, 0), self.story.committed(group_id, partition))
        missing = self.story.truths[partition].due(known, offset, read_committed=self.choices.read_committed)
        check(not missing, "an offset is committed before its records were given", self.id, partition, offset, missing)

    # The end

    def close(self) -> None:
        """Close as the front does, in the background."""
        if self.process.is_running and self.closing is None:
            self.closing = self.core.close(self.now_ms + 2_000, self.now_ms)
            self.process.after_turn = self._close
            self.process.wake()

    def _close(self) -> None:
        self._call_listener(may_hold=False)
        assert self.closing is not None
        if self.closing.is_done:
            self.core.network.close(self.now_ms)
            self.process.kill()

    def has_all(self) -> bool:
        """Return whether everything was given out that this consumer, alone, must get."""
        return all(
            truth.due(
                max(self.next_offset.get(partition, -1), 0), truth.log.end, read_committed=self.choices.read_committed
            )
            == []
            for partition, truth in self.story.truths.items()
        )


class _Listener:
    """Says that the application wants to be called; the app itself serves the calls."""

    def on_partitions_revoked(self, partitions: object) -> object:
        return None

    on_partitions_assigned = on_partitions_lost = on_partitions_revoked
