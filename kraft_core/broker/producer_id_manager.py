"""Producer ids for idempotent producers, from blocks that the controller allocates.

The next block is requested when nine tenths of the current one are used, so that a producer seldom waits.

Source: RPCProducerIdManager, Kafka 4.3.1.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from kraft_core.broker.node_to_controller_channel_manager import NodeToControllerChannelManager
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse

_PREFETCH_AT: Final = 0.9
_TIMEOUT_MS: Final = 5_000


class ProducerIdManager:
    """Returns each id once. `broker_epoch` returns the epoch of the broker's registration."""

    def __init__(
        self, broker_id: int, broker_epoch: Callable[[], int], controller: NodeToControllerChannelManager
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._ids = iter(range(0))
        self._left = 0
        self._size = 0
        self._next: asyncio.Task[range] | None = None
        self._lock = asyncio.Lock()

    async def generate(self) -> int:
        """Return the next id.

        Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS, which clients retry, when the controller allocates no block.
        """
        async with self._lock:
            if self._left == 0:
                block = await self._take_block()
                self._ids, self._left, self._size = iter(block), len(block), len(block)
            producer_id = next(self._ids)
            self._left -= 1
            if self._left <= self._size * (1 - _PREFETCH_AT) and self._next is None:
                self._next = asyncio.create_task(self._allocate())
            return producer_id

    async def _take_block(self) -> range:
        task, self._next = self._next or asyncio.create_task(self._allocate()), None
        try:
            return await task
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"No producer ids: {error.message}") from error

    async def _allocate(self) -> range:
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
        response = await self._controller.request(request, AllocateProducerIdsResponse, _TIMEOUT_MS)
        if response.error_code != ErrorCode.NONE or response.producer_id_len <= 0:
            raise KafkaError(ErrorCode(response.error_code), "The controller gave no block of producer ids.")
        return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)

    def close(self) -> None:
        """Cancel a pending request for the next block."""
        if self._next is not None:
            self._next.cancel()
