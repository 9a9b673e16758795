"""The clients (Admin, consumers, producers) with which the web process asks the brokers."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from app.cluster.broker_requests import CLIENT_ID, listener_of
from app.texts import phrase
from kraft_core.clients.admin.kafka_admin_client import Admin
from kraft_core.configs.config_def import ConfigDef
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.host_port import host_port
from kraft_core.security.config_providers import PREFIX as PROVIDERS
from kraft_core.security.listener_security import ClientSecurity

TIMEOUT_MS: Final = 8_000
"""For how long an operation of Admin tries again; a dead broker costs the keys that need it this long."""
REQUEST_TIMEOUT_MS: Final = 5_000
CONNECT_TIMEOUT_MS: Final = 2_000
BOOTSTRAP_MAX: Final = 50


class NoBrokerError(ConnectionError):
    """No broker can be asked: none is active, or none has the listener that is needed."""


class BrokerClients:
    """Makes clients of the brokers of the newest image, with the settings that are used for the controllers too.

    `security` and `properties` are those of command_config. Admin is made at first use, and again when none of the
    brokers that it was made with is left.
    """

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        security: ClientSecurity,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._image = image
        self._security = security
        self._properties = properties or {}
        self._admin: Admin | None = None
        self._bootstrap: frozenset[str] = frozenset()
        self._closing: set[asyncio.Task[None]] = set()

    def configs(self, definitions: ConfigDef, from_brokers: Collection[int] = ()) -> dict[str, object]:
        """Return the configs of a client: those properties that `definitions` has, and the brokers.

        Of brokers that are known to answer, `from_brokers`, the client learns of all others. Raises NoBrokerError.
        """
        known = {
            name: text
            for name, text in self._properties.items()
            if name in definitions or name.startswith(f"{PROVIDERS}.")
        }
        return {**known, "bootstrap.servers": self._addresses(from_brokers)}

    def admin(self) -> Admin:
        """Return the Admin client. Raises NoBrokerError."""
        addresses = self._addresses()
        if self._admin is None or self._bootstrap.isdisjoint(addresses):
            self._close()
            self._admin = Admin(
                {
                    "bootstrap.servers": addresses,
                    "client.id": CLIENT_ID,
                    "default.api.timeout.ms": TIMEOUT_MS,
                    "request.timeout.ms": REQUEST_TIMEOUT_MS,
                    "socket.connection.setup.timeout.ms": CONNECT_TIMEOUT_MS,
                    "socket.connection.setup.timeout.max.ms": CONNECT_TIMEOUT_MS,
                },
                security=self._security,
            )
            self._bootstrap = frozenset(addresses)
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

    def _addresses(self, from_brokers: Collection[int] = ()) -> list[str]:
        """Return the addresses of active brokers, at most BOOTSTRAP_MAX. Raises NoBrokerError."""
        brokers = self._image().cluster.brokers
        wanted = from_brokers if any(each in brokers for each in from_brokers) else brokers
        active = [brokers[each] for each in sorted(wanted) if each in brokers and not brokers[each].fenced]
        found = [listener_of(broker, self._security) for broker in active]
        addresses = [host_port(each.host, each.port) for each in found if each is not None]
        if not addresses:
            protocol = self._security.security_protocol
            lacking = phrase(
                "No active broker has a %(protocol)s listener, which command_config asks for.", protocol=protocol
            )
            raise NoBrokerError(lacking if active else phrase("No broker is active."))
        return addresses[:BOOTSTRAP_MAX]
