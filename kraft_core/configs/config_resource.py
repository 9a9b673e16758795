"""The types of resources that have configs. Source: org.apache.kafka.common.config.ConfigResource.Type."""

from collections.abc import Mapping
from typing import Final, Protocol

TOPIC: Final = 2
BROKER: Final = 4
"""A broker or controller by node id; the name "" is the default of all brokers."""
BROKER_LOGGER: Final = 8
"""The log levels of one node; they are not in the metadata log."""
CLIENT_METRICS: Final = 16
GROUP: Final = 32


class DynamicConfigs(Protocol):
    """The configs in the metadata log."""

    def of(self, resource_type: int, name: str, /) -> Mapping[str, str]:
        """Return the configs of one resource; empty if it has none."""
