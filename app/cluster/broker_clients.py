"""Configs of the clients (producer, consumer, Admin) with which the web process talks to the brokers."""

from collections.abc import Callable, Mapping

from app.cluster.broker_requests import BrokerRequests, NoListenerError
from kraft_core.configs.config_def import ConfigDef
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.security.config_providers import PREFIX as PROVIDERS


class NoBrokerError(ConnectionError):
    """No broker can be asked: none is active, or none has the listener that is needed."""


class BrokerClients:
    """Makes the configs of clients from `properties`, those of command_config, and the brokers of the newest image."""

    def __init__(
        self, properties: Mapping[str, str], requests: BrokerRequests, image: Callable[[], MetadataImage]
    ) -> None:
        self._properties = properties
        self._requests = requests
        self._image = image

    def configs(self, definitions: ConfigDef) -> dict[str, object]:
        """Return those properties that `definitions` has, and the active brokers as bootstrap.servers.

        Raises NoBrokerError.
        """
        known = {
            name: text
            for name, text in self._properties.items()
            if name in definitions or name.startswith(f"{PROVIDERS}.")
        }
        return {**known, "bootstrap.servers": ",".join(self._addresses())}

    def _addresses(self) -> list[str]:
        brokers = [broker for broker in self._image().cluster.brokers.values() if not broker.fenced]
        found: list[str] = []
        error: NoListenerError | None = None
        for broker in brokers:
            try:
                at = self._requests.endpoint(broker)
            except NoListenerError as missing:
                error = missing
            else:
                found.append(f"[{at.host}]:{at.port}" if ":" in at.host else f"{at.host}:{at.port}")
        if not found:
            raise NoBrokerError(str(error) if error else "No broker is active.")
        return found
