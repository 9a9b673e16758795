"""When a controller registers, and that it retries."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import msgspec

from kraft_core.clients.channel_manager import Result
from kraft_core.clients.metadata_source import LeaderEndpoint, MetadataListener
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import ControllerRegistrationRequest, ControllerRegistrationResponse
from kraft_core.protocol.metadata_records import FeatureLevelRecord, RegisterControllerRecord
from kraft_core.raft.events import FailureReason
from kraft_core.raft.voter_set import Endpoint
from kraft_core.server.controller_registration import ControllerRegistrationManager, Identity
from tests.interop.kafka import PATIENCE_S

INCARNATION, OTHER = UUID(int=77), UUID(int=78)


class Source:
    """A MetadataSource whose image the test changes."""

    def __init__(self) -> None:
        self.image = MetadataImage.EMPTY
        self.high_watermark = -1
        self._listeners: list[MetadataListener] = []

    def leader(self) -> LeaderEndpoint | None:
        return None

    def subscribe(self, listener: MetadataListener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def move(self, *records: object) -> None:
        old, self.image = self.image, replay_all(self.image, records, self.image.offset + len(records), 1)
        for listener in self._listeners:
            listener(old, self.image, records)


def level(version: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name="metadata.version", feature_level=version)


def registered(incarnation_id: UUID) -> RegisterControllerRecord:
    return RegisterControllerRecord(controller_id=3, incarnation_id=incarnation_id)


def scenario(
    play: Callable[[Source, list[ControllerRegistrationRequest], list[Callable[[Result], None]]], object],
) -> None:
    async def run() -> None:
        source, sent, ends = Source(), [], []

        def send(message: ControllerRegistrationRequest, on_done: Callable[[Result], None]) -> None:
            sent.append(message)
            ends.append(on_done)

        identity = Identity(
            3, INCARNATION, (Endpoint("CONTROLLER", "host", 9093),), {"CONTROLLER": 0}, {"metadata.version": (7, 30)}
        )
        manager = ControllerRegistrationManager(identity, source, send)
        outcome = play(source, sent, ends)
        if asyncio.iscoroutine(outcome):
            await asyncio.wait_for(outcome, PATIENCE_S)
        manager.close()
        source.move(registered(OTHER))
        assert all(request.controller_id == 3 for request in sent)

    asyncio.run(run())


def test_a_controller_registers_once_the_metadata_version_supports_it() -> None:
    def play(source: Source, sent: list[ControllerRegistrationRequest], ends: list[Callable[[Result], None]]) -> None:
        source.move(level(14))
        assert sent == []
        source.move(level(15))
        source.move(level(16))
        assert len(sent) == 1
        request = sent[0]
        assert request.incarnation_id == INCARNATION
        assert [(each.name, each.host, each.port) for each in request.listeners] == [("CONTROLLER", "host", 9093)]
        assert [(each.name, each.max_supported_version) for each in request.features] == [("metadata.version", 30)]

    scenario(play)


def test_a_controller_registers_again_only_if_the_log_has_another_incarnation() -> None:
    def play(source: Source, sent: list[ControllerRegistrationRequest], ends: list[Callable[[Result], None]]) -> None:
        source.move(level(30), registered(INCARNATION))
        assert sent == []
        source.move(registered(OTHER))
        assert len(sent) == 1
        ends.pop()(ControllerRegistrationResponse())
        source.move(registered(INCARNATION))
        source.move(level(30))
        assert len(sent) == 1

    scenario(play)


def test_a_registration_is_retried_after_a_failure_and_after_an_error() -> None:
    async def play(
        source: Source, sent: list[ControllerRegistrationRequest], ends: list[Callable[[Result], None]]
    ) -> None:
        source.move(level(30))
        failures: list[Result] = [
            FailureReason.DISCONNECTED,
            ControllerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER),
        ]
        for count, failure in enumerate(failures, start=1):
            assert len(sent) == count
            ends.pop()(failure)
            while len(sent) == count:
                await asyncio.sleep(0.01)
        assert msgspec.structs.asdict(sent[0]) == msgspec.structs.asdict(sent[-1])

    scenario(play)
