"""Changes of many partitions at once are the changes that each of them would get alone."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kraft_core.controller.partition_changes import PartitionChanges
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import TOPIC
from kraft_core.protocol.metadata_records import PartitionRecord, TopicRecord
from tests.controller.replication_context import ReplicationContext, directory_of

if TYPE_CHECKING:
    from kraft_core.image.topics_image import PartitionRegistration, TopicImage
    from kraft_core.protocol.metadata_records import MetadataRecord

BROKERS = (0, 1, 2, 3)
FENCED = 3
_IDS = st.lists(st.sampled_from(BROKERS), unique=True, max_size=3).map(tuple)


@st.composite
def _partitions(draw: st.DrawFn, topic_id: UUID) -> list[MetadataRecord]:
    """Partitions in any state that a record can say, with many alike among them."""
    kinds = []
    for _ in range(draw(st.integers(1, 4))):
        replicas = draw(st.permutations(BROKERS).map(lambda ids: tuple(ids[:3])))
        kinds.append(
            PartitionRecord(
                topic_id=topic_id,
                replicas=replicas,
                isr=draw(_IDS),
                leader=draw(st.sampled_from((-1, *replicas))),
                eligible_leader_replicas=draw(_IDS) or None,
                last_known_elr=draw(_IDS)[:1] or None,
                leader_recovery_state=draw(st.integers(0, 1)),
                removing_replicas=draw(st.sampled_from(((), replicas[:1]))),
                directories=tuple(directory_of(replica, draw(st.integers(0, 1))) for replica in replicas),
            )
        )
    count = draw(st.integers(1, 8))
    return [_numbered(draw(st.sampled_from(kinds)), index) for index in range(count)]


def _numbered(record: PartitionRecord, index: int) -> PartitionRecord:
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    return PartitionRecord(**{**fields, "partition_id": index})


@given(data=st.data(), elr=st.booleans(), gone=st.sampled_from(BROKERS))
def test_partitions_change_together_as_each_would_alone(data: st.DataObject, gone: int, *, elr: bool) -> None:
    context = ReplicationContext(BROKERS, elr=elr)
    context.fence(FENCED)
    refs: list[tuple[TopicImage, int, PartitionRegistration]] = []
    for number, configs in enumerate(({}, {"min.insync.replicas": "2"}, {"unclean.leader.election.enable": "true"})):
        topic_id, name = UUID(int=(7 << 64) + number), f"topic-{number}"
        records = [TopicRecord(name=name, topic_id=topic_id), *data.draw(_partitions(topic_id))]
        context.image = replay_all(context.image, records, context.image.offset, 1)  # states without a history
        for key, value in configs.items():
            context.set_config(TOPIC, name, key, value)
    for topic in context.image.topics.by_id.values():
        refs += [(topic, index, partition) for index, partition in topic.sorted_partitions()]
    for wish in ({"remove": gone}, {"add": gone}, {"unclean_shutdown": gone}):
        changes = PartitionChanges(context.configs)
        together = changes.leader_and_isr_updates(context.image, refs, **wish)
        alone = [changes.leader_and_isr_updates(context.image, [ref], **wish) for ref in refs]
        assert together == [record for records in alone for record in records]
