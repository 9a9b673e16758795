"""The state of a broker, as reports and pages name it."""

from typing import Final

from kraft_core.image.metadata_image import BrokerRegistration

ACTIVE: Final = "ACTIVE"
SHUTTING_DOWN: Final = "SHUTTING_DOWN"
FENCED: Final = "FENCED"
UNREGISTERED: Final = "UNREGISTERED"


def broker_state(broker: BrokerRegistration | None) -> str:
    """Return the state: FENCED overrides SHUTTING_DOWN, and a broker without a registration is UNREGISTERED."""
    if broker is None:
        return UNREGISTERED
    if broker.fenced:
        return FENCED
    return SHUTTING_DOWN if broker.in_controlled_shutdown else ACTIVE
