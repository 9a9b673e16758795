"""A QuorumController over a log in memory: records are encoded, decoded, and committed on demand."""

from collections.abc import Collection, Sequence
from random import Random
from typing import Any
from uuid import UUID

from kraft_core.controller.controller_config import ControllerConfig
from kraft_core.controller.controller_request_context import ControllerRequestContext
from kraft_core.controller.quorum_controller import QuorumController
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.metadata_records import MetadataRecord, decode_record, encode_record
from kraft_core.protocol.metadata_version import FEATURES, version_to_write
from kraft_core.protocol.record_batch import encode_batch, read_batches
from kraft_core.protocol.wire import Message
from tests.controller.partitions.partition_invariants import check_step

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
MINIMUM_VERSION = 7
EVERYTHING = 10**9


class MemoryWriter:
    """A RecordWriter over a list of batches; `refuse` makes appends fail as after a loss of leadership."""

    def __init__(self) -> None:
        self.tip = MetadataImage.EMPTY
        self.batches: list[bytes] = []
        self.pending: list[tuple[MetadataImage, Sequence[MetadataRecord]]] = []
        self.next_offset = 3  # LeaderChange, KRaftVersion and KRaftVoters come first
        self.epoch = 1
        self.leader_id = 1
        self.voter_ids: Collection[int] = (1,)
        self.kraft_version = 1
        self.refuse = False
        self.kraft_upgrades: list[tuple[int, bool]] = []

    def append(self, records: Sequence[MetadataRecord]) -> int:
        if self.refuse:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "no longer the leader")
        level = self.tip.features.metadata_version or MINIMUM_VERSION
        values = [encode_record(record, version_to_write(record, level)) for record in records]
        assert [decode_record(value) for value in values] == list(records), "a record that its version cannot carry"
        self.batches.append(encode_batch(self.next_offset, self.epoch, 0, values))
        self.next_offset += len(records)
        for record in records:
            before, self.tip = self.tip, replay_all(self.tip, [record], self.next_offset - 1, self.epoch)
            check_step(before, record, self.tip)
        self.pending.append((self.tip, records))
        return self.next_offset - 1

    def upgrade_kraft_version(self, level: int, *, validate_only: bool) -> None:
        self.kraft_upgrades.append((level, validate_only))


