"""Watchers of a quorum under faults: of leaders (DescribeQuorum), of votes on disk, and of committed changes."""

import asyncio
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from kraft_core.clients.metadata_observer import MetadataObserver
from kraft_core.clients.observed_log import CommittedChange
from kraft_core.clients.quorum_fetch import describe_quorum_request
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.control_records import LeaderChangeMessage, VotersRecord
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import DescribeQuorumResponsePartitionData
from kraft_core.protocol.metadata_records import ProducerIdsRecord, RegisterBrokerRecord, TopicRecord
from tests.interop.conclave import Quorum, call

POLL_S = 0.1
LEADERLESS_S_MAX = 30.0


@dataclass
class LeaderWatch:
    """Polls DescribeQuorum and checks: one leader per epoch, and its high watermark never decreases."""

    quorum: Quorum
    leaders: dict[int, set[int]] = field(default_factory=dict)
    high_watermarks: dict[int, int] = field(default_factory=dict)  # by epoch
    seen: list[float] = field(default_factory=list)
    excused: list[float] = field(
        default_factory=list
    )  # times without a responding majority, when no leader was possible
    wrong: list[str] = field(default_factory=list)
    _answers: dict[int, bool] = field(default_factory=dict)

    async def watch(self) -> None:
        """Poll every node until cancelled."""
        async with asyncio.TaskGroup() as group:
            for node_id in self.quorum.node_ids:
                group.create_task(self._watch_one(node_id))

    async def _watch_one(self, node_id: int) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            try:
                answer = await call(self.quorum.port_of(node_id), describe_quorum_request(), 2, timeout_s=1)
                self._answers[node_id] = True
            except (OSError, EOFError, TimeoutError):
                self._answers[node_id] = False
            else:
                partition = answer.topics[0].partitions[0]
                if partition.error_code == ErrorCode.NONE:
                    self._note(partition)
            if sum(self._answers.values()) <= self.quorum.size // 2:
                self.excused.append(time.monotonic())

    def _note(self, found: DescribeQuorumResponsePartitionData) -> None:
        epoch, high_watermark = found.leader_epoch, found.high_watermark
        self.seen.append(time.monotonic())
        self.leaders.setdefault(epoch, set()).add(found.leader_id)
        if high_watermark < self.high_watermarks.get(epoch, -1):
            self.wrong.append(f"the high watermark of epoch {epoch} went back to {high_watermark}")
        self.high_watermarks[epoch] = high_watermark

    @property
    def longest_gap(self) -> tuple[float, float]:
        """Return the longest time without a leader, in s, and its start."""
        return _longest(self.seen)

    @property
    def longest_unexcused_s(self) -> float:
        """Return the longest time without a leader while a majority was up, in s."""
        return _longest([*self.seen, *self.excused])[0]

    def settle(self) -> list[str]:
        """Return the violations."""
        wrong = [f"epoch {epoch} had leaders {ids}" for epoch, ids in self.leaders.items() if len(ids) > 1]
        if self.longest_unexcused_s > LEADERLESS_S_MAX:
            wrong.append(f"there was no leader for {self.longest_unexcused_s:.1f} s")
        return wrong + self.wrong


def _longest(moments: list[float]) -> tuple[float, float]:
    """Return the longest interval between two times, and its start."""
    return max(((then - now, now) for now, then in itertools.pairwise(sorted(moments))), default=(0.0, 0.0))


@dataclass
class VoteWatch:
    """Polls quorum-state of every node and checks: the epoch never decreases, and a vote never changes in its epoch."""

    quorum: Quorum
    epochs: dict[int, int] = field(default_factory=dict)
    votes: dict[tuple[int, int], tuple[int, str]] = field(default_factory=dict)  # by node and epoch
    wrong: list[str] = field(default_factory=list)

    async def watch(self) -> None:
        """Poll the files until cancelled."""
        while True:
            await asyncio.sleep(0.03)
            for node_id in self.quorum.node_ids:
                self.look(node_id)

    def look(self, node_id: int) -> None:
        """Read one file. It is replaced atomically, so a read always sees a complete one."""
        path = self.quorum.folder_of(node_id) / "data" / "__cluster_metadata-0" / "quorum-state"
        if not path.exists():
            return
        state = json.loads(path.read_bytes())
        epoch, voted = state["leaderEpoch"], (state["votedId"], state["votedDirectoryId"])
        if epoch < self.epochs.get(node_id, 0):
            self.wrong.append(f"node {node_id} went back from epoch {self.epochs[node_id]} to {epoch}")
        self.epochs[node_id] = epoch
        if voted[0] >= 0 and self.votes.setdefault((node_id, epoch), voted) != voted:
            self.wrong.append(f"node {node_id} voted for {self.votes[node_id, epoch]} and {voted} in epoch {epoch}")


