"""Clients that write metadata to a quorum continuously and count what was acknowledged."""

import asyncio
import contextlib
import itertools
import threading
from concurrent.futures import Future
from typing import Self

from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.clients.metadata_observer import MetadataObserver
from kraft_core.clients.observed_log import CommittedChange
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.control_records import LeaderChangeMessage
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableReplicaAssignment,
    CreateTopicsRequestCreatableTopic,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from tests.interop import kafka
from tests.interop.conclave import Quorum, RawBroker

CLIENT_METRICS = 16  # ConfigResource.Type
BROKER_ID = 101
TOPIC_PAUSE_S = 0.2
CONFIG_PAUSE_S = 0.1
FAILURES = (AssertionError, ConnectionError, KafkaError, OSError)


class Load:
    """Two writers create topics, two write rising numbers into one config each, and an observer of ours follows.

    It has its own thread and event loop, so that a test can stop and start processes meanwhile.
    """

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._addresses = [("127.0.0.1", port) for port in quorum.ports]
        self.topics: list[str] = []
        self.numbers: dict[str, int] = {}
        self.attempted: dict[str, int] = {}
        self.acknowledged = 0
        self.leaders: dict[int, int] = {}  # by epoch, as the observer reads them in the log
        self.image = MetadataImage.EMPTY
        self.failures: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="load")
        self._ended: Future[None] = Future()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.wait_for(1)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop writing, let the observer catch up, and raise any error of the writers."""
        self._end()
        assert not self._thread.is_alive()
        self._ended.result(0)

    def _end(self) -> None:
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(2 * kafka.PATIENCE_S)

    def wait_for(self, more: int, timeout_s: float = kafka.PATIENCE_S) -> None:
        """Wait until so many more writes are acknowledged, all but four of them sent after this call."""
        wanted = self.acknowledged + more + 4

        def is_reached() -> bool:
            assert self._thread.is_alive(), self._ended.exception(0)
            return self.acknowledged >= wanted

        try:
            kafka.wait_until(is_reached, timeout_s, f"{more} more writes acknowledged", 0.02)
        except AssertionError as error:
            raise AssertionError(
                f"{error}; the last failures: {self.failures[-8:]}\n{self._quorum.outputs()}"
            ) from None

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._write_and_watch()
        except BaseException as error:  # noqa: BLE001 - `stop` raises it
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _write_and_watch(self) -> None:
        observer = MetadataObserver(self._addresses)
        observer.subscribe_log(self._watch, lambda image: None)
        observer.start()
        clients = [ControllerClient(self._addresses, connect_timeout_ms=1_000) for _ in range(5)]
        async with asyncio.TaskGroup() as group:
            beating = group.create_task(self._be_a_broker(clients[0]))
            writers = [group.create_task(self._create_topics(clients[1 + each], each)) for each in range(2)]
            writers += [group.create_task(self._count(clients[3 + each], f"count-{each}")) for each in range(2)]
            await asyncio.gather(*writers)
            beating.cancel()
        for client in clients:
            client.close()
        with contextlib.suppress(TimeoutError):  # `lost_in` reports what is missing
            async with asyncio.timeout(kafka.PATIENCE_S):
                while self.lost_in(observer.image):
                    await asyncio.sleep(0.02)
        self.image = observer.image
        await observer.stop()

    def _watch(self, change: CommittedChange) -> None:
        for _, control in change.control_records:
            if isinstance(control, LeaderChangeMessage):
                self.leaders[change.epoch] = control.leader_id

    async def _be_a_broker(self, client: ControllerClient) -> None:
        """Register and send heartbeats; register again when a controller does not know this broker."""
        while True:
            broker = RawBroker(BROKER_ID, self._quorum.cluster_id, client)
            try:
                await broker.register()
                while True:
                    await asyncio.sleep(0.5)
                    try:
                        await broker.heartbeat()
                    # The registration may still exist, and a new incarnation would wait for the end of its session.
                    except ConnectionError as error:
                        self.failures.append(f"broker: {error!r}")
            except FAILURES as error:
                self.failures.append(f"broker: {error!r}")
                await asyncio.sleep(0.2)

    async def _create_topics(self, client: ControllerClient, writer: int) -> None:
        for number in itertools.count():
            if self._stop.is_set():
                return
            name = f"topic-{writer}-{number}"
            try:
                answer = await client.request(create_topic(name), timeout_ms=10_000)
            except FAILURES as error:
                self.failures.append(f"{name}: {error!r}")
            else:
                code = answer.topics[0].error_code  # type: ignore[attr-defined]  # CreateTopicsResponse
                if code == ErrorCode.NONE:
                    self.topics.append(name)
                    self.acknowledged += 1
                else:
                    self.failures.append(f"{name}: {code}")
            await asyncio.sleep(TOPIC_PAUSE_S)

    async def _count(self, client: ControllerClient, name: str) -> None:
        """Write 100, 101, … into interval.ms of one client-metrics subscription."""
        for number in itertools.count(100):
            if self._stop.is_set():
                return
            self.attempted[name] = number
            try:
                answer = await client.request(set_interval(name, number), timeout_ms=10_000)
            except FAILURES as error:
                self.failures.append(f"{name}: {error!r}")
            else:
                code = answer.responses[0].error_code  # type: ignore[attr-defined]  # IncrementalAlterConfigsResponse
                if code == ErrorCode.NONE:
                    self.numbers[name] = number
                    self.acknowledged += 1
                else:
                    self.failures.append(f"{name}: {code}")
            await asyncio.sleep(CONFIG_PAUSE_S)

    def lost_in(self, image: MetadataImage) -> list[str]:
        """Return what was acknowledged and is missing in an image.

        A number may be one that was sent without a response.
        """
        lost = [name for name in self.topics if name not in image.topics.by_name]
        for name, acknowledged in self.numbers.items():
            found = int(image.configs.of(CLIENT_METRICS, name).get("interval.ms", "-1"))
            if not acknowledged <= found <= self.attempted[name]:
                lost.append(f"{name}: {found} instead of {acknowledged} to {self.attempted[name]}")
        return lost


def create_topic(name: str) -> CreateTopicsRequest:
    """Create one partition on the broker of this load, so that a real broker gets none."""
    assignment = CreateTopicsRequestCreatableReplicaAssignment(partition_index=0, broker_ids=(BROKER_ID,))
    topic = CreateTopicsRequestCreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=(assignment,)
    )
    return CreateTopicsRequest(timeout_ms=10_000, topics=(topic,))


def set_interval(name: str, number: int) -> IncrementalAlterConfigsRequest:
    """Set interval.ms of a client-metrics subscription."""
    config = IncrementalAlterConfigsRequestAlterableConfig(name="interval.ms", config_operation=0, value=str(number))
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=name, configs=(config,)
    )
    return IncrementalAlterConfigsRequest(resources=(resource,))
