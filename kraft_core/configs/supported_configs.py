"""The configs that an image contains: those that Kafka 4.3.1 defines for the resource type.

The log of an older release may set configs that no longer exist, such as a topic's message.format.version. Replay skips
them, as in Kafka: otherwise they would be part of each snapshot, and the controller, which validates all configs of a
resource together, would reject every further change of the resource. Broker configs are not checked, since plug-ins
define their own. Source: SupportedConfigChecker, DefaultSupportedConfigChecker, Kafka 4.3.1.
"""

from functools import cache
from typing import Final

from kraft_core.configs.config_resource import BROKER
from kraft_core.configs.definitions import config_def, has_definitions

_NONE: Final[frozenset[str]] = frozenset()


@cache
def supported_configs(resource_type: int) -> frozenset[str]:
    """Return the names of a resource type's configs; empty for a type without definitions."""
    return frozenset(config_def(resource_type)) if has_definitions(resource_type) else _NONE


def is_supported_config(resource_type: int, name: str) -> bool:
    """Return whether a config is part of the metadata."""
    return resource_type == BROKER or name in supported_configs(resource_type)
