"""ControllerRegistrationManager: keeps this controller's registration in the metadata log up to date (KIP-919).

A controller, also the active one, registers once the metadata.version supports it, unless the log already has the
registration of this incarnation. Source: ControllerRegistrationManager, Kafka 4.3.1.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast
from uuid import UUID

from kraft_core.clients.channel_manager import Result
from kraft_core.clients.metadata_source import MetadataSource
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    ControllerRegistrationRequest,
    ControllerRegistrationRequestFeature,
    ControllerRegistrationRequestListener,
    ControllerRegistrationResponse,
)
from kraft_core.protocol.metadata_version import is_controller_registration_supported
from kraft_core.raft.events import FailureReason
from kraft_core.raft.voter_set import Endpoint

log = logging.getLogger(__name__)

RETRY_MS: Final = 100
RETRY_MAX_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Identity:
    """The contents of the registration; security protocols are Kafka's numbers, by listener name."""

    node_id: int
    incarnation_id: UUID
    endpoints: Sequence[Endpoint]
    security_protocols: Mapping[str, int]
    features: Mapping[str, tuple[int, int]]


class SendToActive(Protocol):
    """Sends a request to the active controller, which may be this node."""

    def __call__(self, message: ControllerRegistrationRequest, on_done: Callable[[Result], None]) -> None:
        """`on_done` is called once."""


class ControllerRegistrationManager:
    """Registers whenever the image lacks this incarnation; retries until the image has it."""

    def __init__(self, identity: Identity, source: MetadataSource, send: SendToActive) -> None:
        self._identity = identity
        self._source = source
        self._send = send
        self._pending = False
        self._retry: asyncio.TimerHandle | None = None
        self._failures = 0
        self._unsubscribe = source.subscribe(lambda old, new, records: self._check(new))

    def close(self) -> None:
        """Stop registering."""
        self._unsubscribe()
        self._pending = True
        if self._retry is not None:
            self._retry.cancel()

    def _registered(self, image: MetadataImage) -> bool:
        registration = image.cluster.controllers.get(self._identity.node_id)
        return registration is not None and registration.incarnation_id == self._identity.incarnation_id

    def _check(self, image: MetadataImage) -> None:
        is_supported = is_controller_registration_supported(image.features.metadata_version or 0)
        if is_supported and not self._pending and not self._registered(image):
            self._pending = True
            self._send(self._request(), self._done)

    def _done(self, result: Result) -> None:
        if isinstance(result, FailureReason):
            self._try_later(result.value)
            return
        answer = cast("ControllerRegistrationResponse", result)
        if answer.error_code != ErrorCode.NONE:
            self._try_later(ErrorCode(answer.error_code).name)
            return
        self._pending = False
        self._failures = 0
        log.info("controller_registered", extra={"node_id": self._identity.node_id})

    def _try_later(self, cause: str) -> None:
        delay_ms = min(RETRY_MAX_MS, RETRY_MS << min(self._failures, 10))
        self._failures += 1
        log.info("controller_registration_refused", extra={"cause": cause, "retry_in_ms": delay_ms})
        self._retry = asyncio.get_running_loop().call_later(delay_ms / 1000, self._check_again)

    def _check_again(self) -> None:
        self._pending = False
        self._check(self._source.image)

    def _request(self) -> ControllerRegistrationRequest:
        identity = self._identity
        return ControllerRegistrationRequest(
            controller_id=identity.node_id,
            incarnation_id=identity.incarnation_id,
            zk_migration_ready=False,
            listeners=tuple(
                ControllerRegistrationRequestListener(
                    name=endpoint.name,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=identity.security_protocols.get(endpoint.name, 0),
                )
                for endpoint in identity.endpoints
            ),
            features=tuple(
                ControllerRegistrationRequestFeature(
                    name=name, min_supported_version=lowest, max_supported_version=highest
                )
                for name, (lowest, highest) in sorted(identity.features.items())
            ),
        )
