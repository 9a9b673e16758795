"""Completion and cancellation of reassignments. After PartitionReassignmentReplicasTest and …RevertTest."""

from __future__ import annotations

import pytest

from kraft_core.controller.partitions.partition_reassignment_replicas import (
    CompletedReassignment,
    PartitionReassignmentReplicas,
    PartitionReassignmentRevert,
)
from kraft_core.image.topics_image import PartitionRegistration
from kraft_core.protocol.errors import ErrorCode, KafkaError

Ids = tuple[int, ...]


def partition(replicas: Ids, adding: Ids = (), removing: Ids = ()) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=replicas,
        isr=replicas,
        leader=replicas[0],
        adding_replicas=adding,
        removing_replicas=removing,
    )


@pytest.mark.parametrize(
    ("target", "removing", "adding"),
    [
        # 3 is an adding replica and remains one
        ((3, 1), (2,), (3,)),
        # an adding replica that is not in the new target is removed
        ((4, 2), (1, 3), (4,)),
        # a return to the original replicas adds nothing
        ((1, 2), (3,), ()),
    ],
)
def test_a_new_target_during_a_reassignment_keeps_the_original_replicas_apart(
    target: Ids, removing: Ids, adding: Ids
) -> None:
    running = partition((2, 3, 1), adding=(3,), removing=(1,))
    assert PartitionReassignmentReplicas.to(running, target) == PartitionReassignmentReplicas(
        removing, adding, (*target, *removing)
    )


@pytest.mark.parametrize(
    ("current", "target", "removing", "adding", "replicas"),
    [
        ((3, 2, 1), (3, 2, 1), (), (), (3, 2, 1)),
        ((3, 2, 1), (1, 2, 3), (), (), (1, 2, 3)),
        ((3, 2, 1), (3, 1), (2,), (), (3, 1, 2)),
        ((3, 2, 1), (3, 5, 1, 4), (2,), (4, 5), (3, 5, 1, 4, 2)),
        ((1, 2, 3), (4, 5, 6), (1, 2, 3), (4, 5, 6), (4, 5, 6, 1, 2, 3)),
    ],
)
def test_replicas_are_the_target_followed_by_those_to_remove(
    current: Ids, target: Ids, removing: Ids, adding: Ids, replicas: Ids
) -> None:
    plan = PartitionReassignmentReplicas.to(partition(current), target)
    assert plan == PartitionReassignmentReplicas(removing, adding, replicas)
    assert plan.is_in_progress == bool(removing or adding)


@pytest.mark.parametrize(
    ("removing", "adding", "replicas", "isr", "done"),
    [
        # nothing to change
        ((), (), (1, 2), (1, 2), None),
        # all adding replicas in sync
        ((), (3,), (1, 2, 3), (1, 2, 3), ((1, 2, 3), (1, 2, 3))),
        ((), (3,), (1, 2, 3), (1, 2), None),
        ((1,), (4,), (4, 2, 3, 1), (1, 2, 4), ((4, 2, 3), (2, 4))),
        # no replica would be left in sync
        ((1, 2), (), (3, 1, 2), (1, 2), None),
        # an equal factor does not wait for the other replicas
        ((1,), (4,), (2, 3, 4, 1), (4,), ((2, 3, 4), (4,))),
        # a smaller factor waits for all remaining replicas
        ((1, 2), (5,), (3, 4, 5, 1, 2), (1, 2, 5), None),
        ((1, 2), (5,), (3, 4, 5, 1, 2), (3, 4, 5), ((3, 4, 5), (3, 4, 5))),
        ((2,), (), (1, 3, 2), (1, 2), None),
        ((2,), (), (1, 3, 2), (1, 3), ((1, 3), (1, 3))),
    ],
)
def test_a_reassignment_completes_when_its_isr_is_safe(
    removing: Ids, adding: Ids, replicas: Ids, isr: Ids, done: tuple[Ids, Ids] | None
) -> None:
    plan = PartitionReassignmentReplicas(removing, adding, replicas)
    expected = None if done is None else CompletedReassignment(*done)
    assert plan.maybe_complete(isr) == expected


@pytest.mark.parametrize(
    ("isr", "back", "back_isr", "unclean"),
    [
        ((3, 2), (3, 2, 1), (3, 2), False),
        ((4, 5, 2), (3, 2, 1), (2,), False),
        ((4, 5), (3, 2, 1), (3,), True),
    ],
)
def test_a_cancellation_removes_the_adding_replicas(isr: Ids, back: Ids, back_isr: Ids, unclean: bool) -> None:
    partition = PartitionRegistration(replicas=(3, 2, 1, 4, 5), isr=isr, leader=isr[0], adding_replicas=(4, 5))
    revert = PartitionReassignmentRevert.of(partition)
    assert (revert.replicas, revert.isr, revert.is_unclean) == (back, back_isr, unclean)


def test_a_reassignment_without_original_replicas_cannot_be_cancelled() -> None:
    partition = PartitionRegistration(replicas=(4, 5), isr=(4,), leader=4, adding_replicas=(4, 5))
    with pytest.raises(KafkaError) as raised:
        PartitionReassignmentRevert.of(partition)
    assert raised.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
