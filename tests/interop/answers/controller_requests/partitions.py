"""ISR changes, directory assignments, reassignments and elections, valid and invalid."""

from collections.abc import Iterator

from kraft_core.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestReassignablePartition,
    AlterPartitionReassignmentsRequestReassignableTopic,
    AlterPartitionRequest,
    AlterPartitionRequestBrokerState,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequestListPartitionReassignmentsTopics,
)
from tests.interop.answers.controller_requests.case import TIMEOUT_MS, Case, Known, directory_of, fixed
from tests.interop.answers.controller_requests.topics import creation, topic


def isr_change(known: Known, name: str, isr: tuple[int, ...], **changes: int) -> AlterPartitionRequest:
    """Return an AlterPartition of partition 0 by broker 101; `changes` are its fields."""
    broker_id = changes.get("broker", 101)
    partition = AlterPartitionRequestPartitionData(
        partition_index=changes.get("partition", 0),
        leader_epoch=changes.get("leader_epoch", 0),
        new_isr_with_epochs=tuple(
            AlterPartitionRequestBrokerState(broker_id=each, broker_epoch=changes.get("isr_epoch", known.epoch(each)))
            for each in isr
        ),
        leader_recovery_state=changes.get("recovery", 0),
        partition_epoch=changes.get("partition_epoch", 0),
    )
    return AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=changes.get("epoch", known.epoch(broker_id)),
        topics=(AlterPartitionRequestTopicData(topic_id=known.topic(name), partitions=(partition,)),),
    )


ISR_CHANGES: tuple[tuple[str, str, tuple[int, ...], dict[str, int]], ...] = (
    ("shrink", "isr", (101, 102), {}),
    ("the same epoch again", "isr", (101,), {}),
    ("a future partition epoch", "isr", (101,), {"partition_epoch": 9}),
    ("grow", "isr", (101, 102, 103), {"partition_epoch": 1}),
    ("no change", "isr", (101, 102, 103), {"partition_epoch": 2}),
    ("an old broker epoch in the ISR", "isr", (101, 102), {"partition_epoch": 2, "isr_epoch": 1}),
    ("without the leader", "isr", (102, 103), {"partition_epoch": 2}),
    ("an empty ISR", "isr", (), {"partition_epoch": 2}),
    ("a stranger in the ISR", "isr", (101, 999), {"partition_epoch": 2}),
    ("a duplicate", "isr", (101, 101), {"partition_epoch": 2}),
    ("an old leader epoch", "isr", (101,), {"partition_epoch": 2, "leader_epoch": -1}),
    ("a future leader epoch", "isr", (101,), {"partition_epoch": 2, "leader_epoch": 9}),
    ("a follower asks", "isr", (101, 102), {"partition_epoch": 2, "broker": 102}),
    ("a stranger asks", "isr", (101, 102), {"partition_epoch": 2, "broker": 999}),
    ("an old broker epoch", "isr", (101, 102), {"partition_epoch": 2, "epoch": 0}),
    ("a recovering leader with two in the ISR", "isr", (101, 102), {"partition_epoch": 2, "recovery": 1}),
    ("to recovering", "isr", (101,), {"partition_epoch": 2, "recovery": 1}),
    ("an unknown partition", "isr", (101,), {"partition": 7}),
    ("an unknown topic", "unknown", (101,), {}),
    ("alone", "isr", (101,), {"partition_epoch": 2}),
    ("all again", "isr", (101, 102, 103), {"partition_epoch": 3}),
)


def isr_requests() -> Iterator[Case]:
    """AlterPartition and AssignReplicasToDirs."""
    yield fixed("a topic for ISR changes", creation(topic("isr", (101, 102, 103))), 7)
    for name, topic_name, isr, changes in ISR_CHANGES:
        yield Case(
            f"isr: {name}",
            lambda known, topic_name=topic_name, isr=isr, changes=changes: isr_change(
                known, topic_name, isr, **changes
            ),
            3,
        )
    for name, broker_id, number, topic_name, partition in (
        ("assign", 101, 0, "isr", 0),
        ("assign again", 101, 0, "isr", 0),
        ("assign to an unknown directory", 101, 7, "isr", 0),
        ("assign an unknown partition", 101, 0, "isr", 9),
        ("assign in an unknown topic", 101, 0, "unknown", 0),
        ("assign a partition that the broker has not", 101, 0, "apart", 0),
        ("assign as a stranger", 999, 0, "isr", 0),
    ):
        yield Case(name, lambda known, a=(broker_id, number, topic_name, partition): assignment(known, *a), 0)


