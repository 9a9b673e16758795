"""Real nodes over logs in memory, with a virtual clock and messages that arrive at once."""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any
from uuid import UUID

from kraft_core.controller.controller_config import ControllerConfig
from kraft_core.controller.controller_request_context import ControllerRequestContext
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.node import (
    ControllerRequest,
    CreateSnapshot,
    ImageChanged,
    Node,
    NodeConfig,
    NodeEffect,
    NodeEvent,
)
from kraft_core.node_snapshot import write_image
from kraft_core.protocol.internal_topics import METADATA_TOPIC
from kraft_core.protocol.messages import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
)
from kraft_core.protocol.metadata_version import FEATURES
from kraft_core.protocol.wire import Message
from kraft_core.raft.effects import Flush, Respond, SendRequest, StoreElection
from kraft_core.raft.events import (
    FailureReason,
    Flushed,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    SnapshotCreated,
    Timer,
)
from kraft_core.raft.quorum_state import ElectionState
from kraft_core.raft.raft_config import RaftConfig
from kraft_core.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet
from tests.raft.memory_raft_log import MemoryRaftLog

CLUSTER_ID = "node-cluster"
DIRECTORY = UUID(int=1 << 100)


def quiet_config(node_id: int) -> ControllerConfig:
    """Settings of a controller without periodic records, so that the test determines all offsets."""
    return ControllerConfig(node_id=node_id, cluster_id=CLUSTER_ID, max_idle_interval_ms=0)


