"""Random histories of an active controller: brokers that register, pause, restart and stop, admins, lost leadership.

After every step: what is committed is what another node replays; the tip is the committed image plus what is pending;
fenced brokers lead nothing; and each record kept the partition invariants when it was appended.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kraft_core.image.image_writer import image_records
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.metadata_records import MetadataRecord
from kraft_core.protocol.wire import Message
from tests.controller.active_controller import ActiveController

BROKERS = st.integers(1, 4)
TOPICS = st.sampled_from(["a", "b", "c"])


class ControllerDays(RuleBasedStateMachine):
    """The rules; see the module."""

    active: ActiveController

    @initialize(elr=st.booleans(), min_isr=st.integers(1, 2))
    def begin(self, elr: bool, min_isr: int) -> None:
        features = {"metadata.version": 30, "eligible.leader.replicas.version": int(elr)}
        self.active = ActiveController(
            bootstrap_features=features, min_insync_replicas=min_isr, max_idle_interval_ms=3_000
        )
        self.incarnations = dict.fromkeys(range(1, 5), 0)
        self.broker_epochs: dict[int, int] = {}
        self.producer_ids: list[int] = []
        self.acknowledged: dict[str, bool] = {}
        self.waiting: dict[int, tuple[str, bool]] = {}
        for broker_id in (1, 2, 3):
            self.register(broker_id)
            self.heartbeat(broker_id, want_fence=False, want_shut_down=False)
        self.active.create("a", partitions=2, factor=3)

    def send(self, message: Message) -> int:
        return self.active.send(message)

    @rule(broker_id=BROKERS)
    def register(self, broker_id: int) -> None:
        self.incarnations[broker_id] += 1
        answer = self.active.register(broker_id, self.incarnations[broker_id])
        if answer.error_code == ErrorCode.NONE:
            assert answer.broker_epoch > self.broker_epochs.get(broker_id, -1), "21: broker epochs rise"
            self.broker_epochs[broker_id] = answer.broker_epoch
        else:
            assert answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION

    @rule(broker_id=BROKERS, want_fence=st.booleans(), want_shut_down=st.booleans())
    def heartbeat(self, broker_id: int, want_fence: bool, want_shut_down: bool) -> None:
        if broker_id in self.active.tip.cluster.brokers:
            self.send(self.active.beat(broker_id, want_fence=want_fence, want_shut_down=want_shut_down))

    @rule(broker_id=BROKERS)
    def stale_heartbeat(self, broker_id: int) -> None:
        if broker_id in self.active.tip.cluster.brokers:
            epoch = self.active.tip.cluster.brokers[broker_id].epoch - 1
            before = self.active.tip
            answer = self.active.answers[self.send(self.active.beat(broker_id, broker_epoch=epoch, want_fence=True))]
            assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
            assert self.active.tip is before, "22: a stale epoch changes nothing"

    @rule(name=TOPICS, partitions=st.integers(1, 4), factor=st.integers(1, 3))
    def create_topic(self, name: str, partitions: int, factor: int) -> None:
        topic = m.CreateTopicsRequestCreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)
        self.waiting[self.send(m.CreateTopicsRequest(topics=(topic,)))] = (name, True)

    @rule(name=TOPICS)
    def delete_topic(self, name: str) -> None:
        self.waiting[self.send(m.DeleteTopicsRequest(topics=(m.DeleteTopicsRequestDeleteTopicState(name=name),)))] = (
            name,
            False,
        )

    @rule(broker_id=BROKERS)
    def allocate_producer_ids(self, broker_id: int) -> None:
        broker = self.active.tip.cluster.brokers.get(broker_id)
        if broker is not None:
            answer = self.active.ask(m.AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker.epoch))
            assert not self.producer_ids or answer.producer_id_start > self.producer_ids[-1], "29"
            self.producer_ids.append(answer.producer_id_start)

    @rule(election=st.integers(0, 1))
    def elect(self, election: int) -> None:
        self.send(m.ElectLeadersRequest(election_type=election, topic_partitions=None))

    @rule(broker_id=BROKERS)
    def unregister(self, broker_id: int) -> None:
        self.send(m.UnregisterBrokerRequest(broker_id=broker_id))

    @rule(milliseconds=st.sampled_from([100, 1_200, 5_000, 10_000]))
    def wait(self, milliseconds: int) -> None:
        self.active.advance(milliseconds)

    @rule()
    def commit(self) -> None:
        self.active.commit()

    @rule()
    def commit_one(self) -> None:
        self.active.commit(batches=1)

    @rule()
    def change_leader(self) -> None:
        self.active.lose_leadership()
        self.active.win_leadership()

    @invariant()
    def committed_is_what_others_replay(self) -> None:
        active = self.active
        pending = len(active.writer.pending)
        whole = active.replayed()
        assert whole.same_metadata(active.tip)
        if not pending:
            assert active.committed.same_metadata(active.tip)
        tip = active.committed
        for _, records in active.writer.pending:
            tip = replay_all(tip, records, tip.offset + len(records), 1)
        assert tip.same_metadata(active.tip)

    @invariant()
    def snapshots_hold_everything(self) -> None:
        tip = self.active.tip
        again: list[MetadataRecord] = list(image_records(tip))
        assert replay_all(MetadataImage.EMPTY, again, tip.offset, tip.epoch) == tip

    @invariant()
    def fenced_brokers_lead_nothing(self) -> None:
        image = self.active.tip
        for topic in image.topics.by_id.values():
            for partition in topic.partitions.values():
                if partition.leader >= 0:
                    assert not image.cluster.brokers[partition.leader].fenced, f"30: {partition}"

    @invariant()
    def acknowledged_topics_are_there(self) -> None:
        for request_id in sorted(set(self.waiting) & set(self.active.answers)):
            name, created = self.waiting.pop(request_id)
            answer: Any = self.active.answers[request_id]
            item = answer.topics[0] if created else answer.responses[0]
            if item.error_code == ErrorCode.NONE:
                self.acknowledged[name] = created
            elif item.error_code == ErrorCode.NOT_CONTROLLER:
                self.acknowledged.pop(name, None)  # either may be
        if not self.waiting:
            there = set(self.active.committed.topics.by_name)
            for name, created in self.acknowledged.items():
                assert (name in there) == created, "13: what was acknowledged stays"


ControllerDays.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestControllerDays = ControllerDays.TestCase
