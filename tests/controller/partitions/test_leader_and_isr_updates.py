"""Updates of many partitions at once equal the updates of each partition alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kraft_core.configs.config_resource import TOPIC
from kraft_core.controller.brokers.broker_heartbeat_manager import BrokerHeartbeatManager
from kraft_core.controller.partitions.replication_control_manager import ReplicationControlManager
from kraft_core.image.metadata_delta import replay_all
from kraft_core.protocol.metadata_records import PartitionRecord, TopicRecord
from kraft_core.protocol.uuids import DIRECTORY_LOST
from tests.controller.partitions.replication_context import ReplicationContext, directory_of

if TYPE_CHECKING:
    from kraft_core.image.topics_image import PartitionRegistration, TopicImage
    from kraft_core.protocol.metadata_records import MetadataRecord

BROKERS = (0, 1, 2, 3)
FENCED = 3
_IDS = st.lists(st.sampled_from(BROKERS), unique=True, max_size=3).map(tuple)


@st.composite
def _partitions(draw: st.DrawFn, topic_id: UUID) -> list[MetadataRecord]:
    """Draw partitions in states that a record can express; each differs from the first in at most one field."""
    replicas = draw(st.permutations(BROKERS))[:3]
    fields: dict[str, st.SearchStrategy[object]] = {
        "isr": _IDS,
        "leader": st.sampled_from((-1, *replicas)),
        "eligible_leader_replicas": _IDS,
        "last_known_elr": _IDS.map(lambda ids: ids[:1]),
        "leader_recovery_state": st.integers(0, 1),
        "removing_replicas": st.sampled_from(((), tuple(replicas[:1]))),
        "adding_replicas": st.sampled_from(((), tuple(replicas[1:2]))),
        "replicas": st.permutations(replicas).map(tuple),
        "directories": st.tuples(*[st.sampled_from((directory_of(each), DIRECTORY_LOST)) for each in replicas]),
    }
    first = {name: draw(values) for name, values in fields.items()}
    found: list[MetadataRecord] = []
    for index in range(draw(st.integers(2, 8))):
        name = draw(st.sampled_from(sorted(fields)))
        state: dict[str, Any] = {**first, name: draw(fields[name])}
        found.append(PartitionRecord(topic_id=topic_id, partition_id=index, **state))
    return found


@given(data=st.data(), elr=st.booleans(), gone=st.sampled_from(BROKERS))
def test_partitions_change_together_as_each_would_alone(data: st.DataObject, gone: int, *, elr: bool) -> None:
    context = ReplicationContext(BROKERS, elr=elr)
    context.fence(FENCED)
    refs: list[tuple[TopicImage, int, PartitionRegistration]] = []
    for number, configs in enumerate(({}, {"min.insync.replicas": "2"}, {"unclean.leader.election.enable": "true"})):
        topic_id, name = UUID(int=(7 << 64) + number), f"topic-{number}"
        records = [TopicRecord(name=name, topic_id=topic_id), *data.draw(_partitions(topic_id))]
        context.image = replay_all(context.image, records, context.image.offset, 1)  # states without history
        for key, value in configs.items():
            context.set_config(TOPIC, name, key, value)
    for topic in context.image.topics.by_id.values():
        refs += [(topic, index, partition) for index, partition in topic.sorted_partitions()]
    for change in ({"remove": gone}, {"add": gone}, {"unclean_shutdown": gone}):
        updates = ReplicationControlManager(context.configs, BrokerHeartbeatManager(1)).generate_leader_and_isr_updates
        together = updates(context.image, refs, **change)
        alone = [updates(context.image, [ref], **change) for ref in refs]
        assert together == [record for records in alone for record in records]
