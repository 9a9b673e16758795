"""Which configs an image holds: those that Kafka 4.3.1 defines for the resource type.

A log that an older release began may set configs that no longer exist, such as a topic's message.format.version. Kafka
skips them in replay, and so must an image: they would come back with each snapshot, and the controller, which
validates all configs of a resource together, would refuse every further change of that resource. Broker configs are not
checked, since plugins add their own. Source: SupportedConfigChecker, DefaultSupportedConfigChecker, Kafka 4.3.1.
"""

from functools import cache
from typing import Final

from kraft_core.configs.config_resource import BROKER
from kraft_core.configs.definitions import config_def, has_definitions

_NONE: Final[frozenset[str]] = frozenset()


@cache
def supported_configs(resource_type: int) -> frozenset[str]:
    """Return the names of the configs of a resource type; none for a type without definitions."""
    return frozenset(config_def(resource_type)) if has_definitions(resource_type) else _NONE


def is_supported_config(resource_type: int, name: str) -> bool:
    """Whether a config is part of the metadata."""
    return resource_type == BROKER or name in supported_configs(resource_type)