class ActiveController:
    """A controller with its log and a clock."""

    def __init__(self, *, activate: bool = True, seed: int = 0, **settings: Any) -> None:
        defaults = {"node_id": 1, "cluster_id": CLUSTER, "max_idle_interval_ms": 0}
        self.config = ControllerConfig(**{**defaults, **settings})
        self.writer = MemoryWriter()
        self.controller = QuorumController(self.config, Random(seed), self.writer)
        self.committed = MetadataImage.EMPTY
        self.now_ms = 1_000_000
        self.answers: dict[int, Message] = {}
        self._next_id = 0
        if activate:
            self.controller.on_leader(1, self.now_ms)
            self.run()
            self.commit()

    @property
    def tip(self) -> MetadataImage:
        return self.writer.tip

    def log(self) -> list[MetadataRecord]:
        """Return all appended records that were not lost."""
        return [
            decode_record(value) for raw in self.writer.batches for each in read_batches(raw) for value in each.values()
        ]

    def commit(self, batches: int | None = None) -> None:
        """Commit the pending batches, or the first `batches` of them."""
        count = len(self.writer.pending) if batches is None else batches
        for image, _ in self.writer.pending[:count]:
            self.committed = image
        del self.writer.pending[:count]
        self.controller.on_commit(self.committed, self.now_ms)
        self._collect()

    def run(self, budget: int = EVERYTHING) -> None:
        """Run the due events and collect the responses."""
        self.controller.poll(self.now_ms, budget)
        self._collect()

    def _collect(self) -> None:
        for request_id, message in self.controller.take_responses():
            assert request_id not in self.answers, "answered twice"
            self.answers[request_id] = message

    def send(self, message: Message, version: int | None = None, **context: Any) -> int:
        """Send a request and run it; return its id."""
        request_id = self.queue(message, version, **context)
        self.run()
        return request_id

    def queue(self, message: Message, version: int | None = None, **context: Any) -> int:
        """Append a request to the controller's queue; return its id."""
        self._next_id += 1
        level = type(message).VERSIONS[1] if version is None else version
        self.controller.handle(self._next_id, message, level, ControllerRequestContext(**context), self.now_ms)
        return self._next_id

    def ask(self, message: Message, version: int | None = None, **context: Any) -> Any:
        """Send a request, commit everything, and return the response."""
        request_id = self.send(message, version, **context)
        self.commit()
        return self.answers[request_id]

    def advance(self, milliseconds: int, *, commit: bool = True) -> None:
        """Advance the clock and run periodic tasks when they are due."""
        end = self.now_ms + milliseconds
        while self.controller.next_deadline_ms(self.now_ms) <= end:
            self.now_ms = max(self.now_ms, self.controller.next_deadline_ms(self.now_ms))
            self.run()
            if commit:
                self.commit()
        self.now_ms = end

    def lose_leadership(self) -> None:
        """Move the leadership to another node; uncommitted records are lost."""
        del self.writer.batches[len(self.writer.batches) - len(self.writer.pending) :]
        self.writer.pending.clear()
        self.writer.tip = self.committed
        self.writer.next_offset = max(self.committed.offset + 1, 3)
        self.writer.leader_id = 2
        self.controller.on_resign(self.now_ms)
        self.run()

    def win_leadership(self) -> None:
        self.writer.leader_id = 1
        self.writer.epoch += 1
        self.writer.next_offset += 1  # its LeaderChange record
        self.controller.on_leader(self.writer.epoch, self.now_ms)
        self.run()

    def replayed(self) -> MetadataImage:
        """Return the image that another node replays from the log."""
        loader = MetadataLoader()
        for raw in self.writer.batches:
            for batch in read_batches(raw):
                loader.apply_batch(batch)
        return loader.image

    # -- brokers

    def registration(self, broker_id: int, incarnation: int = 1, **fields: Any) -> m.BrokerRegistrationRequest:
        defaults: dict[str, Any] = {
            "cluster_id": CLUSTER,
            "incarnation_id": UUID(int=(broker_id << 80) + incarnation),
            "rack": None,
            "listeners": (m.BrokerRegistrationRequestListener(name="PLAINTEXT", host="h", port=9092),),
            "features": tuple(
                m.BrokerRegistrationRequestFeature(
                    name=feature.name, min_supported_version=feature.minimum, max_supported_version=feature.maximum
                )
                for feature in FEATURES.values()
            ),
            "log_dirs": (UUID(int=(1000 + broker_id) << 64),),
        }
        return m.BrokerRegistrationRequest(broker_id=broker_id, **{**defaults, **fields})

    def register(self, broker_id: int, incarnation: int = 1, version: int | None = None, **fields: Any) -> Any:
        return self.ask(self.registration(broker_id, incarnation, **fields), version)

    def beat(self, broker_id: int, **fields: Any) -> m.BrokerHeartbeatRequest:
        defaults: dict[str, Any] = {
            "broker_epoch": self.tip.cluster.brokers[broker_id].epoch,
            "current_metadata_offset": self.writer.next_offset - 1,
        }
        return m.BrokerHeartbeatRequest(broker_id=broker_id, **{**defaults, **fields})

    def heartbeat(self, broker_id: int, **fields: Any) -> Any:
        return self.ask(self.beat(broker_id, **fields))

    def start_broker(self, broker_id: int, **fields: Any) -> None:
        """Register and unfence a broker."""
        assert self.register(broker_id, **fields).error_code == 0
        assert not self.heartbeat(broker_id).is_fenced

    def create(self, name: str, partitions: int = 1, factor: int = 1, **fields: Any) -> Any:
        topic = m.CreateTopicsRequestCreatableTopic(
            name=name, num_partitions=partitions, replication_factor=factor, **fields
        )
        return self.ask(m.CreateTopicsRequest(topics=(topic,))).topics[0]

    def partitions(self, name: str) -> list[Any]:
        topic = self.tip.topics.topic(name)
        assert topic is not None
        return [partition for _, partition in topic.sorted_partitions()]