class CommitWatch:
    """An observer that keeps every committed change with the image after it."""

    def __init__(self, quorum: Quorum) -> None:
        self.changes: list[CommittedChange] = []
        self.wrong: list[str] = []
        self.observer = MetadataObserver([("127.0.0.1", port) for port in quorum.ports])
        self.observer.subscribe_log(self.changes.append, self._restarted)

    def _restarted(self, image: MetadataImage) -> None:
        if self.changes:
            self.wrong.append(f"the observer had to restart at {image.offset}: {self.observer.last_error}")

    def settle(self) -> list[str]:
        """Check all committed changes in order. Return the violations."""
        return [*self.wrong, *self._control_records(), *self._registrations(), *self._partitions()]

    def _control_records(self) -> Iterator[str]:
        """Check that an epoch has one leader, and that voters change one at a time."""
        leaders: dict[int, int] = {}
        voters: set[tuple[int, object]] | None = None
        for change in self.changes:
            for offset, record in change.control_records:
                if isinstance(record, LeaderChangeMessage):
                    if change.epoch in leaders:
                        yield f"epoch {change.epoch} has two leader changes"
                    leaders[change.epoch] = record.leader_id
                elif isinstance(record, VotersRecord):
                    now = {(each.voter_id, each.voter_directory_id) for each in record.voters}
                    if voters is not None and len(voters ^ now) != 1:
                        yield f"the voters at {offset} differ by {len(voters ^ now)}"
                    voters = now

    def _registrations(self) -> Iterator[str]:
        """Check that broker epochs, producer ids, offsets and epochs increase, and that topic ids are unique."""
        broker_epoch, producer_id, end, epoch = -1, -1, -1, 0
        topic_ids = set()
        for change in self.changes:
            if change.first_offset <= end or change.epoch < epoch:
                yield f"the change at {change.first_offset} in epoch {change.epoch} follows {end} in {epoch}"
            end, epoch = change.last_offset, change.epoch
            for offset, record in change.records:
                if isinstance(record, RegisterBrokerRecord):
                    if record.broker_epoch <= broker_epoch:
                        yield f"broker epoch {record.broker_epoch} at {offset} follows {broker_epoch}"
                    broker_epoch = record.broker_epoch
                elif isinstance(record, TopicRecord):
                    if record.topic_id in topic_ids:
                        yield f"topic id {record.topic_id} at {offset} is used again"
                    topic_ids.add(record.topic_id)
                elif isinstance(record, ProducerIdsRecord):
                    if record.next_producer_id <= producer_id:
                        yield f"next producer id {record.next_producer_id} at {offset} follows {producer_id}"
                    producer_id = record.next_producer_id

    def _partitions(self) -> Iterator[str]:
        """Check after every change: ISR within replicas, an unfenced leader in the ISR, increasing epochs."""
        for change in self.changes:
            brokers = change.after.cluster.brokers
            for topic_id in {record.topic_id for _, record in change.records if hasattr(record, "topic_id")}:
                topic, before = (image.topics.by_id.get(topic_id) for image in (change.after, change.before))
                for index, now in () if topic is None else topic.partitions.items():
                    where = f"partition {index} of {topic_id} at {change.last_offset}"
                    if len(set(now.isr)) != len(now.isr) or not set(now.isr) <= set(now.replicas):
                        yield f"{where}: ISR {now.isr} of replicas {now.replicas}"
                    if set(now.isr) & set(now.elr) or not set(now.elr) <= set(now.replicas):
                        yield f"{where}: ELR {now.elr} beside ISR {now.isr}"
                    leader = brokers.get(now.leader)
                    if now.leader >= 0 and (now.leader not in now.isr or leader is None or leader.fenced):
                        yield f"{where}: leader {now.leader} is unregistered, fenced or not in ISR {now.isr}"
                    was = None if before is None else before.partitions.get(index)
                    epochs_rise = was is None or was == now or now.partition_epoch > was.partition_epoch
                    if not epochs_rise or (was is not None and now.leader_epoch < was.leader_epoch):
                        yield f"{where}: {now} follows {was}"
