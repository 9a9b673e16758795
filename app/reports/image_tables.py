"""The columns of a snapshot's small tables, and the offline replicas of a partition, from a metadata image.

Without pyarrow, which takes 45 MB: the web process needs these for the placement that it shows before the first report,
and the job for the snapshot (`app.reports.export`, which says what each column means).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from app.reports.broker_state import ACTIVE, broker_state
from app.reports.proposals.layout import DirectorySpace, free_bytes
from kraft_core.configs.config_resource import BROKER, TOPIC
from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage, TopicImage
from kraft_core.image.trie_items import values_of

BROKER_COLUMNS: Final = ("broker_idx", "broker_id", "rack", "state", "eligible", "free_bytes")
TOPIC_COLUMNS: Final = ("topic_idx", "topic_id", "name", "min_isr_config", "unclean")
Space = Mapping[int, Mapping[UUID, DirectorySpace]]
"""The space of log directories by broker id and directory id."""


def broker_indexes(image: MetadataImage, topics: list[TopicImage]) -> dict[int, int]:
    """Return the dense index of each broker, registered or only named in an assignment, by id."""
    seen = set(image.cluster.brokers)
    for topic in topics:
        if not topic.brokers <= seen:  # some of them may no longer have a replica
            seen.update(broker for partition in values_of(topic.partitions) for broker in partition.replicas)
    return {broker: index for index, broker in enumerate(sorted(seen))}


def broker_table(
    image: MetadataImage, index_of: Mapping[int, int], space: Space = MappingProxyType({})
) -> dict[str, list[Any]]:
    """Return the columns of `brokers.parquet`. `space` has the known log directories, by broker id."""
    rows: dict[str, list[Any]] = {name: [] for name in BROKER_COLUMNS}
    for broker_id, index in index_of.items():
        broker = image.cluster.brokers.get(broker_id)
        state = broker_state(broker)
        rows["broker_idx"].append(index)
        rows["broker_id"].append(broker_id)
        rows["rack"].append((broker.rack or None) if broker else None)
        rows["state"].append(state)
        rows["eligible"].append(broker is not None and state == ACTIVE and broker.has_uncordoned_dirs())
        rows["free_bytes"].append(free_bytes(broker, space.get(broker_id, {})) if broker else None)
    return rows


def topic_table(image: MetadataImage, topics: list[TopicImage]) -> dict[str, list[Any]]:
    """Return the columns of `topics.parquet`."""
    defaults = image.configs.of(BROKER, "")
    rows: dict[str, list[Any]] = {name: [] for name in TOPIC_COLUMNS}
    for index, topic in enumerate(topics):
        own = image.configs.of(TOPIC, topic.name)

        def effective(key: str, otherwise: str, own: Mapping[str, str] = own) -> str:
            return own.get(key) or defaults.get(key) or otherwise

        rows["topic_idx"].append(index)
        rows["topic_id"].append(str(topic.id))
        rows["name"].append(topic.name)
        rows["min_isr_config"].append(int(effective("min.insync.replicas", "1")))
        rows["unclean"].append(effective("unclean.leader.election.enable", "false") == "true")
    return rows


def is_online(broker: BrokerRegistration | None, directory: UUID | None) -> bool:
    """Return whether a replica in a directory (None: not known) is online: its broker is active and has it online."""
    return broker is not None and broker.active and (directory is None or broker.has_online_dir(directory))


def offline_replicas(
    brokers: Mapping[int, BrokerRegistration], replicas: tuple[int, ...], directories: tuple[UUID, ...]
) -> tuple[int, ...]:
    """Return the replicas on a broker that is not active, or in a directory that is offline or no longer registered."""
    offline = []
    for position, broker_id in enumerate(replicas):
        placed = directories[position] if position < len(directories) else None
        if not is_online(brokers.get(broker_id), placed):
            offline.append(broker_id)
    return tuple(offline)
