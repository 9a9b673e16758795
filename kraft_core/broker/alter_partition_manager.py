"""Shrinking the ISR of the partitions that this broker leads, with AlterPartition.

Followers do not copy from our broker in this version, so they never catch up. Kafka's leader shrinks the ISR after
replica.lag.time.max.ms; waiting here would only extend the time in which no write is acknowledged.

Source: Partition.maybeShrinkIsr and AlterPartitionManager, Kafka 4.3.1.
"""

import uuid
from collections.abc import Callable
from typing import Final

from kraft_core.broker.node_to_controller_channel_manager import NodeToControllerChannelManager
from kraft_core.broker.replica_manager import ReplicaManager
from kraft_core.image.metadata_image import RECOVERED
from kraft_core.protocol.messages import (
    AlterPartitionRequest,
    AlterPartitionRequestBrokerState,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)

_TIMEOUT_MS: Final = 30_000


class AlterPartitionManager:
    """Sends AlterPartition for `ReplicaManager.isrs_to_alter` on each call of `shrink_isrs`.

    Failed ones are sent again.
    """

    def __init__(
        self, replicas: ReplicaManager, controller: NodeToControllerChannelManager, broker_epoch: Callable[[], int]
    ) -> None:
        self._replicas = replicas
        self._controller = controller
        self._broker_epoch = broker_epoch

    async def shrink_isrs(self) -> None:
        """Send one AlterPartition for all partitions that need it. The result arrives in the image."""
        partitions = [self._replicas.partitions[key] for key in self._replicas.isrs_to_alter]
        if not partitions:
            return
        epoch = self._broker_epoch()
        me = AlterPartitionRequestBrokerState(broker_id=self._replicas.broker_id, broker_epoch=epoch)
        topics: dict[uuid.UUID, list[AlterPartitionRequestPartitionData]] = {}
        for partition in partitions:
            registration = partition.registration
            topics.setdefault(partition.topic_id, []).append(
                AlterPartitionRequestPartitionData(
                    partition_index=partition.index,
                    leader_epoch=registration.leader_epoch,
                    new_isr_with_epochs=(me,),
                    leader_recovery_state=RECOVERED,
                    partition_epoch=registration.partition_epoch,
                )
            )
        request = AlterPartitionRequest(
            broker_id=self._replicas.broker_id,
            broker_epoch=epoch,
            topics=tuple(
                AlterPartitionRequestTopicData(topic_id=topic_id, partitions=tuple(found))
                for topic_id, found in topics.items()
            ),
        )
        await self._controller.notify(request, _TIMEOUT_MS, failed="isr_not_shrunk")
