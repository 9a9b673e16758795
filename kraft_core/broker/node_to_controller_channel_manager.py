"""Requests to the active controller.

The broker has one channel for heartbeats and one for everything else, so that a slow request delays no heartbeat.

Source: NodeToControllerChannelManager, Kafka 4.3.1; docs/protocol.md, "Connections of a broker".
"""

import logging
from collections.abc import Sequence
from typing import TypeVar

from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.clients.metadata_source import MetadataSource
from kraft_core.protocol.api_keys import response_class
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.wire import Message
from kraft_core.security.listener_security import ClientSecurity

log = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=Message)


class NodeToControllerChannelManager:
    """One connection that follows the active controller."""

    def __init__(
        self,
        source: MetadataSource,
        bootstrap: Sequence[tuple[str, int]],
        node_id: int,
        cluster_id: str,
        security: ClientSecurity,
    ) -> None:
        self._source = source
        self._client = ControllerClient(
            bootstrap, client_id=str(node_id), cluster_id=cluster_id, leader_hint=source.leader, security=security
        )

    @property
    def knows_leader(self) -> bool:
        """Whether this process knows an active controller."""
        return self._source.leader() is not None

    async def request(
        self, request: Message, answer: type[ResponseT], timeout_ms: int, *, idempotent: bool = False
    ) -> ResponseT:
        """Send a request and return its response, with whatever error code it carries.

        Raises KafkaError REQUEST_TIMED_OUT when no active controller answers in time.
        """
        try:
            response = await self._client.request(request, timeout_ms, idempotent=idempotent)
        except ConnectionError as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"The controller did not answer: {error}") from error
        assert isinstance(response, answer), f"{type(request).__name__} was answered with {type(response).__name__}"
        return response

    async def notify(self, request: Message, timeout_ms: int, *, failed: str) -> None:
        """Send a request whose result arrives in the image.

        A failure is logged as event `failed`; the caller retries later.
        """
        extra: dict[str, object]
        try:
            response = await self.request(request, response_class(request.API_KEY), timeout_ms)
            error = ErrorCode(response.error_code)  # type: ignore[attr-defined] # every response passed here has one
            extra = {"error": error.name}
        except KafkaError as cause:
            error, extra = cause.code, {"error": cause.code.name, "cause": cause.message}
        if error is not ErrorCode.NONE:
            log.info(failed, extra=extra)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
