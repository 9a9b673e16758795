"""Registration of brokers and controllers, DescribeCluster."""

from typing import Any
from uuid import UUID

import pytest

from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.metadata_records import RegisterBrokerRecord
from tests.controller.active_controller import ActiveController

DIRECTORY = UUID(int=77 << 64)


@pytest.fixture
def active() -> ActiveController:
    return ActiveController()


def offered(**ranges: tuple[int, int]) -> tuple[m.BrokerRegistrationRequestFeature, ...]:
    return tuple(
        m.BrokerRegistrationRequestFeature(
            name=name.replace("_", "."), min_supported_version=low, max_supported_version=high
        )
        for name, (low, high) in ranges.items()
    )


EVERYTHING = {
    "metadata_version": (7, 30),
    "kraft_version": (0, 1),
    "transaction_version": (0, 2),
    "group_version": (0, 1),
    "share_version": (0, 1),
    "streams_version": (0, 1),
    "eligible_leader_replicas_version": (0, 1),
}


def test_a_broker_starts_fenced_with_the_offset_of_its_registration_as_epoch(active: ActiveController) -> None:
    offset = active.writer.next_offset
    response = active.register(1)
    assert (response.error_code, response.broker_epoch) == (ErrorCode.NONE, offset)
    broker = active.tip.cluster.brokers[1]
    assert broker.fenced
    assert broker.cordoned_directories is None
    assert broker.directories == (UUID(int=1001 << 64),)


def test_broker_epochs_only_rise(active: ActiveController) -> None:
    epochs = [active.register(1).broker_epoch]
    for incarnation in (2, 3, 4):
        active.advance(20_000)
        epochs.append(active.register(1, incarnation).broker_epoch)
    assert epochs == sorted(set(epochs))


def test_the_same_incarnation_keeps_its_epoch_and_state(active: ActiveController) -> None:
    active.start_broker(1)
    before = active.tip.cluster.brokers[1]
    again = active.register(1, rack="r2")
    after = active.tip.cluster.brokers[1]
    assert again.broker_epoch == before.epoch == after.epoch
    assert (after.fenced, after.rack) == (False, "r2")


def test_another_incarnation_is_refused_until_the_session_expires(active: ActiveController) -> None:
    active.start_broker(1)
    active.now_ms += 8_999
    assert active.register(1, incarnation=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    active.now_ms += 2
    assert active.register(1, incarnation=2).error_code == ErrorCode.NONE


def test_a_silent_fenced_broker_may_be_replaced_at_once(active: ActiveController) -> None:
    active.register(1)
    assert active.register(1, incarnation=2).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": ()}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (DIRECTORY, DIRECTORY)}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (UUID(int=2),)}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (UUID(int=1002 << 64),)}, ErrorCode.INVALID_REGISTRATION),
        ({"features": ()}, ErrorCode.INVALID_REGISTRATION),
        ({"features": offered(**{**EVERYTHING, "metadata_version": (7, 29)})}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": offered(**{**EVERYTHING, "kraft_version": (0, 0)})}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": offered(**{**EVERYTHING, "transaction_version": (0, 1)})}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": offered(metadata_version=(7, 30))}, ErrorCode.UNSUPPORTED_VERSION),
        (
            {"listeners": (m.BrokerRegistrationRequestListener(name="P", host="h", port=1, security_protocol=9),)},
            ErrorCode.INVALID_REGISTRATION,
        ),
        (
            {"listeners": (m.BrokerRegistrationRequestListener(name="P", host="", port=1),)},
            ErrorCode.INVALID_REGISTRATION,
        ),
    ],
    ids=["cluster", "zk", "no dirs", "same dirs", "reserved dir", "foreign dir", "no features", "metadata.version",
         "kraft.version", "transaction.version", "missing features", "protocol", "host"],
)  # fmt: skip
def test_a_wrong_registration_is_refused_and_changes_nothing(
    fields: dict[str, Any], code: ErrorCode, active: ActiveController
) -> None:
    active.register(2)
    before = active.tip
    assert active.register(1, **fields).error_code == code
    assert active.tip is before


