"""A virtual broker: it registers, sends heartbeats, leads partitions, falls silent, and goes in good order or not.

It speaks to the controllers with the real requests over the virtual network, and learns the committed metadata from one
of them with a delay. It keeps no records: a follower is in sync while it is up, reached by the leader and has heard of
the leader's epoch.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.metadata_version import FEATURES, is_directory_assignment_supported
from kraft_core.protocol.wire import Message
from tests.simulator.network import Network
from tests.simulator.partition_rules import Key
from tests.simulator.sim_client import Answered, SimClient
from tests.simulator.sim_node import SimNode
from tests.simulator.world import World

HEARTBEAT_US = 300_000
SHUTDOWN_HEARTBEAT_US = 60_000
METADATA_US = 100_000
REPLICATION_US = 200_000
LAG_US = 500_000
"""Time without a fetch after which a follower is out of sync (replica.lag.time.max.ms)."""


@dataclass(slots=True)
class Led:
    """A partition that this broker leads, by its own metadata."""

    topic_id: UUID
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    recovery_state: int
    since_us: int


class SimBroker(SimClient):
    """A broker; its directories outlive the process, and each start has a new incarnation id."""

    def __init__(
        self, world: World, network: Network, nodes: list[SimNode], broker_id: int, directories: int, cluster_id: str
    ) -> None:
        super().__init__(world, network, nodes, broker_id)
        self.random = world.random
        self.cluster_id = cluster_id
        self.peers: dict[int, SimBroker] = {}
        self.directories = [self._new_id() for _ in range(directories)]
        self.previous_epoch = -1
        self.registrations = 0
        self.sent: deque[Message] = deque(maxlen=30)  # of all incarnations
        self.on_block: Callable[[SimNode, int, m.AllocateProducerIdsResponse], None] = lambda *_: None
        self.committed_end: Callable[[], int] = lambda: 0
        self.is_up = False
        self._begin()

    def __repr__(self) -> str:
        return f"broker {self.id} ({'up' if self.is_up else 'down'}, epoch {self.epoch}, read {self.view.offset})"

    def _begin(self) -> None:
        self.incarnation_id = self._new_id()
        self.epoch = -1
        self.view = MetadataImage.EMPTY
        self.is_ready = self.is_leaving = self.is_unfenced = False
        self.offline: list[UUID] = []
        self.led: dict[Key, Led] = {}
        self.fetched: dict[tuple[Key, int], tuple[int, int]] = {}  # (partition, follower) -> (time, broker epoch)
        self._is_altering = self._is_assigning = False

    def _new_id(self) -> UUID:
        return UUID(int=self.random.getrandbits(126) | 1 << 126)

    # --- process ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process. Offline directories are replaced by empty ones."""
        if self.is_up:
            return
        self.world.note("broker starts", self.id)
        self.directories = [self._new_id() if each in self.offline else each for each in self.directories]
        self._begin()
        self.is_up = True
        self._register()
        self.later(self.random.randint(0, METADATA_US), self._read_metadata)
        self.later(self.random.randint(0, REPLICATION_US), self._replicate)
        self.later(self.random.randint(100_000, 400_000), self._be_ready)

    def kill(self) -> None:
        """Kill the process; its memory is lost."""
        if self.is_up:
            self.world.note("broker ends", self.id)
            self.is_up = False
            self.previous_epoch = -1
            self.end()

    def pause(self) -> None:
        """SIGSTOP."""
        self.is_paused = self.is_up

    def leave(self) -> None:
        """SIGTERM: request a controlled shutdown."""
        self.is_leaving = self.is_up and self.is_unfenced

    def fail_directory(self) -> None:
        """Fail a disk; a broker without any disk stops."""
        online = [each for each in self.directories if each not in self.offline]
        if self.is_up and online:
            self.offline.append(self.random.choice(online))
            if len(online) == 1:
                self.kill()

    def _be_ready(self) -> None:
        self.is_ready = True

    def ask(
        self, message: Message, on_answer: Answered, on_failure: Callable[[], None], *, node: SimNode | None = None
    ) -> None:
        """Send a request and keep it for repetition."""
        self.sent.append(message)
        super().ask(message, on_answer, on_failure, node=node)

    def repeat(self) -> None:
        """Repeat an old request, perhaps of an earlier incarnation."""
        if self.is_up and self.sent:
            earlier = [each for each in self.sent if getattr(each, "broker_epoch", self.epoch) != self.epoch]
            message = self.random.choice(earlier or list(self.sent))
            super().ask(message, lambda _node, _answer: None, lambda: None)

    # --- registration and heartbeats ----------------------------------------------------------------------------------

    def _register(self) -> None:
        request = m.BrokerRegistrationRequest(
            broker_id=self.id,
            cluster_id=self.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=(m.BrokerRegistrationRequestListener(name="PLAINTEXT", host=f"broker{self.id}", port=9092),),
            features=tuple(
                m.BrokerRegistrationRequestFeature(
                    name=name, min_supported_version=feature.minimum, max_supported_version=feature.maximum
                )
                for name, feature in sorted(FEATURES.items())
            ),
            rack=None,
            log_dirs=tuple(self.directories),
            previous_broker_epoch=self.previous_epoch,
        )
        self.ask(request, self._on_registered, self._register_later)

    def _register_later(self) -> None:
        self.later(HEARTBEAT_US // 3, self._register)

    def _on_registered(self, node: SimNode, answer: m.BrokerRegistrationResponse) -> None:
        if answer.error_code != ErrorCode.NONE:
            self.is_refused(node, answer.error_code)
            self._register_later()
            return
        self.epoch = answer.broker_epoch
        self.registrations += 1
        self._heartbeat()

    def _heartbeat(self) -> None:
        request = m.BrokerHeartbeatRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.view.offset,
            want_fence=not self.is_ready,
            want_shut_down=self.is_leaving,
            offline_log_dirs=tuple(self.offline),
            cordoned_log_dirs=() if self.is_ready else None,
        )
        self.ask(request, self._on_heartbeat, self._heartbeat_later)

    def _heartbeat_later(self) -> None:
        hurries = self.is_leaving or not self.is_unfenced
        self.later(SHUTDOWN_HEARTBEAT_US if hurries else HEARTBEAT_US, self._heartbeat)

    def _on_heartbeat(self, node: SimNode, answer: m.BrokerHeartbeatResponse) -> None:
        if answer.error_code == ErrorCode.STALE_BROKER_EPOCH and not self.is_leaving:
            self._register()
            return
        if answer.error_code != ErrorCode.NONE:
            self.is_refused(node, answer.error_code)
        elif answer.should_shut_down:
            epoch = self.epoch
            self.kill()
            self.previous_epoch = epoch
            return
        else:
            self.is_unfenced = not answer.is_fenced
        self._heartbeat_later()

    # --- metadata -----------------------------------------------------------------------------------------------------

    def _read_metadata(self) -> None:
        """Read the committed image of a reachable controller."""
        self.later(METADATA_US, self._read_metadata)
        node = self.random.choice(self.nodes)
        if node.node is None or node.is_paused or not self.network.reaches(self.id, node.id):
            return
        image = node.node.image
        if image.offset > self.view.offset and self.network.reaches(node.id, self.id):
            self.later(self.random.randint(500, 20_000), self._on_metadata, image)

    def _on_metadata(self, image: MetadataImage) -> None:
        if image.offset <= self.view.offset:
            return
        topics_before, self.view = self.view.topics, image
        if image.topics is topics_before:
            return
        led: dict[Key, Led] = {}
        for topic_id, topic in image.topics.by_id.items():
            for index, it in topic.partitions.items():
                if it.leader != self.id:
                    continue
                known = self.led.get((topic_id, index))
                if known is not None and known.partition_epoch >= it.partition_epoch:
                    led[topic_id, index] = known
                    continue
                same = known is not None and known.leader_epoch == it.leader_epoch
                led[topic_id, index] = Led(
                    topic_id,
                    index,
                    it.replicas,
                    it.isr,
                    it.leader_epoch,
                    it.partition_epoch,
                    it.leader_recovery_state,
                    known.since_us if known is not None and same else self.world.now_us,
                )
        self.led = dict(sorted(led.items()))
        self._place_replicas()

    # --- replication --------------------------------------------------------------------------------------------------

    def _is_fetching(self, led: Led, follower: "SimBroker") -> bool:
        """Report whether a follower's fetches for this partition arrive now."""
        if not follower.is_up or follower.is_paused or follower.epoch < 0:
            return False
        if not (self.network.reaches(follower.id, self.id) and self.network.reaches(self.id, follower.id)):
            return False
        it = follower.view.topics.partition(led.topic_id, led.index)
        if it is None or it.leader_epoch != led.leader_epoch or follower.id not in it.replicas:
            return False
        return it.directory(follower.id) not in follower.offline

    def _replicate(self) -> None:
        """Record fetches, and send AlterPartition for ISRs that must change."""
        self.later(REPLICATION_US, self._replicate)
        now_us = self.world.now_us
        changes: list[tuple[Led, tuple[int, ...], int]] = []
        for key, led in self.led.items():
            for each in led.replicas:
                if each != self.id and self._is_fetching(led, self.peers[each]):
                    self.fetched[key, each] = now_us, self.peers[each].epoch
            if led.recovery_state:
                changes.append((led, (self.id,), 0))
                continue
            isr = tuple(each for each in led.replicas if self._is_in_sync(key, led, each))
            if set(isr) != set(led.isr):
                changes.append((led, isr, 0))
        if changes and not self._is_altering and self.epoch >= 0:
            self._alter(changes)

    def _is_in_sync(self, key: Key, led: Led, follower: int) -> bool:
        if follower == self.id:
            return True
        fetched_us, _ = self.fetched.get((key, follower), (-LAG_US, -1))
        if follower in led.isr:
            return self.world.now_us - max(fetched_us, led.since_us) < LAG_US
        caught_up = self.random.random() < 0.6  # a follower needs some time
        return caught_up and fetched_us >= led.since_us and self.world.now_us - fetched_us < LAG_US

    def _alter(self, changes: list[tuple[Led, tuple[int, ...], int]]) -> None:
        topics: dict[UUID, list[m.AlterPartitionRequestPartitionData]] = {}
        for led, isr, recovery_state in changes:
            epochs = {each: self.fetched.get(((led.topic_id, led.index), each), (0, -1))[1] for each in isr}
            topics.setdefault(led.topic_id, []).append(
                m.AlterPartitionRequestPartitionData(
                    partition_index=led.index,
                    leader_epoch=led.leader_epoch,
                    new_isr_with_epochs=tuple(
                        m.AlterPartitionRequestBrokerState(
                            broker_id=each, broker_epoch=self.epoch if each == self.id else epochs[each]
                        )
                        for each in isr
                    ),
                    leader_recovery_state=recovery_state,
                    partition_epoch=led.partition_epoch,
                )
            )
        request = m.AlterPartitionRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            topics=tuple(
                m.AlterPartitionRequestTopicData(topic_id=topic_id, partitions=tuple(found))
                for topic_id, found in topics.items()
            ),
        )
        self._is_altering = True
        self.ask(request, self._on_altered, self._alteration_failed)

    def _alteration_failed(self) -> None:
        self._is_altering = False

    def _on_altered(self, node: SimNode, answer: m.AlterPartitionResponse) -> None:
        self._is_altering = False
        if answer.error_code != ErrorCode.NONE:
            self.is_refused(node, answer.error_code)
            return
        for topic in answer.topics:
            for each in topic.partitions:
                led = self.led.get((topic.topic_id, each.partition_index))
                if led is None or each.error_code != ErrorCode.NONE or each.partition_epoch <= led.partition_epoch:
                    continue
                led.isr, led.partition_epoch = each.isr, each.partition_epoch
                led.leader_epoch, led.recovery_state = each.leader_epoch, each.leader_recovery_state

    # --- directories --------------------------------------------------------------------------------------------------

    def _misplaced(self) -> Iterable[tuple[UUID, int]]:
        mine = {each for each in self.directories if each not in self.offline}
        for topic_id, topic in self.view.topics.by_id.items():
            for index, it in topic.partitions.items():
                directory = it.directory(self.id)
                if directory is not None and directory not in mine and directory not in self.offline:
                    yield topic_id, index

    def _place_replicas(self) -> None:
        """Send AssignReplicasToDirs for replicas without a directory of this broker."""
        level = self.view.features.metadata_version or 0
        if self._is_assigning or self.epoch < 0 or not is_directory_assignment_supported(level):
            return
        found: dict[UUID, dict[UUID, list[int]]] = {}
        online = [each for each in self.directories if each not in self.offline]
        for topic_id, index in sorted(self._misplaced()):
            directory = online[(topic_id.int + index) % len(online)]
            found.setdefault(directory, {}).setdefault(topic_id, []).append(index)
        if not found:
            return
        request = m.AssignReplicasToDirsRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            directories=tuple(
                m.AssignReplicasToDirsRequestDirectoryData(
                    id=directory,
                    topics=tuple(
                        m.AssignReplicasToDirsRequestTopicData(
                            topic_id=topic_id,
                            partitions=tuple(
                                m.AssignReplicasToDirsRequestPartitionData(partition_index=index) for index in indexes
                            ),
                        )
                        for topic_id, indexes in topics.items()
                    ),
                )
                for directory, topics in found.items()
            ),
        )
        self._is_assigning = True
        self.ask(request, self._on_assigned, self._assignment_failed)

    def _assignment_failed(self) -> None:
        self._is_assigning = False
        self.later(REPLICATION_US, self._place_replicas)

    def _on_assigned(self, node: SimNode, answer: m.AssignReplicasToDirsResponse) -> None:
        self._is_assigning = False
        if answer.error_code != ErrorCode.NONE:
            self.is_refused(node, answer.error_code)
            self.later(REPLICATION_US, self._place_replicas)

    # --- producer ids -------------------------------------------------------------------------------------------------

    def allocate_producer_ids(self) -> None:
        """Request the next block."""
        if not self.is_up or self.is_paused or self.epoch < 0:
            return
        before = self.committed_end()

        def on_answer(node: SimNode, answer: m.AllocateProducerIdsResponse) -> None:
            if answer.error_code == ErrorCode.NONE:
                self.on_block(node, before, answer)
            else:
                self.is_refused(node, answer.error_code)

        self.ask(m.AllocateProducerIdsRequest(broker_id=self.id, broker_epoch=self.epoch), on_answer, lambda: None)
