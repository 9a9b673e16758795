"""Planted bugs of the controller; the simulator must catch each by the invariant that it breaks."""

from collections.abc import Callable
from typing import Any
from uuid import UUID
from zlib import crc32

import msgspec
import pytest

from kraft_core.controller.access import acl_control_manager
from kraft_core.controller.brokers.broker_heartbeat_manager import BrokerHeartbeatManager
from kraft_core.controller.brokers.cluster_control_manager import check_broker_epoch, registration_record
from kraft_core.controller.configuration_control_manager import ConfigurationControlManager
from kraft_core.controller.controller_operations import READS, WRITES, Call, Managers
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.controller.partitions import alter_partition
from kraft_core.controller.partitions.cluster_describer import ClusterDescriber
from kraft_core.controller.partitions.partition_change_builder import PartitionChangeBuilder
from kraft_core.controller.partitions.replication_control_manager import FENCE, ReplicationControlManager
from kraft_core.controller.partitions.topic_creation import TopicCreation
from kraft_core.controller.queue.controller_events import RequestEvent
from kraft_core.controller.quorum_controller import QuorumController
from kraft_core.image import metadata_delta, topics_delta
from kraft_core.image.metadata_delta import REPLAY
from kraft_core.image.topics_image import PartitionRegistration
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse, DescribeConfigsRequest
from kraft_core.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
)
from tests.simulator.admin_load import OPERATIONS, AdminLoad
from tests.simulator.faults import BROKERS
from tests.simulator.planted import caught

pytestmark = pytest.mark.simulator

CONTROLLERS = ("kill", "resign", "isolate", "duplicate", "delay")


def failure(seeds: int = 60, faults: tuple[str, ...] = BROKERS) -> str:
    """Return the simulator's message about the bug."""
    return caught(seeds, faults, brokers=3)


def test_no_alarm_without_a_bug() -> None:
    assert failure(20) == ""
    assert failure(20, (*BROKERS, *CONTROLLERS)) == ""


# --- brokers ----------------------------------------------------------------------------------------------------------


def test_an_unchecked_broker_epoch_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(image: Any, broker_id: int, broker_epoch: int) -> Any:
        return image.cluster.brokers.get(broker_id) or check_broker_epoch(image, broker_id, broker_epoch)

    monkeypatch.setattr("kraft_core.controller.partitions.replication_control_manager.check_broker_epoch", check)
    assert "a stale broker epoch was accepted" in failure(120)


def test_an_epoch_that_two_registrations_share_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(image: Any, request: Any, new_epoch: int, kraft_version: int) -> Any:
        return registration_record(image, request, new_epoch // 40 * 40, kraft_version)

    monkeypatch.setattr("kraft_core.controller.brokers.cluster_control_manager.registration_record", record)
    assert "a broker epoch" in failure()


def test_an_incarnation_that_replaces_a_valid_session_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerHeartbeatManager, "has_valid_session", lambda *_: False)
    assert "while another incarnation's session was valid" in failure()


def test_a_session_that_never_ends_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerHeartbeatManager, "remove_expired", lambda *_: None)
    assert "a silent broker is not fenced" in failure()


def test_a_session_that_ends_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = BrokerHeartbeatManager.remove_expired
    monkeypatch.setattr(BrokerHeartbeatManager, "remove_expired", lambda self, now_ms: original(self, now_ms + 700))
    assert "session was" in failure()


def test_a_new_controller_without_new_sessions_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = BrokerHeartbeatManager.activate
    monkeypatch.setattr(BrokerHeartbeatManager, "activate", lambda self, image, _: original(self, image, 0))
    assert "before its session was over" in failure(faults=("resign",))


def test_a_fenced_broker_that_keeps_leading_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def fence(_: ReplicationControlManager, image: Any, broker_id: int) -> list[Any]:
        epoch = image.cluster.brokers[broker_id].epoch
        return [BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=FENCE)]

    monkeypatch.setattr(ReplicationControlManager, "handle_broker_fenced", fence)
    assert "a fenced broker leads" in failure()


def test_a_returning_broker_that_is_not_elected_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ReplicationControlManager.handle_broker_unfenced
    monkeypatch.setattr(ReplicationControlManager, "handle_broker_unfenced", lambda *args: original(*args)[:1])
    assert "no leader, although a replica may lead" in failure()


# --- partitions -------------------------------------------------------------------------------------------------------


def test_an_election_of_a_fenced_broker_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterDescriber, "leader_acceptor", lambda *_: lambda _: True)
    message = failure()
    assert "a broker that is not active was elected" in message or "the leader is not in sync" in message


def test_an_election_onto_an_offline_directory_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def accept(self: ClusterDescriber, _: object, live: Any = None) -> Callable[[int], bool]:
        return lambda broker_id: broker_id in (self.active if live is None else live)

    monkeypatch.setattr(ClusterDescriber, "leader_acceptor", accept)
    assert "whose directory is offline" in failure(faults=("broker_directory", "broker_kill"))


def test_an_unclean_election_without_permission_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConfigurationControlManager, "unclean_leader_election_enabled", lambda *_: True)
    assert "without permission" in failure()


def test_an_unclean_leader_that_need_not_recover_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PartitionChangeBuilder._try_election

    def elect(self: PartitionChangeBuilder) -> Any:
        leader, isr, _ = original(self)
        return leader, isr, -1

    monkeypatch.setattr(PartitionChangeBuilder, "_try_election", elect)
    assert "an unclean leader need not recover" in failure()


