"""The parts of the broker that its request handlers share."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kraft_core.broker.metadata_cache import MetadataCache
from kraft_core.broker.node_to_controller_channel_manager import NodeToControllerChannelManager
from kraft_core.broker.replica_manager import ReplicaManager
from kraft_core.broker.slices import Job, Slices, Work
from kraft_core.protocol.errors import KafkaError
from kraft_core.server.config.kafka_config import KafkaConfig
from kraft_core.server.network.request import Request

if TYPE_CHECKING:
    from kraft_core.broker.auto_topic_creation_manager import AutoTopicCreationManager
    from kraft_core.broker.coordinator.group_coordinator_service import GroupCoordinatorService
    from kraft_core.broker.producer_id_manager import ProducerIdManager

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class BrokerContext:
    """The parts of a running broker that requests need."""

    config: KafkaConfig
    cluster_id: str
    metadata: MetadataCache
    replicas: ReplicaManager
    controller: NodeToControllerChannelManager
    coordinator: "GroupCoordinatorService"
    producer_ids: "ProducerIdManager"
    topic_creation: "AutoTopicCreationManager"
    slices: Slices
    clock_ms: Callable[[], int]
    broker_epoch: Callable[[], int]
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def node_id(self) -> int:
        """This broker's id."""
        return self.config.node_id

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task that is cancelled when the broker stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("background_work_failed", exc_info=task.exception())

    def work(self, request: Request, work: Work[None]) -> None:
        """Run the work that answers a request, at once if it is short, else in slices.

        The connection's next request waits until the work is done.
        """
        job = self.slices.begin(work, request.owner, request.size)
        if job is not None:
            request.hold()
            self.spawn(self._finish(request, job))

    async def _finish(self, request: Request, job: Job[None]) -> None:
        try:
            await self.slices.finish(job)
        except KafkaError as error:
            request.close(f"request cannot be served: {error}")
        except Exception:  # a bug in one handler must not stop the listener; only the connection is closed
            log.exception("request_failed", extra={"api_key": request.header.api_key})
            request.close("request handler failed")

    async def stop(self) -> None:
        """Cancel the running tasks."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
