"""Elections from outside the ISR, counted from what is committed."""

from kraft_core.image.election_counts import ElectionCounts
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.topics_image import RECOVERED, RECOVERING
from kraft_core.protocol import metadata_records as r
from tests.image.records import partition, topic_id

IMAGE = replay_all(
    MetadataImage.EMPTY,
    [
        r.TopicRecord(name="t", topic_id=topic_id(1)),
        partition(1, 0, isr=(), leader=-1, eligible_leader_replicas=(2,)),
        partition(1, 1),
    ],
    2,
    1,
)


def counted(*records: r.MetadataRecord) -> tuple[int, int]:
    counts = ElectionCounts()
    counts.add(IMAGE, replay_all(IMAGE, list(records), 9, 1), records)
    return counts.unclean, counts.from_elr


def change(index: int, **fields: object) -> r.PartitionChangeRecord:
    id_ = topic_id(1)
    return r.PartitionChangeRecord(topic_id=id_, partition_id=index, **fields)  # type: ignore[arg-type]  # its fields


def test_a_leader_from_the_elr_is_counted() -> None:
    assert counted(change(0, leader=2, isr=(2,), eligible_leader_replicas=())) == (0, 1)
    assert counted(change(0, leader=3, isr=(3,), eligible_leader_replicas=())) == (0, 0)


def test_a_leader_that_may_lack_records_is_counted() -> None:
    assert counted(change(0, leader=3, isr=(3,), leader_recovery_state=RECOVERING)) == (1, 0)
    assert counted(change(0, leader=3, isr=(3,), leader_recovery_state=RECOVERED)) == (0, 0)


def test_changes_without_an_election_are_not_counted() -> None:
    assert counted(change(1, isr=(1, 2)), change(0, leader=-1), change(1, leader=2)) == (0, 0)


def test_a_leader_from_a_new_or_emptied_elr_is_counted_once() -> None:
    """Records that are committed together are reported together."""
    into_elr = change(1, isr=(), leader=-1, eligible_leader_replicas=(1,))
    elected = change(1, isr=(1,), leader=1, eligible_leader_replicas=())
    assert counted(into_elr, elected, elected) == (0, 1)


def test_counts_add_up() -> None:
    counts = ElectionCounts()
    for _ in range(3):
        counts.add(
            IMAGE,
            IMAGE,
            [change(0, leader=2, eligible_leader_replicas=()), change(1, leader_recovery_state=RECOVERING)],
        )
    assert (counts.unclean, counts.from_elr) == (3, 3)


def test_a_new_partition_has_no_elr_to_elect_from() -> None:
    made = [r.TopicRecord(name="u", topic_id=topic_id(2)), partition(2, 0)]
    changed = r.PartitionChangeRecord(topic_id=topic_id(2), partition_id=0, leader=2, eligible_leader_replicas=())
    assert counted(*made, changed) == (0, 0)
