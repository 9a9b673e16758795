"""Requests with a timeout of 0. Those that respect it are rejected, the others are served."""

from collections.abc import Iterator

from kraft_core.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreatePartitionsRequestCreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ListPartitionReassignmentsRequest,
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeatureUpdateKey,
)
from kraft_core.protocol.wire import Message
from tests.interop.answers.controller_requests.case import Case, fixed
from tests.interop.answers.controller_requests.partitions import reassignment
from tests.interop.answers.controller_requests.topics import topic


def timeout_requests() -> Iterator[Case]:
    """Return each kind of request that has a timeout."""
    grown = CreatePartitionsRequestCreatePartitionsTopic(name="made-5", count=9)
    led = ElectLeadersRequestTopicPartitions(topic="made-5", partitions=(0,))
    feature = UpdateFeaturesRequestFeatureUpdateKey(feature="group.version", max_version_level=1, upgrade_type=1)
    moved = reassignment("made-5", (0, (102, 101)))
    for timeout_ms in (0, -1, -(2**31)):
        requests: tuple[tuple[Message, int], ...] = (
            (CreateTopicsRequest(topics=(topic("late", (101,)),), timeout_ms=timeout_ms), 7),
            (DeleteTopicsRequest(topic_names=("made-5",), timeout_ms=timeout_ms), 5),
            (CreatePartitionsRequest(topics=(grown,), timeout_ms=timeout_ms), 3),
            (ElectLeadersRequest(topic_partitions=(led,), timeout_ms=timeout_ms), 2),
            (AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=moved.topics), 1),
            (ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=None), 0),
            (UpdateFeaturesRequest(timeout_ms=timeout_ms, feature_updates=(feature,)), 2),
        )
        for request, version in requests:
            yield fixed(f"{type(request).__name__} within {timeout_ms} ms", request, version)
        nothing: tuple[tuple[Message, int], ...] = (
            (CreateTopicsRequest(topics=(), timeout_ms=timeout_ms), 7),
            (DeleteTopicsRequest(topic_names=(), timeout_ms=timeout_ms), 5),
            (CreatePartitionsRequest(topics=(), timeout_ms=timeout_ms), 3),
            (ElectLeadersRequest(topic_partitions=(), timeout_ms=timeout_ms), 2),
            (AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=()), 1),
            (ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=()), 0),
        )
        for request, version in nothing:
            yield fixed(f"{type(request).__name__} for nothing within {timeout_ms} ms", request, version)