class Member:
    """One node with its log and its effects."""

    def __init__(self, cluster: "Cluster", node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.log = MemoryRaftLog()
        self.election: ElectionState | None = None
        self.answers: dict[int, Message] = {}
        self.changes: list[ImageChanged] = []
        self.snapshots: list[CreateSnapshot] = []
        self.flush_held = False
        self.flush_wanted = False
        self.node = self._new_node()

    def _new_node(self) -> Node:
        voters = VoterSet.of(
            VoterNode(ReplicaKey(each), (Endpoint("CONTROLLER", f"node-{each}", 1),)) for each in self.cluster.node_ids
        )
        raft = RaftConfig(
            node_id=self.node_id,
            directory_id=UUID(int=self.node_id << 100),
            cluster_id=CLUSTER_ID,
            endpoints=(Endpoint("CONTROLLER", f"node-{self.node_id}", 1),),
            bootstrap_servers=tuple((f"node-{each}", 1) for each in self.cluster.node_ids),
            static_voters=voters,
        )
        config = NodeConfig(raft=raft, controller=quiet_config(self.node_id), **self.cluster.settings)
        return Node(config, self.log, self.election, Random(self.node_id), self.cluster.now_ms)

    def restart(self, *, keep_unflushed: bool = False) -> None:
        """Restart from the durable state, as after kill -9."""
        self.log.crash(self.log.end_offset if keep_unflushed else self.log.flushed_offset)
        self.answers.clear()
        self.flush_wanted = False
        self.node = self._new_node()
        self.carry_out(self.node.start(self.cluster.now_ms))

    def step(self, *events: NodeEvent) -> None:
        """Pass events that arrived together to the node."""
        self.carry_out(self.node.step_all(events, self.cluster.now_ms))

    def carry_out(self, effects: Iterable[NodeEffect]) -> None:
        for effect in effects:
            match effect:
                case Respond(request_id=request_id, message=message):
                    self.answers[request_id] = message
                    self.cluster.answered(self, request_id, message)
                case SendRequest():
                    self.cluster.send(self, effect)
                case Flush():
                    self.flush_wanted = True
                case StoreElection(election=election):
                    self.election = election
                case ImageChanged():
                    self.changes.append(effect)
                case CreateSnapshot():
                    self.snapshots.append(effect)

    def flush(self) -> None:
        """Complete the current flush."""
        if self.flush_wanted and not self.flush_held:
            self.flush_wanted = False
            self.step(Flushed(self.log.flush()))

    def write_snapshot(self) -> CreateSnapshot:
        """Write the requested snapshot."""
        wanted = self.snapshots.pop()
        write_image(wanted.image, wanted.writer)
        self.step(SnapshotCreated(wanted.id))
        return wanted

    def request(self, message: Message, version: int, **context: Any) -> int:
        """Send a request to the controller; return its id."""
        request_id = self.cluster.new_id()
        self.step(ControllerRequest(request_id, message, version, ControllerRequestContext(**context)))
        return request_id

    def asked_to_vote(self) -> Message | None:
        """Return the response to a pre-vote request of an unknown replica."""
        request_id = self.cluster.new_id()
        partition = VoteRequestPartitionData(
            replica_epoch=self.node.raft.epoch, replica_id=99, last_offset_epoch=0, last_offset=0, pre_vote=True
        )
        topic = VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
        request = VoteRequest(cluster_id=CLUSTER_ID, voter_id=self.node_id, topics=(topic,))
        self.step(RequestReceived(request_id, request, 2))
        return self.answers.get(request_id)

    def topics(self, image: MetadataImage | None = None) -> set[str]:
        """Names of the topics in an image, by default the committed one."""
        return set((image or self.node.image).topics.by_name)


class Cluster:
    """Nodes 1 to `size`; `settings` are NodeConfig's."""

    def __init__(self, size: int, **settings: Any) -> None:
        self.node_ids = range(1, size + 1)
        self.settings = settings
        self.now_ms = 1_700_000_000_000
        self.cut_off: set[int] = set()
        self._last_id = 0
        self._mail: deque[Callable[[], None]] = deque()
        self._asked: dict[int, tuple[Member, int]] = {}
        self.members = {node_id: Member(self, node_id) for node_id in self.node_ids}
        for member in self.members.values():
            member.carry_out(member.node.start(self.now_ms))

    def __getitem__(self, node_id: int) -> Member:
        return self.members[node_id]

    def new_id(self) -> int:
        """Return an unused request id."""
        self._last_id += 1
        return self._last_id

    def send(self, sender: Member, effect: SendRequest) -> None:
        """Deliver a request in the next round; a cut-off node neither gets nor sends."""
        receiver_id = int(effect.destination.host.removeprefix("node-"))
        if {receiver_id, sender.node_id} & self.cut_off or receiver_id == sender.node_id:
            failed = RequestFailed(effect.correlation, FailureReason.TIMED_OUT)
            self._mail.append(lambda: sender.step(failed))
            return
        request_id = self.new_id()
        self._asked[request_id] = (sender, effect.correlation)
        event = RequestReceived(request_id, effect.message, effect.message.VERSIONS[1])
        self._mail.append(lambda: self[receiver_id].step(event))

    def answered(self, responder: Member, request_id: int, message: Message) -> None:
        """Deliver a response to its requester, unless one of the two is cut off."""
        sender, correlation = self._asked.pop(request_id, (None, 0))
        if sender is not None and not {sender.node_id, responder.node_id} & self.cut_off:
            self._mail.append(lambda: sender.step(ResponseReceived(correlation, message)))

    def settle(self) -> None:
        """Deliver and flush until no message is pending."""
        for _ in range(2000):
            for member in self.members.values():
                member.flush()
                while member.node.controller.next_deadline_ms(self.now_ms) <= self.now_ms:
                    member.step(Timer())
            if not self._mail:
                return
            self._mail.popleft()()
        raise AssertionError("the nodes never come to rest")

    def run(self, ms: int, step_ms: int = 5) -> None:
        """Advance the clock."""
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.settle()
            self.now_ms += step_ms
            for member in self.members.values():
                if self.now_ms >= member.node.next_deadline_ms():
                    member.step(Timer())
        self.settle()

    def until(self, condition: Callable[[], Any], ms: int = 20_000) -> None:
        """Advance the clock until the condition holds."""
        end_ms = self.now_ms + ms
        while not condition():
            assert self.now_ms < end_ms, "it never came true"
            self.run(5)

    def active(self) -> Member:
        """Return the active controller after its bootstrap records are committed."""

        def found() -> list[Member]:
            return [
                each
                for each in self.members.values()
                if each.node.is_active
                and each.node_id not in self.cut_off
                and each.node.image.features.metadata_version
                and each.node.raft.high_watermark == each.log.end_offset
            ]

        self.until(found)
        return found()[0]

    def with_broker(self, broker_id: int = 101) -> Member:
        """The active controller after a broker registered and was unfenced."""
        active = self.active()
        registration = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=UUID(int=broker_id),
            listeners=(BrokerRegistrationRequestListener(name="PLAINTEXT", host="broker", port=9092),),
            features=tuple(
                BrokerRegistrationRequestFeature(
                    name=name, min_supported_version=each.minimum, max_supported_version=each.maximum
                )
                for name, each in FEATURES.items()
            ),
            log_dirs=(DIRECTORY,),
        )
        request_id = active.request(registration, 4)
        self.until(lambda: request_id in active.answers)
        epoch = active.answers[request_id].broker_epoch
        heartbeat = BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=2**60, want_fence=False
        )
        request_id = active.request(heartbeat, 1)
        self.until(lambda: request_id in active.answers)
        assert not active.answers[request_id].is_fenced
        return active


def create_topic(name: str, partitions: int = 1) -> CreateTopicsRequest:
    """A CreateTopics request for one topic with one replica."""
    topic = CreateTopicsRequestCreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=(topic,), timeout_ms=60_000)
