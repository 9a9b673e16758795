"""Brokers that shut down, are fenced, return, lose directories and are unregistered, and their partitions."""

from collections.abc import Iterable, Iterator
from uuid import UUID

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    ControllerRegistrationRequestFeature,
    ControllerRegistrationRequestListener,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    UnregisterBrokerRequest,
)
from tests.interop.answers.controller_requests.brokers import heartbeat, registration
from tests.interop.answers.controller_requests.case import (
    BROKER,
    BROKER_IDS,
    SET,
    TIMEOUT_MS,
    TOPIC,
    Case,
    Known,
    directory_of,
    fixed,
    refused_as,
)
from tests.interop.answers.controller_requests.configs import incremental
from tests.interop.answers.controller_requests.partitions import isr_change, reassignment
from tests.interop.answers.controller_requests.topics import creation, more, topic

TOPIC_NAME = "life"
TOPICS = (
    (TOPIC_NAME, (101, 102, 103), (102, 103, 101), (103, 101, 102)),
    ("pair", (102, 103), (103, 102)),
    ("alone", (103,), (102,)),
)


def directories(
    broker_id: int, *, offline: tuple[UUID, ...] = (), cordoned: tuple[UUID, ...] | None = None, version: int = 2
) -> Case:
    """Return a heartbeat with directories."""
    return Case(
        f"directories of {broker_id}: offline {len(offline)}, cordoned {cordoned}",
        lambda known: BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=known.epoch(broker_id),
            current_metadata_offset=2**60,
            offline_log_dirs=offline,
            cordoned_log_dirs=cordoned,
        ),
        version,
    )


def beat(name: str, broker_id: int, *, fence: bool = False, shut_down: bool = False, offset: int = 2**60) -> Case:
    """Return a heartbeat."""
    return Case(
        f"{name} {broker_id}",
        lambda known: heartbeat(broker_id, known.epoch(broker_id), fence=fence, shut_down=shut_down, offset=offset),
        1,
    )


def comes_back(broker_id: int, life: int, *, clean: bool, dirs: int = 1) -> Iterator[Case]:
    """Register a new incarnation and unfence it; with `clean` it sends its previous epoch.

    It is fenced first, so that the end of its session does not interfere, and the other brokers send heartbeats, so
    that the result does not depend on their number.
    """

    def build(known: Known) -> BrokerRegistrationRequest:
        return registration(
            broker_id,
            known.cluster_id,
            life=life,
            previous=known.epoch(broker_id) if clean else -1,
            log_dirs=tuple(directory_of(broker_id, number) for number in range(dirs)),
        )

    others = tuple(beat("alive", each) for each in BROKER_IDS if each != broker_id)
    name = f"register {broker_id} again, life {life}, clean {clean}"
    yield beat("wants to be fenced", broker_id, fence=True)
    yield from others
    yield Case(name, build, 4, not_yet=refused_as(ErrorCode.DUPLICATE_BROKER_REGISTRATION), meanwhile=others)
    yield beat("behind", broker_id, offset=0)
    yield beat("alive", broker_id)


def leave(broker_id: int) -> Iterator[Case]:
    """Return the requests of a controlled shutdown."""
    for _ in range(3):
        yield beat("wants to shut down", broker_id, shut_down=True)


def election(kind: int) -> Case:
    """Return ElectLeaders for all partitions of the topics."""
    wanted = tuple(
        ElectLeadersRequestTopicPartitions(topic=name, partitions=tuple(range(len(partitions))))
        for name, *partitions in TOPICS
    )
    request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=TIMEOUT_MS)
    return fixed(f"elect {kind}", request, 2)


def kept_alive(cases: Iterable[Case], alive: set[int]) -> Iterator[Case]:
    """Return the cases with heartbeats of all living brokers after each, so that only intended sessions end."""
    for case in cases:
        yield case
        request = case.build(Known(""))
        if isinstance(request, BrokerRegistrationRequest | UnregisterBrokerRequest):
            alive.discard(request.broker_id)
        elif isinstance(request, BrokerHeartbeatRequest):
            is_ending = request.want_fence or request.want_shut_down
            if is_ending or not request.current_metadata_offset:
                alive.discard(request.broker_id)
            else:
                alive.add(request.broker_id)
        yield from (beat("alive", each) for each in sorted(alive))


def lifecycle_requests() -> Iterator[Case]:
    """Return the whole lifecycle; at its end broker 103 is unregistered and the others are back."""
    yield from kept_alive(_departures_and_returns(), {*BROKER_IDS})
    yield from kept_alive(directory_requests(), {*BROKER_IDS} - {102})
    yield beat("alive again", 102)  # Apache forgets the content of the heartbeat that unfenced the broker
    yield from kept_alive(_last_departure(), {*BROKER_IDS})
    yield beat("alive after it was unregistered", 103)
    yield from kept_alive(_after_the_last_departure(), {*BROKER_IDS} - {103})