def test_a_partition_epoch_that_is_not_raised_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = topics_delta.merge_partition

    def merge(partition: PartitionRegistration, record: Any) -> PartitionRegistration:
        return msgspec.structs.replace(original(partition, record), partition_epoch=partition.partition_epoch)

    monkeypatch.setattr(topics_delta, "merge_partition", merge)
    assert "an image with another partition" in failure()


@pytest.mark.parametrize(
    ("let_through", "reasons"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, ("came in sync",)),
        (
            ErrorCode.INVALID_UPDATE_VERSION,
            ("other epochs", "came in sync"),
        ),  # an old request has no other check
    ],
    ids=["of a broker that is not active", "of an earlier partition epoch"],
)
def test_an_isr_that_should_be_refused_is_caught(
    monkeypatch: pytest.MonkeyPatch, let_through: ErrorCode, reasons: tuple[str, ...]
) -> None:
    original = alter_partition._check

    def check(*args: Any) -> ErrorCode:
        code = original(*args)
        return ErrorCode.NONE if code == let_through else code

    monkeypatch.setattr(alter_partition, "_check", check)
    message = failure(faults=(*BROKERS, *CONTROLLERS))
    assert any(each in message for each in reasons)


def test_a_replica_that_is_in_sync_and_eligible_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = PartitionChangeBuilder._populate_target_elr

    def populate(self: PartitionChangeBuilder) -> None:
        original(self)
        if self._elr_enabled:
            self.target_elr = self.target_isr

    monkeypatch.setattr(PartitionChangeBuilder, "_populate_target_elr", populate)
    assert "ISR and ELR overlap" in failure()


# --- ids, promises, reads ---------------------------------------------------------------------------------------------


def test_a_reused_topic_id_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that is created again gets its former id."""
    original = TopicCreation.create_topics

    def create(self: TopicCreation, *args: Any) -> Any:
        result = original(self, *args)
        ids = {each.topic_id: UUID(int=crc32(each.name.encode())) for each in result.response.topics}
        records = [
            msgspec.structs.replace(each, topic_id=ids[each.topic_id]) if hasattr(each, "topic_id") else each
            for each in result.records
        ]
        return ControllerResult(records, result.response, is_atomic=True)

    monkeypatch.setattr(TopicCreation, "create_topics", create)
    monkeypatch.setattr(AdminLoad, "_promised", lambda *_: None)
    assert "a topic id was used before" in failure()


def test_a_reused_acl_id_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_control_manager, "random_uuid", lambda random: UUID(int=(1 << 100) + random.randrange(40)))
    monkeypatch.setitem(OPERATIONS, "acls", 40)
    assert "an ACL id was used before" in failure(faults=())


def test_blocks_of_producer_ids_that_overlap_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def allocate(_: Managers, call: Call) -> ControllerResult[AllocateProducerIdsResponse]:
        first = max(call.image.producer_ids, 0)
        record = ProducerIdsRecord(
            broker_id=call.request.broker_id, broker_epoch=call.request.broker_epoch, next_producer_id=first + 500
        )
        answer = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=1000)
        return ControllerResult([record], answer)

    monkeypatch.setitem(WRITES, AllocateProducerIdsRequest, allocate)
    assert "producer ids" in failure()


def test_a_partially_created_topic_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = TopicCreation.create_topics

    def create(self: TopicCreation, *args: Any) -> Any:
        result = original(self, *args)
        first = next((each for each in result.records if isinstance(each, PartitionRecord)), None)
        return ControllerResult([each for each in result.records if each is not first], result.response, is_atomic=True)

    monkeypatch.setattr(TopicCreation, "create_topics", create)
    assert "half of one" in failure()


def test_configs_that_outlive_their_topic_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def remove(delta: metadata_delta.MetadataDelta, record: RemoveTopicRecord) -> None:
        delta.topics_delta().replay_remove_topic(record)

    monkeypatch.setitem(REPLAY, RemoveTopicRecord, remove)
    assert "settings" in failure()


def test_an_answer_before_the_commit_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def finish(self: QuorumController, event: RequestEvent, result: ControllerResult[Any]) -> None:
        last_offset = self._append(result) if result.records else self._writer.next_offset - 1
        if result.appended is not None:
            result.appended(last_offset)
        self._responses.append((event.request_id, result.response))

    monkeypatch.setattr(QuorumController, "_finish", finish)
    assert "acknowledged" in failure()


def test_a_read_of_what_is_not_committed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = READS[DescribeConfigsRequest]

    def describe(managers: Managers, call: Call) -> Any:
        image = managers.writer.tip
        return original(managers, Call(image, call.request, call.version, call.context, call.now_ms))

    monkeypatch.setitem(READS, DescribeConfigsRequest, describe)
    message = failure(200, ("slow_disk", "delay"))
    assert "read what is not committed" in message or "reported" in message


def test_a_read_older_than_the_last_acknowledgement_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that reads an old image."""
    original = READS[DescribeConfigsRequest]
    images: dict[int, tuple[int, Any]] = {}

    def describe(managers: Managers, call: Call) -> Any:
        key = id(managers)
        since, image = images.get(key, (-(10**9), None))
        if image is None or call.now_ms - since > 700:
            since, image = images[key] = (call.now_ms, call.image)
        return original(managers, Call(image, call.request, call.version, call.context, call.now_ms))

    monkeypatch.setitem(READS, DescribeConfigsRequest, describe)
    message = failure(faults=())
    assert "older than an acknowledgement" in message or "reported" in message or "was old" in message


def test_a_controller_that_continues_after_a_fault_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def elect(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(PartitionChangeBuilder, "elect_leader", elect)
    assert "the controller failed" in failure(faults=("resign",))
