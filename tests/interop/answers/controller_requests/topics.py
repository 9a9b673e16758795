"""CreateTopics, CreatePartitions and DeleteTopics, valid and invalid."""

from collections.abc import Iterator
from uuid import UUID

from kraft_core.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestCreatePartitionsAssignment,
    CreatePartitionsRequestCreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableReplicaAssignment,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
)
from tests.interop.answers.controller_requests.case import TIMEOUT_MS, UNKNOWN_ID, ZERO_ID, Case, fixed


def topic(
    name: str, *assignments: tuple[int, ...], configs: dict[str, str | None] | None = None, first: int = 0
) -> CreateTopicsRequestCreatableTopic:
    """Return a topic with these replicas."""
    return CreateTopicsRequestCreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=tuple(
            CreateTopicsRequestCreatableReplicaAssignment(partition_index=first + index, broker_ids=brokers)
            for index, brokers in enumerate(assignments)
        ),
        configs=tuple(
            CreateTopicsRequestCreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ),
    )


def counted(name: str, partitions: int, replicas: int) -> CreateTopicsRequestCreatableTopic:
    """Return a topic whose replicas the controller places."""
    return CreateTopicsRequestCreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)


def creation(*topics: CreateTopicsRequestCreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    """Return a CreateTopics request."""
    return CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=validate_only)


WRONG_NAMES = ("", ".", "..", "a" * 250, "sp ace", "sla/sh", "new\nline", "üml", "colon:", "star*")
WRONG_CONFIGS: tuple[dict[str, str | None], ...] = (
    {"no.such.config": "1"},
    {"retention.ms": "soon"},
    {"retention.ms": "-2"},
    {"cleanup.policy": "burn"},
    {"min.insync.replicas": "0"},
    {"compression.type": "rar"},
    {"max.message.bytes": "-1"},
    {"segment.bytes": "1"},
    {"unclean.leader.election.enable": "perhaps"},
    {"message.timestamp.type": "Never"},
    {"retention.ms": None},
    {"min.cleanable.dirty.ratio": "1.5"},
    {"preallocate": "1"},
    {"index.interval.bytes": "9999999999"},
)
WRONG_TOPICS = (
    counted("wrong-partitions-0", 0, 1),
    counted("wrong-partitions--2", -2, 1),
    counted("wrong-replicas-0", 1, 0),
    counted("wrong-replicas--2", 1, -2),
    counted("wrong-replicas-9", 1, 9),
    counted("wrong-replicas-32767", 1, 32767),
    counted("wrong-many", 10_001, 1),
    topic("wrong-first-partition", (101,), first=1),
    topic("wrong-duplicate-replicas", (101, 101)),
    topic("wrong-unknown-broker", (999,)),
    topic("wrong-negative-broker", (-1,)),
    topic("wrong-no-replicas", ()),
    topic("wrong-uneven", (101,), (101, 102)),
)


def placed_requests() -> Iterator[Case]:
    """Return validate-only CreateTopics requests with random placement by the controller."""
    for name, partitions, replicas in (
        ("by default", -1, -1),
        ("some partitions", 5, -1),
        ("some replicas", -1, 1),
        ("as many replicas as brokers", 2, 3),
        ("more replicas than brokers", 2, 4),
        ("many partitions", 9_999, 1),
        ("too many partitions", 10_000, 1),
    ):
        for version in (4, 7):
            request = creation(counted(name.replace(" ", "-"), partitions, replicas), validate_only=True)
            yield fixed(f"validate {name}", request, version)
    yield fixed("validate 10,001 of two", creation(counted("a", 5_000, 1), counted("b", 5_001, 1)), 7)


def topic_requests() -> Iterator[Case]:
    """CreateTopics, CreatePartitions and DeleteTopics."""
    yield from placed_requests()
    for version in range(2, 8):
        yield fixed("create", creation(topic(f"made-{version}", (101, 102), (102, 103))), version)
        yield fixed("create again", creation(topic(f"made-{version}", (101, 102))), version)
        yield fixed("create nothing", creation(), version)
        yield fixed(
            "create with configs", creation(topic(f"set-{version}", (101,), configs={"retention.ms": "5"})), version
        )
        yield fixed("validate", creation(topic(f"only-{version}", (101, 103)), validate_only=True), version)
    for name in WRONG_NAMES:
        yield fixed(f"create {name!r}", creation(counted(name, 1, 1)), 7)
    for configs in WRONG_CONFIGS:
        yield fixed(f"create with {configs}", creation(topic("misconfigured", (101,), configs=configs)), 7)
    for each in WRONG_TOPICS:
        yield fixed(f"create {each.name}", creation(each), 7)
    yield fixed("create one right and one wrong", creation(topic("right-1", (101,)), topic("wrong 1", (101,))), 7)
    yield fixed("create the same name twice", creation(topic("twice", (101,)), topic("twice", (102,))), 7)
    yield fixed("create names that collide", creation(topic("col.lide", (101,)), topic("col_lide", (101,))), 7)
    yield fixed("create a name that collides with one that is there", creation(topic("made_2.x", (101,))), 7)
    yield fixed("create an internal topic", creation(topic("__consumer_offsets", (101,), (102,))), 7)
    yield fixed("create the metadata topic", creation(topic("__cluster_metadata", (101,))), 7)
    both = CreateTopicsRequestCreatableTopic(
        name="both", num_partitions=1, replication_factor=-1, assignments=topic("x", (101,)).assignments
    )
    yield fixed("create with partitions and assignments", creation(both), 7)
    yield from partition_requests()