def _departures_and_returns() -> Iterator[Case]:
    for name, *replicas in TOPICS:
        yield fixed("a topic to live through it", creation(topic(name, *replicas)), 7)
    yield fixed("two in sync", incremental(TOPIC, TOPIC_NAME, ("min.insync.replicas", SET, "2")), 1)
    yield from leave(102)
    yield election(0)
    yield from comes_back(102, 1, clean=True)
    yield election(0)
    yield beat("wants to be fenced", 103, fence=True)
    yield beat("wants to be fenced again", 103, fence=True)
    yield Case("a fenced broker in the ISR", lambda known: isr_change(known, TOPIC_NAME, (101, 102, 103)), 3)
    yield fixed("a topic on a fenced broker", creation(topic("on-fenced", (103, 101))), 7)
    yield fixed("a topic on fenced brokers alone", creation(topic("only-fenced", (103,))), 7)
    yield fixed("grow onto a fenced broker", more("on-fenced", 2, (103, 102)), 3)
    yield fixed("grow onto fenced brokers alone", more("on-fenced", 3, (103, 103)), 3)
    yield fixed("move to a fenced broker", reassignment("on-fenced", (0, (101, 103, 102))), 1)
    yield election(0)
    yield election(1)
    yield beat("wants to be fenced", 102, fence=True)
    yield election(1)
    yield fixed("one in sync", incremental(TOPIC, TOPIC_NAME, ("min.insync.replicas", SET, "1")), 1)
    yield fixed("two in sync again", incremental(TOPIC, TOPIC_NAME, ("min.insync.replicas", SET, "2")), 1)
    yield fixed("one in sync everywhere", incremental(BROKER, "", ("min.insync.replicas", SET, "1")), 1)
    yield from comes_back(103, 1, clean=False)
    yield from comes_back(102, 2, clean=False)
    yield election(1)
    yield fixed("unclean allowed", incremental(TOPIC, TOPIC_NAME, ("unclean.leader.election.enable", SET, "true")), 1)
    yield beat("wants to be fenced", 103, fence=True)
    yield beat("wants to be fenced", 102, fence=True)
    yield election(1)
    yield from comes_back(102, 3, clean=True, dirs=2)
    yield from comes_back(103, 2, clean=False, dirs=2)
    yield election(0)


def _last_departure() -> Iterator[Case]:
    yield from leave(103)
    yield fixed("unregister 103", UnregisterBrokerRequest(broker_id=103), 0)


def _after_the_last_departure() -> Iterator[Case]:
    yield fixed("a topic on a broker that is gone", creation(topic("gone", (103, 101))), 7)
    yield from controller_requests()


def directory_requests() -> Iterator[Case]:
    """Return requests with offline and cordoned directories."""
    first, second = directory_of(102), directory_of(102, 1)
    yield directories(102, cordoned=())
    yield directories(102, cordoned=(first,))
    yield fixed("a topic on a broker with a cordoned directory", creation(topic("cordoned", (102, 101))), 7)
    yield directories(102, cordoned=(first, second))
    yield fixed("a topic on a cordoned broker", creation(topic("cordoned-2", (102, 101))), 7)
    yield directories(102, cordoned=(directory_of(102, 9),))
    yield directories(102, cordoned=())
    yield directories(102, offline=(directory_of(102, 9),))
    yield directories(102, offline=(second,))
    yield directories(102, offline=(second,))
    yield directories(102, offline=(first, second))
    yield fixed("a topic on a broker without directories", creation(topic("homeless", (102, 101))), 7)
    yield from comes_back(102, 4, clean=True, dirs=1)


def controller_requests() -> Iterator[Case]:
    """Return ControllerRegistration requests of controllers that are not voters."""

    def controller(
        features: tuple[tuple[str, int, int], ...] = (("metadata.version", 7, 30), ("kraft.version", 0, 1)),
        listeners: tuple[tuple[str, str, int, int], ...] = (("CONTROLLER", "127.0.0.1", 9999, 0),),
    ) -> ControllerRegistrationRequest:
        return ControllerRegistrationRequest(
            controller_id=77,
            incarnation_id=UUID(int=77),
            listeners=tuple(
                ControllerRegistrationRequestListener(name=name, host=host, port=port, security_protocol=protocol)
                for name, host, port, protocol in listeners
            ),
            features=tuple(
                ControllerRegistrationRequestFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, low, high in features
            ),
        )

    yield fixed("a controller", controller(), 0)
    yield fixed("a controller again", controller(), 0)
    yield fixed("a controller without features", controller(features=()), 0)
    yield fixed("a controller without listeners", controller(listeners=()), 0)
    yield fixed("a controller again, as it was", controller(), 0)
