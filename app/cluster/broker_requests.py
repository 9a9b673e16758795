"""Requests to single brokers: the listener that the web process can use, and one request on a connection of its own."""

from typing import Final

from kraft_core.clients.kafka_client import KafkaConnection
from kraft_core.image.metadata_image import BrokerRegistration, Endpoint
from kraft_core.protocol.security_protocol import SecurityProtocol
from kraft_core.protocol.wire import Message
from kraft_core.security.listener_security import ClientSecurity

TIMEOUT_MS: Final = 5_000
CLIENT_ID: Final = "conclave-admin"


class NoListenerError(ConnectionError):
    """A broker has no listener with the security protocol of this process."""


def listener_of(broker: BrokerRegistration, security: ClientSecurity) -> Endpoint | None:
    """Return the broker's first listener with the security protocol of the settings, None without one."""
    wanted = SecurityProtocol[security.security_protocol]
    return next((at for at in broker.listeners if at.security_protocol == wanted), None)


class BrokerRequests:
    """Sends requests to brokers, with the security settings that are used for the controllers too (`command_config`).

    A broker's first listener with that security protocol is used. A dead broker costs its own request only.
    """

    def __init__(self, security: ClientSecurity) -> None:
        self._security = security

    def endpoint(self, broker: BrokerRegistration) -> Endpoint:
        """Return the listener of a broker that this process uses. Raises NoListenerError."""
        protocol = self._security.security_protocol
        endpoint = listener_of(broker, self._security)
        if endpoint is None:
            raise NoListenerError(f"Broker {broker.id} has no {protocol} listener, which command_config asks for.")
        return endpoint

    async def send(self, broker: BrokerRegistration, request: Message) -> Message:
        """Return the answer to one request.

        Raises NoListenerError; ConnectionLost, RequestTimedOut and LoginFailed, which are ConnectionErrors; KafkaError
        if the broker has no version of this request.
        """
        endpoint = self.endpoint(broker)
        connection = await KafkaConnection.open(
            endpoint.host, endpoint.port, CLIENT_ID, TIMEOUT_MS, security=self._security
        )
        try:
            return await connection.request(request, TIMEOUT_MS)
        finally:
            connection.close()
