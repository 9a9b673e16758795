"""Takes the other replicas out of the ISR of every partition we lead, with AlterPartition, as soon as we lead it.

Other replicas have no copy of our log in this version, so each of them is a follower that will never catch up. Kafka's leader waits
replica.lag.time.max.ms for a follower to do so; waiting here would only prolong the time in which nothing is acknowledged.

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
    """Sends what `ReplicaManager.isrs_to_alter` holds, each time `shrink` is called; what fails is sent again at the next call."""

    def __init__(
        self, replicas: ReplicaManager, controller: NodeToControllerChannelManager, broker_epoch: Callable[[], int]
    ) -> None:
        self._replicas = replicas
        self._controller = controller
        self._broker_epoch = broker_epoch

    async def shrink_isrs(self) -> None:
        """Send one AlterPartition for all such partitions; the image brings the outcome."""
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
        await self._controller.tell(request, _TIMEOUT_MS, failed="isr_not_shrunk")