def test_a_feature_that_the_cluster_does_not_use_need_not_be_offered() -> None:
    """A broker that lists only the finalized features registers."""
    active = ActiveController(bootstrap_features={"metadata.version": 30})
    active.writer.kraft_version = 0
    assert active.register(1, features=offered(metadata_version=(7, 30))).error_code == ErrorCode.NONE


@pytest.fixture
def without_isr() -> ActiveController:
    """Return a controller with two fenced brokers that are both eligible to lead topic t's only partition."""
    active = ActiveController(min_insync_replicas=2)
    for broker_id in (1, 2):
        active.start_broker(broker_id)
    active.create("t", factor=2)
    for broker_id in (1, 2):
        active.heartbeat(broker_id, want_fence=True)
    return active


def test_a_clean_restart_is_detected_by_the_previous_broker_epoch(without_isr: ActiveController) -> None:
    """QuorumControllerTest.testUncleanShutdownBrokerElrEnabled: with the right previous epoch ELR membership stays."""
    active = without_isr
    (partition,) = active.partitions("t")
    assert (partition.isr, set(partition.elr)) == ((), {1, 2})
    epoch = active.tip.cluster.brokers[1].epoch
    active.advance(20_000)
    active.register(1, incarnation=2, previous_broker_epoch=epoch)
    assert 1 in active.partitions("t")[0].elr
    active.register(2, incarnation=2, previous_broker_epoch=5)
    assert 2 not in active.partitions("t")[0].elr


def test_versions_before_3_cannot_detect_a_clean_restart(without_isr: ActiveController) -> None:
    active = without_isr
    epoch = active.tip.cluster.brokers[1].epoch
    active.advance(20_000)
    active.register(1, incarnation=2, version=2, previous_broker_epoch=epoch)
    assert 1 not in active.partitions("t")[0].elr


def test_partitions_are_cleaned_up_before_the_registration_record(active: ActiveController) -> None:
    active.start_broker(1)
    active.create("t", partitions=3)
    active.advance(9_001)  # the session has expired and has not been checked yet
    offset = active.writer.next_offset
    response = active.register(1, incarnation=2)
    assert response.broker_epoch == offset
    records = active.log()[-4:]
    assert isinstance(records[-1], RegisterBrokerRecord)
    assert {partition.leader for partition in active.partitions("t")} == {-1}


def controller_request(node_id: int, listener: str = "CONTROLLER") -> m.ControllerRegistrationRequest:
    return m.ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=UUID(int=node_id),
        listeners=(m.ControllerRegistrationRequestListener(name=listener, host="h", port=9090 + node_id),),
    )


def test_registered_controllers_are_listed_with_the_active_one(active: ActiveController) -> None:
    for node_id in (2, 1):
        assert active.ask(controller_request(node_id)).error_code == ErrorCode.NONE
    active.ask(controller_request(3, listener="OTHER"))
    answer = active.ask(m.DescribeClusterRequest(endpoint_type=2), listener_name="CONTROLLER")
    assert [(node.broker_id, node.port) for node in answer.brokers] == [(1, 9091), (2, 9092)]
    assert (answer.controller_id, answer.cluster_id, answer.endpoint_type) == (1, active.config.cluster_id, 2)


def test_a_leader_that_has_not_registered_is_not_named(active: ActiveController) -> None:
    active.ask(controller_request(2))
    assert active.ask(m.DescribeClusterRequest(endpoint_type=2), listener_name="CONTROLLER").controller_id == -1


@pytest.mark.parametrize(
    ("kind", "version", "code"),
    [
        (1, 2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (7, 2, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (1, 0, ErrorCode.INVALID_REQUEST),
    ],
)
def test_only_controllers_are_described(kind: int, version: int, code: ErrorCode, active: ActiveController) -> None:
    assert active.ask(m.DescribeClusterRequest(endpoint_type=kind), version).error_code == code


def test_controllers_do_not_register_below_metadata_version_15() -> None:
    old = ActiveController(bootstrap_features={"metadata.version": 14})
    assert old.ask(controller_request(1)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert old.ask(m.DescribeClusterRequest(endpoint_type=2)).error_code == ErrorCode.UNSUPPORTED_VERSION
