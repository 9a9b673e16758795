"""Registrations, heartbeats and producer ids, valid and invalid."""

from collections.abc import Iterator
from uuid import UUID

from kraft_core.protocol.messages import (
    AllocateProducerIdsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
    DescribeClusterRequest,
    UnregisterBrokerRequest,
)
from tests.interop.answers.controller_requests.case import BROKER_IDS, Case, directory_of, fixed, incarnation_of
from tests.interop.conclave import FEATURES


def registration(
    broker_id: int,
    cluster_id: str,
    *,
    life: int = 0,
    log_dirs: tuple[UUID, ...] | None = None,
    previous: int = -1,
    features: dict[str, tuple[int, int]] | None = None,
    listeners: int = 1,
    rack: str | None = None,
) -> BrokerRegistrationRequest:
    """Return a BrokerRegistration request."""
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_of(broker_id, life),
        listeners=tuple(
            BrokerRegistrationRequestListener(
                name=f"L{number}", host="127.0.0.1", port=9000 + broker_id, security_protocol=0
            )
            for number in range(listeners)
        ),
        features=tuple(
            BrokerRegistrationRequestFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in (FEATURES if features is None else features).items()
        ),
        rack=rack,
        log_dirs=(directory_of(broker_id),) if log_dirs is None else log_dirs,
        previous_broker_epoch=previous,
    )


def heartbeat(
    broker_id: int, epoch: int, *, fence: bool = False, shut_down: bool = False, offset: int = 2**60
) -> BrokerHeartbeatRequest:
    """Return a BrokerHeartbeat request that claims to have read up to `offset`."""
    return BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=epoch,
        current_metadata_offset=offset,
        want_fence=fence,
        want_shut_down=shut_down,
    )


def broker_requests() -> Iterator[Case]:
    """Return registrations and heartbeats: those of the brokers that other requests need, and invalid ones."""
    for broker_id in BROKER_IDS:
        yield Case("register", lambda known, one=broker_id: registration(one, known.cluster_id, rack=f"r{one % 2}"), 4)
        yield Case("behind", lambda known, one=broker_id: heartbeat(one, known.epoch(one), offset=0), 1)
        for version in range(3):
            yield Case("alive", lambda known, one=broker_id: heartbeat(one, known.epoch(one)), version)
    yield fixed("register in another cluster", registration(104, "AAAAAAAAAAAAAAAAAAAAAA"), 4)
    for version in range(5):
        yield Case("register in each version", lambda known: registration(105, known.cluster_id), version)
    wrong: dict[str, dict[str, object]] = {
        "no directory": {"log_dirs": ()},
        "a directory twice": {"log_dirs": (directory_of(104), directory_of(104))},
        "a directory of another broker": {"log_dirs": (directory_of(101),)},
        "a reserved directory": {"log_dirs": (UUID(int=1),)},
        "no features": {"features": {}},
        "too old features": {"features": {"metadata.version": (1, 6)}},
        "too new features": {"features": {"metadata.version": (99, 100)}},
        "no listeners": {"listeners": 0},
        "a wrong previous epoch": {"previous": 12345},
    }
    for name, settings in wrong.items():
        yield Case(
            f"register with {name}",
            lambda known, settings=settings: registration(104, known.cluster_id, **settings),  # type: ignore[arg-type]  # keywords
            4,
        )
    yield Case("register while the old life is there", lambda known: registration(101, known.cluster_id, life=1), 4)
    yield fixed("heartbeat of a stranger", heartbeat(999, 1), 1)
    yield fixed("heartbeat of a broker id below 0", heartbeat(-1, 1), 1)
    yield Case("heartbeat with an old epoch", lambda known: heartbeat(101, known.epoch(101) - 1), 1)
    yield Case("heartbeat with a future epoch", lambda known: heartbeat(101, known.epoch(101) + 1), 1)
    yield fixed("unregister a stranger", UnregisterBrokerRequest(broker_id=999), 0)
    yield fixed("unregister", UnregisterBrokerRequest(broker_id=105), 0)
    yield fixed("unregister again", UnregisterBrokerRequest(broker_id=105), 0)
    yield Case(
        "producer ids", lambda known: AllocateProducerIdsRequest(broker_id=101, broker_epoch=known.epoch(101)), 0
    )
    yield Case(
        "more producer ids", lambda known: AllocateProducerIdsRequest(broker_id=102, broker_epoch=known.epoch(102)), 0
    )
    yield fixed("producer ids of a stranger", AllocateProducerIdsRequest(broker_id=999, broker_epoch=1), 0)
    yield fixed("producer ids with an old epoch", AllocateProducerIdsRequest(broker_id=101, broker_epoch=0), 0)
    for version in (1, 2):
        for kind in range(4):
            yield fixed(f"describe the cluster {kind}", DescribeClusterRequest(endpoint_type=kind), version)
