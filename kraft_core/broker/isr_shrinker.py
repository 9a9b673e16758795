"""Followers that do not fetch leave the in-sync replicas: after replica.lag.time.max.ms the leader says so with AlterPartition.

In this version our brokers do not copy from each other, so every other member of an ISR that we lead is such a follower; without this an RF > 1
partition would stay unwritable for acks=all.

Source: Partition.maybeShrinkIsr and AlterPartitionManager, Kafka 4.3.1.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from kraft_core.broker.controller_channel import ControllerChannel
from kraft_core.broker.replica_manager import Partition, ReplicaManager
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AlterPartitionRequest,
    AlterPartitionRequestBrokerState,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
)

log = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 30_000
_RECOVERED: Final = 0


class IsrShrinker:
    """Looks every half of `lag_time_max_ms` for partitions to shrink; one request at a time."""

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
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._lag_time_max_ms / 2000)
            await self.shrink()

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
                or partition.registration.leader_recovery_state != _RECOVERED
            )
        ]

    async def shrink(self) -> None:
        """Send one AlterPartition for all lagging partitions; the image brings the outcome."""
        partitions = self.lagging()
        if not partitions:
            return
        epoch = self._broker_epoch()
        me = AlterPartitionRequestBrokerState(broker_id=self._replicas.broker_id, broker_epoch=epoch)
        topics: dict[object, list[AlterPartitionRequestPartitionData]] = {}
        for partition in partitions:
            registration = partition.registration
            topics.setdefault(partition.topic_id, []).append(
                AlterPartitionRequestPartitionData(
                    partition_index=partition.index,
                    leader_epoch=registration.leader_epoch,
                    new_isr_with_epochs=(me,),
                    leader_recovery_state=_RECOVERED,
                    partition_epoch=registration.partition_epoch,
                )
            )
        request = AlterPartitionRequest(
            broker_id=self._replicas.broker_id,
            broker_epoch=epoch,
            topics=tuple(
                AlterPartitionRequestTopicData(topic_id=topic_id, partitions=tuple(found))  # type: ignore[arg-type]  # the keys are topic ids
                for topic_id, found in topics.items()
            ),
        )
        try:
            response = await self._controller.ask(request, AlterPartitionResponse, _TIMEOUT_MS)
        except KafkaError as error:
            log.info("isr_not_shrunk", extra={"reason": error.message})
            return
        if response.error_code != ErrorCode.NONE:
            log.info("isr_not_shrunk", extra={"error": response.error_code})
