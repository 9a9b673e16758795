"""The Admin client of the web process for what only brokers know: groups, offsets, transactions, producers."""

import asyncio
from collections.abc import Callable
from typing import Final

from app.cluster.broker_requests import CLIENT_ID, listener_of
from kraft_core.clients.admin.kafka_admin_client import Admin
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.security.listener_security import ClientSecurity

TIMEOUT_MS: Final = 8_000
"""For how long an operation tries again; a dead broker costs the keys that need it this long."""
REQUEST_TIMEOUT_MS: Final = 5_000
CONNECT_TIMEOUT_MS: Final = 2_000
BOOTSTRAP_MAX: Final = 50


class BrokerClient:
    """One Admin client, made at first use with the brokers of the image, and again when none of them is left."""

    def __init__(self, image: Callable[[], MetadataImage], security: ClientSecurity) -> None:
        self._image = image
        self._security = security
        self._admin: Admin | None = None
        self._bootstrap: frozenset[str] = frozenset()
        self._closing: set[asyncio.Task[None]] = set()

    def get(self) -> Admin:
        """Return the client. Raises KafkaError BROKER_NOT_AVAILABLE if no active broker has a usable listener."""
        addresses = self._addresses()
        if self._admin is None or self._bootstrap.isdisjoint(addresses):
            if not addresses:
                raise KafkaError(
                    ErrorCode.BROKER_NOT_AVAILABLE,
                    f"No active broker has a {self._security.security_protocol} listener.",
                )
            self._close()
            self._admin = Admin(
                {
                    "bootstrap.servers": addresses[:BOOTSTRAP_MAX],
                    "client.id": CLIENT_ID,
                    "default.api.timeout.ms": TIMEOUT_MS,
                    "request.timeout.ms": REQUEST_TIMEOUT_MS,
                    "socket.connection.setup.timeout.ms": CONNECT_TIMEOUT_MS,
                    "socket.connection.setup.timeout.max.ms": CONNECT_TIMEOUT_MS,
                },
                security=self._security,
            )
            self._bootstrap = frozenset(addresses[:BOOTSTRAP_MAX])
        return self._admin

    async def stop(self) -> None:
        """Close the connections; running operations fail."""
        self._close()
        await asyncio.gather(*self._closing)

    def _close(self) -> None:
        if self._admin is not None:
            task = asyncio.create_task(self._admin.close(), name="close-admin")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
            self._admin = None

    def _addresses(self) -> list[str]:
        brokers = self._image().cluster.brokers
        active = [brokers[broker_id] for broker_id in sorted(brokers) if not brokers[broker_id].fenced]
        found = [listener_of(broker, self._security) for broker in active]
        return [
            f"[{each.host}]:{each.port}" if ":" in each.host else f"{each.host}:{each.port}" for each in found if each
        ]
