"""Reporting which log directory holds a replica, with AssignReplicasToDirs (KIP-858).

Source: AssignmentsManager, Kafka 4.3.1; docs/protocol.md, "AssignReplicasToDirs".
"""

import uuid
from collections.abc import Callable
from typing import Final

from kraft_core.broker.log.log_directory import LogDirectory
from kraft_core.broker.node_to_controller_channel_manager import NodeToControllerChannelManager
from kraft_core.broker.partition import Partition
from kraft_core.broker.replica_manager import ReplicaManager
from kraft_core.protocol.messages import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)

_TIMEOUT_MS: Final = 60_000
_PARTITIONS_MAX: Final = 2_250  # in one request, as in Kafka

Assignments = dict[uuid.UUID, dict[uuid.UUID, list[int]]]


class AssignmentsManager:
    """Compares, on each call of `assign`, the log directories of replicas in the image with the actual ones."""

    def __init__(
        self, replicas: ReplicaManager, controller: NodeToControllerChannelManager, broker_epoch: Callable[[], int]
    ) -> None:
        self._replicas = replicas
        self._controller = controller
        self._broker_epoch = broker_epoch

    def unassigned(self) -> Assignments:
        """Return the partitions whose directory in the image is wrong, by actual directory id and topic id."""
        found: Assignments = {}
        count = 0
        for partition in self._replicas.partitions.values():
            directory = self._directory_of(partition)
            if directory is None or count == _PARTITIONS_MAX:
                continue
            actual = directory.directory_id
            if partition.registration.directory(self._replicas.broker_id) != actual:
                found.setdefault(actual, {}).setdefault(partition.topic_id, []).append(partition.index)
                count += 1
        return found

    def _directory_of(self, partition: Partition) -> LogDirectory | None:
        """Return the directory of a partition's log.

        A failed one counts too, so that the controller elects another leader.
        """
        logs = self._replicas.logs
        if partition.log is not None:
            return logs.directory_of(partition.log)
        return logs.offline_directory_of(partition.topic, partition.index, partition.topic_id)

    async def assign(self) -> None:
        """Report the differences. The result arrives in the image; failed ones are reported again at the next call."""
        found = self.unassigned()
        if not found:
            return
        request = AssignReplicasToDirsRequest(
            broker_id=self._replicas.broker_id,
            broker_epoch=self._broker_epoch(),
            directories=tuple(
                AssignReplicasToDirsRequestDirectoryData(
                    id=directory_id,
                    topics=tuple(
                        AssignReplicasToDirsRequestTopicData(
                            topic_id=topic_id,
                            partitions=tuple(
                                AssignReplicasToDirsRequestPartitionData(partition_index=index) for index in indexes
                            ),
                        )
                        for topic_id, indexes in topics.items()
                    ),
                )
                for directory_id, topics in found.items()
            ),
        )
        await self._controller.notify(request, _TIMEOUT_MS, failed="directories_not_assigned")