def assignment(known: Known, broker_id: int, number: int, name: str, partition: int) -> AssignReplicasToDirsRequest:
    """Return the assignment of one partition to one directory."""
    wanted = AssignReplicasToDirsRequestTopicData(
        topic_id=known.topic(name), partitions=(AssignReplicasToDirsRequestPartitionData(partition_index=partition),)
    )
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=known.epoch(broker_id),
        directories=(AssignReplicasToDirsRequestDirectoryData(id=directory_of(broker_id, number), topics=(wanted,)),),
    )


def reassignment(
    name: str, *wanted: tuple[int, tuple[int, ...] | None], may_resize: bool = True
) -> AlterPartitionReassignmentsRequest:
    """Return an AlterPartitionReassignments request; None cancels."""
    return AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        allow_replication_factor_change=may_resize,
        topics=(
            AlterPartitionReassignmentsRequestReassignableTopic(
                name=name,
                partitions=tuple(
                    AlterPartitionReassignmentsRequestReassignablePartition(partition_index=index, replicas=replicas)
                    for index, replicas in wanted
                ),
            ),
        ),
    )


def listing(*wanted: tuple[str, tuple[int, ...]]) -> ListPartitionReassignmentsRequest:
    """Return a ListPartitionReassignments request; without topics it lists all."""
    return ListPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=tuple(
            ListPartitionReassignmentsRequestListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
            for name, indexes in wanted
        )
        or None,
    )


def reassignment_requests() -> Iterator[Case]:
    """AlterPartitionReassignments, ListPartitionReassignments and ElectLeaders."""
    yield fixed("a topic to move", creation(topic("moved", (101, 102), (102, 103), (103, 101))), 7)
    for name, wanted in (
        ("move", ((0, (102, 103)),)),
        ("move elsewhere while it moves", ((0, (103, 101)),)),
        ("move to where it is", ((1, (102, 103)),)),
        ("reorder", ((2, (101, 103)),)),
        ("move to nobody", ((1, ()),)),
        ("move to a stranger", ((1, (999,)),)),
        ("move to a broker twice", ((1, (101, 101)),)),
        ("move to a negative broker", ((1, (-5,)),)),
        ("move an unknown partition", ((9, (101,)),)),
        ("cancel what does not move", ((1, None),)),
        ("grow by reassignment", ((1, (101, 102, 103)),)),
    ):
        yield fixed(name, reassignment("moved", *wanted), 1)
        yield fixed(f"list after: {name}", listing(), 0)
    yield fixed("grow where that is not allowed", reassignment("moved", (2, (101, 102, 103)), may_resize=False), 1)
    yield fixed("move an unknown topic", reassignment("unknown", (0, (101,))), 0)
    yield fixed("list some", listing(("moved", (0, 1, 2, 9))), 0)
    yield fixed("list an unknown topic", listing(("unknown", (0,))), 0)
    yield fixed("cancel", reassignment("moved", (0, None), (1, None)), 1)
    yield fixed("list after the cancel", listing(), 0)
    for version in range(3):
        for kind in (0, 1, 9) if version else (0,):
            wanted_partitions = (
                ElectLeadersRequestTopicPartitions(topic="moved", partitions=(0, 1, 9)),
                ElectLeadersRequestTopicPartitions(topic="unknown", partitions=(0,)),
            )
            yield fixed(
                f"elect {kind}",
                ElectLeadersRequest(election_type=kind, topic_partitions=wanted_partitions, timeout_ms=TIMEOUT_MS),
                version,
            )
            yield fixed(f"elect {kind} nothing", ElectLeadersRequest(election_type=kind, topic_partitions=()), version)
