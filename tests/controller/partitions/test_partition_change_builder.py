"""PartitionChangeBuilder: one partition, its targets, and the exact record. After PartitionChangeBuilderTest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from kraft_core.controller.partitions.partition_change_builder import Election, PartitionChangeBuilder
from kraft_core.image.topics_image import PartitionRegistration
from kraft_core.protocol.uuids import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED

if TYPE_CHECKING:
    from collections.abc import Collection

    from kraft_core.protocol.metadata_records import PartitionChangeRecord

TOPIC_ID = UUID(int=99)
D1, D2, D3, D4 = (UUID(int=1000 + number) for number in range(1, 5))


def partition(**fields: Any) -> PartitionRegistration:
    base: dict[str, Any] = {
        "replicas": (1, 2, 3),
        "directories": (D1, D2, D3),
        "isr": (1, 2, 3),
        "leader": 1,
        "leader_epoch": 50,
        "partition_epoch": 200,
    }
    return PartitionRegistration(**base | fields)


def build(
    registration: PartitionRegistration,
    *,
    live: Collection[int] = (1, 2, 3, 4, 5),
    elr: bool = False,
    min_isr: int = 2,
    version: int = 30,
    election: Election = Election.ONLINE,
    directories: dict[int, UUID] | None = None,
    **targets: Any,
) -> PartitionChangeRecord | None:
    builder = PartitionChangeBuilder(
        registration,
        TOPIC_ID,
        0,
        is_acceptable_leader=lambda broker_id: broker_id in live,
        default_dir=lambda _: DIRECTORY_UNASSIGNED,
        metadata_version=version,
        min_isr=min_isr,
        elr_enabled=elr,
    )
    builder.election = election
    for broker_id, directory in (directories or {}).items():
        builder.set_directory(broker_id, directory)
    for name, value in targets.items():
        setattr(builder, name, value)
    return builder.build()


def changes(registration: PartitionRegistration, **targets: Any) -> dict[str, Any]:
    """Return the changed fields of the record; {} without a record."""
    record = build(registration, **targets)
    if record is None:
        return {}
    fields = {
        "isr": record.isr,
        "elr": record.eligible_leader_replicas,
        "last_known": record.last_known_elr,
        "replicas": record.replicas,
        "adding": record.adding_replicas,
        "removing": record.removing_replicas,
        "directories": record.directories,
    }
    found = {name: value for name, value in fields.items() if value is not None}
    if record.leader != -2:
        found["leader"] = record.leader
    if record.leader_recovery_state != -1:
        found["recovery"] = record.leader_recovery_state
    return found


CASES: list[tuple[str, PartitionRegistration, dict[str, Any], dict[str, Any]]] = [
    ("no target", partition(), {}, {}),
    ("shrink", partition(), {"target_isr": (1, 2)}, {"isr": (1, 2)}),
    ("shrink before 3.6", partition(), {"target_isr": (1, 2), "version": 11}, {"isr": (1, 2), "leader": 1}),
    (
        "grow before 3.6",
        partition(isr=(1, 2)),
        {"target_isr": (1, 2, 3), "version": 11},
        {"isr": (1, 2, 3)},
    ),
    ("leader gone", partition(), {"target_isr": (2, 3), "live": (2, 3)}, {"isr": (2, 3), "leader": 2}),
    (
        "in assignment order",
        partition(replicas=(3, 1, 2)),
        {"live": (1, 2, 3), "target_isr": (2, 3)},
        {"isr": (2, 3), "leader": 3},
    ),
    ("leader kept over the preferred", partition(leader=2), {}, {}),
    ("preferred election", partition(leader=2), {"election": Election.PREFERRED}, {"leader": 1}),
    (
        "preferred not in sync",
        partition(leader=2, isr=(2, 3)),
        {"election": Election.PREFERRED},
        {},
    ),
    (
        "preferred election without the leader either",
        partition(leader=2, isr=(2, 3)),
        {"election": Election.PREFERRED, "live": (3,)},
        {"leader": 3},
    ),
    ("no leader without ELR", partition(isr=(1,)), {"target_isr": (), "live": ()}, {"leader": -1}),
    (
        "unclean",
        partition(isr=(1,)),
        {"target_isr": (), "live": (3,), "election": Election.UNCLEAN},
        {"leader": 3, "isr": (3,), "recovery": 1},
    ),
    (
        "unclean while recovering",
        partition(isr=(1,), leader_recovery_state=1),
        {"target_isr": (), "live": (3,), "election": Election.UNCLEAN},
        {"leader": 3, "isr": (3,)},
    ),
    ("clean preferred to unclean", partition(), {"live": (3,), "election": Election.UNCLEAN}, {"leader": 3}),
    ("recovered", partition(isr=(1,), leader_recovery_state=1), {"target_leader_recovery_state": 0}, {"recovery": 0}),
    # eligible leader replicas
    (
        "into the ELR below the minimum",
        partition(),
        {"elr": True, "min_isr": 3, "target_isr": (1, 2)},
        {"isr": (1, 2), "elr": (3,)},
    ),
    ("no ELR at the minimum", partition(), {"elr": True, "min_isr": 2, "target_isr": (1, 2)}, {"isr": (1, 2)}),
    (
        "ELR emptied at the minimum",
        partition(isr=(1,), elr=(2,)),
        {"elr": True, "target_isr": (1, 3)},
        {"isr": (1, 3), "elr": ()},
    ),
    (
        "ELR shrinks as members join the ISR",
        partition(isr=(1,), elr=(2, 3)),
        {"elr": True, "min_isr": 3, "target_isr": (1, 2)},
        {"isr": (1, 2), "elr": (3,)},
    ),
    (
        "last member leaves with ELR",
        partition(isr=(1,), elr=(2,)),
        {"elr": True, "target_isr": (), "live": ()},
        {"isr": (), "elr": (1, 2), "leader": -1, "last_known": (1,)},
    ),
    (
        "elected from the ELR",
        partition(isr=(), elr=(1, 2), leader=-1, last_known_elr=(1,)),
        {"elr": True, "live": (2,)},
        {"isr": (2,), "elr": (1,), "leader": 2, "last_known": ()},
    ),
    (
        "not from the ELR while the ISR has members",
        partition(isr=(3,), elr=(2,), leader=-1, last_known_elr=(1,)),
        {"elr": True, "live": (2,)},
        {},
    ),
    (
        "unclean shutdown leaves the ELR",
        partition(isr=(1,), elr=(2, 3)),
        {"elr": True, "unclean_shutdown_replicas": (2,)},
        {"elr": (3,)},
    ),
    (
        "unclean shutdown of the leader",
        partition(isr=(1,), elr=()),
        {"elr": True, "unclean_shutdown_replicas": (1,), "target_isr": (), "live": (2, 3)},
        {"isr": (), "leader": -1, "last_known": (1,)},
    ),
    (
        "last known leader",
        partition(isr=(), leader=-1, last_known_elr=(2,)),
        {"elr": True, "live": (1, 2, 3)},
        {"isr": (2,), "leader": 2, "recovery": 1, "last_known": ()},
    ),
    (
        "last known leader not live",
        partition(isr=(), leader=-1, last_known_elr=(2,)),
        {"elr": True, "live": (1, 3)},
        {},
    ),
    (
        "several last known are no leader",
        partition(isr=(), leader=-1, last_known_elr=(2, 3)),
        {"elr": True, "live": (1, 2, 3)},
        {},
    ),
    (
        "unclean election clears the ELR",
        partition(isr=(), elr=(1,), leader=-1, last_known_elr=(1,)),
        {"elr": True, "live": (3,), "election": Election.UNCLEAN},
        {"isr": (3,), "leader": 3, "recovery": 1, "elr": (), "last_known": ()},
    ),
    ("ELR switched off is emptied", partition(elr=(3,), isr=(1, 2)), {}, {"elr": ()}),
    (
        "last known leader stays while there is no leader",
        partition(isr=(), elr=(1,), leader=-1, last_known_elr=(1,)),
        {"elr": True, "live": (), "unclean_shutdown_replicas": (1,)},
        {"elr": ()},
    ),
    # reassignments
    (
        "begin",
        partition(),
        {"target_replicas": (4, 2, 3, 1), "target_adding": (4,), "target_removing": (1,)},
        {"replicas": (4, 2, 3, 1), "adding": (4,), "removing": (1,), "directories": (DIRECTORY_UNASSIGNED, D2, D3, D1)},
    ),
    (
        "complete",
        partition(replicas=(4, 2, 3, 1), directories=(D4, D2, D3, D1), adding_replicas=(4,), removing_replicas=(1,)),
        {"target_isr": (1, 2, 3, 4)},
        {
            "replicas": (4, 2, 3),
            "isr": (2, 3, 4),
            "adding": (),
            "removing": (),
            "leader": 4,
            "directories": (D4, D2, D3),
        },
    ),
    (
        "a dropped replica raises the leader epoch",
        partition(leader=2, removing_replicas=(1,), replicas=(2, 3, 1), directories=(D2, D3, D1)),
        {},
        {"replicas": (2, 3), "isr": (2, 3), "removing": (), "leader": 2, "directories": (D2, D3)},
    ),
    (
        "a disjoint set of replicas",
        partition(
            replicas=(4, 5, 1), directories=(D4, D4, D1), adding_replicas=(4, 5), removing_replicas=(1,), isr=(1,)
        ),
        {"target_isr": (1, 4, 5)},
        {
            "replicas": (4, 5),
            "isr": (4, 5),
            "adding": (),
            "removing": (),
            "leader": 4,
            "directories": (D4, D4),
        },
    ),
    (
        "a dropped replica is not eligible",
        partition(replicas=(1, 2), directories=(D1, D2), isr=(1, 2), removing_replicas=(2,)),
        {"elr": True},
        {"replicas": (1,), "isr": (1,), "removing": (), "leader": 1, "directories": (D1,)},
    ),
    (
        "a dropped last known leader is not elected",
        partition(isr=(), leader=-1, last_known_elr=(9,)),
        {"elr": True, "live": (9,)},
        {},
    ),
    # directories
    ("placed", partition(), {"directories": {2: D4}}, {"directories": (D1, D4, D3)}),
    ("placed where it is", partition(), {"directories": {2: D2}}, {}),
    ("placed before 3.7", partition(), {"directories": {2: D4}, "version": 16}, {}),
    (
        "from an older version",
        partition(directories=(DIRECTORY_MIGRATING,) * 3),
        {"directories": {1: D1}},
        {"directories": (D1, DIRECTORY_MIGRATING, DIRECTORY_MIGRATING)},
    ),
]


@pytest.mark.parametrize(
    ("registration", "targets", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_record_says_exactly_what_changes(
    registration: PartitionRegistration, targets: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert changes(registration, **targets) == expected


def test_the_record_names_its_partition() -> None:
    record = build(partition(), target_isr=(1,))
    assert record is not None
    assert (record.topic_id, record.partition_id) == (TOPIC_ID, 0)
