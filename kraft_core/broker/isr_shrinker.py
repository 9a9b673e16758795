"""Followers that do not fetch leave the in-sync replicas: after replica.lag.time.max.ms the leader says so with AlterPartition.

In this version our brokers do not copy from each other, so every other member of an ISR that we lead is such a follower; without this an RF > 1
partition would stay unwritable for acks=all.

Source: Partition.maybeShrinkIsr and AlterPartitionManager, Kafka 4.3.1.
"""

import uuid
from collections.abc import Callable
from typing import Final

from kraft_core.broker.controller_channel import ControllerChannel
from kraft_core.broker.replica_manager import Partition, ReplicaManager
from kraft_core.image.metadata_image import RECOVERED
from kraft_core.protocol.messages import (
    AlterPartitionRequest,
    AlterPartitionRequestBrokerState,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)

_TIMEOUT_MS: Final = 30_000


class IsrShrinker:
    """Finds partitions to shrink, each time `shrink` is called: the broker does so every half of `lag_time_max_ms`."""

    def __init__(
        self,
        replicas: ReplicaManager,
        controller: ControllerChannel,
        broker_epoch: Callable[[], int],
        lag_time_max_ms: int,
        clock_ms: Callable[[], int],
    ) -> None:
        self._replicas = replicas
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._lag_time_max_ms = lag_time_max_ms
        self._clock_ms = clock_ms

    def lagging(self) -> list[Partition]:
        """Partitions we have led long enough, whose ISR names others; also those to be declared recovered after an unclean election."""
        me = self._replicas.broker_id
        oldest_ms = self._clock_ms() - self._lag_time_max_ms
        return [
            partition
            for partition in self._replicas.partitions.values()
            if partition.log is not None
            and (
                (partition.registration.isr != (me,) and partition.leader_since_ms <= oldest_ms)
                or partition.registration.leader_recovery_state != RECOVERED
            )
        ]

    async def shrink(self) -> None:
        """Send one AlterPartition for all lagging partitions; the image brings the outcome."""
        partitions = self.lagging()
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