def more(name: str, count: int, *assignments: tuple[int, ...], validate_only: bool = False) -> CreatePartitionsRequest:
    """Return a CreatePartitions request; without assignments the controller places the replicas."""
    manual = tuple(CreatePartitionsRequestCreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments)
    wanted = CreatePartitionsRequestCreatePartitionsTopic(name=name, count=count, assignments=manual or None)
    return CreatePartitionsRequest(topics=(wanted,), timeout_ms=TIMEOUT_MS, validate_only=validate_only)


def partition_requests() -> Iterator[Case]:
    """CreatePartitions."""
    for version in range(4):
        name = f"made-{version + 2}"
        yield fixed("grow", more(name, 3, (101, 102)), version)
        yield fixed("grow to the same", more(name, 3, (101, 102)), version)
        yield fixed("shrink", more(name, 1), version)
        yield fixed("validate growth", more(name, 5, (101, 103), (103, 101), validate_only=True), version)
    yield fixed("grow an unknown topic", more("unknown", 3), 3)
    yield fixed("grow to 0", more("made-6", 0), 3)
    yield fixed("grow to -1", more("made-6", -1), 3)
    yield fixed("grow with too few assignments", more("made-6", 5, (101, 102)), 3)
    yield fixed("grow with too many assignments", more("made-6", 3, (101, 102), (102, 103)), 3)
    yield fixed("grow with an unknown broker", more("made-6", 3, (101, 999)), 3)
    yield fixed("grow with the wrong number of replicas", more("made-6", 3, (101,)), 3)
    yield fixed("grow with a broker twice", more("made-6", 3, (101, 101)), 3)
    yield fixed("grow nothing", CreatePartitionsRequest(topics=(), timeout_ms=TIMEOUT_MS), 3)
    twice = CreatePartitionsRequestCreatePartitionsTopic(name="made-7", count=4)
    yield fixed("grow the same topic twice", CreatePartitionsRequest(topics=(twice, twice), timeout_ms=TIMEOUT_MS), 3)


def deletion_requests() -> Iterator[Case]:
    """DeleteTopics by name and by id."""
    for version in range(1, 6):
        yield fixed(
            "delete", DeleteTopicsRequest(topic_names=(f"set-{version}", "unknown"), timeout_ms=TIMEOUT_MS), version
        )
        yield fixed("delete nothing", DeleteTopicsRequest(topic_names=(), timeout_ms=TIMEOUT_MS), version)

    def states(*wanted: tuple[str | None, UUID]) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(
            topics=tuple(DeleteTopicsRequestDeleteTopicState(name=name, topic_id=number) for name, number in wanted),
            timeout_ms=TIMEOUT_MS,
        )

    yield fixed("delete by name", states(("set-6", ZERO_ID)), 6)
    yield fixed("delete by name again", states(("set-6", ZERO_ID)), 6)
    yield Case("delete by id", lambda known: states((None, known.topic("set-7"))), 6)
    yield Case("delete by id again", lambda known: states((None, known.topic("set-7"))), 6)
    yield fixed("delete an unknown id", states((None, UNKNOWN_ID)), 6)
    yield fixed("delete neither name nor id", states((None, ZERO_ID)), 6)
    yield Case("delete name and id", lambda known: states(("made-7", known.topic("made-7"))), 6)
    yield fixed("delete the same name twice", states(("made-7", ZERO_ID), ("made-7", ZERO_ID)), 6)
    yield Case(
        "delete the same topic by name and by id",
        lambda known: states(("made-6", ZERO_ID), (None, known.topic("made-6"))),
        6,
    )
    for name in ("", "bad name", "a" * 250, "__cluster_metadata"):
        yield fixed(f"delete {name!r}", states((name, ZERO_ID)), 6)
