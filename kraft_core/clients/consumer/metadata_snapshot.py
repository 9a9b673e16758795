"""The partitions that a group's leader divided, so that it sees when they have changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from kraft_core.clients.client_metadata import ClientMetadata


@dataclass(frozen=True, slots=True)
class MetadataSnapshot:
    """For each topic, the racks of each partition's replicas; no racks for a consumer without client.rack.

    Source: ConsumerCoordinator.MetadataSnapshot, Kafka 4.3.1 (KIP-881).
    """

    version: int
    partitions: Mapping[str, tuple[frozenset[str | None], ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, metadata: ClientMetadata, topics: Iterable[str], client_rack: str | None) -> Self:
        """Return what metadata says of the topics now; a topic that is not known has no partitions."""
        found = {}
        for name in topics:
            topic = metadata.topics.get(name)
            partitions = {} if topic is None else topic.partitions
            found[name] = tuple(
                frozenset(node.rack for node in map(metadata.nodes.get, partitions[index].replicas) if node is not None)
                if client_rack is not None
                else frozenset()
                for index in sorted(partitions)
            )
        return cls(metadata.changes, found)
