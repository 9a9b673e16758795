"""The simulated cluster: what is true of its topics, leaders and coordinators, and what its brokers do about it."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from kraft_core.broker.coordinator.group_coordinator_config import KeyAndValue
from kraft_core.broker.coordinator.group_records import CommittedOffset
from kraft_core.clients.client_metadata import TopicPartition
from tests.clients.simulator.disorder import Disorder
from tests.clients.simulator.links import Links
from tests.clients.simulator.partition_log import PartitionLog
from tests.clients.simulator.sim_broker import SimBroker
from tests.simulator.world import START_MS, World

if TYPE_CHECKING:
    from tests.clients.simulator.transaction_apis import Transaction

View = dict[TopicPartition, tuple[int, int]]
"""Leader and leader epoch of each partition, as one broker knows them; leader -1 for none."""


class SimCluster:
    """Brokers and partitions."""

    def __init__(self, world: World, brokers: int, profiles: tuple[str, ...]) -> None:
        self.world = world
        self.disorder = Disorder()
        self.links = Links(world, self.disorder)
        self.profiles = profiles
        self.brokers = {number: SimBroker(self, number) for number in range(1, brokers + 1)}
        self.links.by_address = {broker.address: broker for broker in self.brokers.values()}
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.topic_ids: dict[str, UUID] = {}
        self.names_by_id: dict[UUID, str] = {}
        self.coordinators: dict[tuple[int, str], int] = {}
        self.terms: Counter[tuple[int, str]] = Counter()  # how often each has moved
        self.next_producer_id = 1000
        self.transactions: dict[str, Transaction] = {}
        self.group_logs: dict[str, list[KeyAndValue]] = {}
        self.pending_offsets: dict[str, dict[int, dict[TopicPartition, CommittedOffset]]] = {}  # by group, producer id
        self.on_commit: Callable[[int, TopicPartition, int], None] = lambda _process, _partition, _offset: None
        self.on_group_change: Callable[[], None] = lambda: None
        self.written_commits: set[tuple[int, TopicPartition, int]] = set()  # process, partition, offset
        self.transaction_version = 1
        self.max_message_bytes = 1 << 20
        self.too_large = 0
        self.follower_reads = 0
        self.elections = self.moves = self.restarts = 0

    @property
    def now_ms(self) -> int:
        """The brokers' clock, ms since 1970."""
        return START_MS + self.world.now_us // 1000

    def up(self) -> list[SimBroker]:
        """Return the running brokers."""
        return [broker for broker in self.brokers.values() if broker.is_up]

    # Topics

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic; every broker knows it at once."""
        topic_id = UUID(int=self.world.random.getrandbits(128) | 1)
        self.topic_ids[name] = topic_id
        self.names_by_id[topic_id] = name
        for index in range(partitions):
            partition = TopicPartition(name, index)
            leader = self.world.random.choice(sorted(self.brokers))
            self.logs[partition] = PartitionLog(partition, topic_id, leader)
            for broker in self.brokers.values():
                broker.view[partition] = (leader, 0)

    def logs_of(self, name: str) -> Iterator[PartitionLog]:
        """Yield the partitions of a topic."""
        return (log for partition, log in self.logs.items() if partition.topic == name)

    # Leaders

    def elect(self, log: PartitionLog) -> None:
        """Give a partition another leader, if a broker is up. It may lack batches that were not committed."""
        random = self.world.random
        candidates = [broker.id for broker in self.up() if broker.id != log.leader]
        was_up = self.brokers[log.leader].is_up if log.leader in self.brokers else False
        if not candidates:
            return
        is_clean = was_up and random.random() < 0.5
        keep = log.end if is_clean else random.choice(log.boundaries(log.high_watermark, log.end))
        visible = random.choice(log.boundaries(log.start, log.high_watermark)[-3:])
        log.elect(random.choice(candidates), keep, visible)
        self.elections += 1
        self.world.note("elect", log.partition, log.leader, log.epoch, "end", log.end, "hw", log.high_watermark)
        self.spread(log)
        self.replicate(log)

    def spread(self, log: PartitionLog) -> None:
        """Let the brokers hear of a partition's leader, the leader itself at once, some of the others later."""
        found = (log.leader, log.epoch)
        for broker in self.brokers.values():
            if broker.id != log.leader and self.world.chance(self.disorder.stale):
                self.world.after(self.world.random.randint(1_000, 1_500_000), self._learn, broker, log, found)
            else:
                self._learn(broker, log, found)

    @staticmethod
    def _learn(broker: SimBroker, log: PartitionLog, found: tuple[int, int]) -> None:
        if found[1] >= broker.view[log.partition][1]:
            broker.view[log.partition] = found

    def replicate(self, log: PartitionLog) -> None:
        """Let the high watermark reach what is the end of the log now, unless the leader changes before."""
        is_late = self.world.chance(self.disorder.lag)
        delay_us = self.world.random.randint(*((20_000, 700_000) if is_late else (500, 5_000)))
        self.world.after(delay_us, self._replicated, log, log.epoch, log.end)

    def _replicated(self, log: PartitionLog, epoch: int, end: int) -> None:
        leader = self.brokers[log.leader]
        if log.epoch != epoch or not leader.is_up or log.is_short_of_replicas:
            return
        log.commit(end)
        leader.on_progress()

    # Coordinators

    def coordinator(self, key_type: int, key: str) -> int:
        """Return the broker that coordinates a group (0) or a transactional id (1)."""
        return self.coordinators.setdefault((key_type, key), 1 + len(key) % len(self.brokers))

    def move_coordinators(self) -> None:
        """Give every group and transactional id another coordinator."""
        self.moves += 1
        candidates = [broker.id for broker in self.up()]
        for key, before in self.coordinators.items():
            self.coordinators[key] = self.world.random.choice(candidates)
            self.terms[key] += self.coordinators[key] != before

    # Brokers

    def kill(self, broker: SimBroker) -> None:
        """End a broker's process. Its partitions get other leaders after a while."""
        broker.is_up = False
        broker.incarnation += 1
        self.restarts += 1
        self.world.note("kill broker", broker.id)
        self.links.reset_all(lambda link: link.broker is broker, silent=0.1)
        broker.on_killed()
        for log in self.logs.values():
            if log.leader == broker.id:
                log.waiters.clear()
                self.world.after(self.world.random.randint(10_000, 900_000), self._replace, log, log.epoch)

    def _replace(self, log: PartitionLog, epoch: int) -> None:
        if log.epoch == epoch and not self.brokers[log.leader].is_up:
            self.elect(log)

    def start(self, broker: SimBroker) -> None:
        """Start a broker again, with another release perhaps."""
        if broker.is_up:
            return
        broker.is_up = True
        broker.choose_versions()
        self.world.note("start broker", broker.id, broker.profile)
        for log in self.logs.values():
            self._learn(broker, log, (log.leader, log.epoch))
            if log.leader == broker.id:
                self.replicate(log)

    def heal(self) -> None:
        """Start every broker, and make every partition writable."""
        self.disorder.heal()
        for broker in self.brokers.values():
            self.start(broker)
        for log in self.logs.values():
            log.is_short_of_replicas = False
            self.spread(log)
            self.replicate(log)
