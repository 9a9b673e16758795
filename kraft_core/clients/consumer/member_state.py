"""The states of a member of a consumer group (KIP-848).

    UNSUBSCRIBED ──> JOINING ──> STABLE <──────────┐
                        └──> RECONCILING ──> ACKNOWLEDGING     the target assignment differs; the change is done

FENCED: the coordinator refused the epoch; the member gives its partitions up and joins again. STALE: it left, since
the application did not poll in time, and joins again at the next poll. PREPARE_LEAVING, LEAVING: callbacks, then the
last heartbeat. FATAL: nothing more is sent. Source: MemberState of Kafka 4.3.1.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class MemberState(Enum):
    """Where a member is between joining and leaving."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"
    PREPARE_LEAVING = "preparing to leave"
    LEAVING = "leaving"
    FATAL = "fatal"
    STALE = "stale"


_ACTIVE: Final = (MemberState.JOINING, MemberState.RECONCILING, MemberState.ACKNOWLEDGING, MemberState.STABLE)
_OUT: Final = frozenset({MemberState.FENCED, MemberState.PREPARE_LEAVING, MemberState.FATAL})

NEXT: Final[Mapping[MemberState, frozenset[MemberState]]] = {
    MemberState.UNSUBSCRIBED: frozenset({MemberState.JOINING}),
    MemberState.JOINING: _OUT | {MemberState.STABLE, MemberState.RECONCILING},
    MemberState.RECONCILING: _OUT | {MemberState.RECONCILING, MemberState.STABLE, MemberState.ACKNOWLEDGING},
    MemberState.ACKNOWLEDGING: _OUT | {MemberState.STABLE, MemberState.RECONCILING},
    MemberState.STABLE: _OUT | {MemberState.RECONCILING},
    MemberState.FENCED: frozenset({MemberState.JOINING, MemberState.UNSUBSCRIBED}),
    MemberState.PREPARE_LEAVING: frozenset({MemberState.LEAVING, MemberState.UNSUBSCRIBED, MemberState.FATAL}),
    MemberState.LEAVING: frozenset({MemberState.UNSUBSCRIBED, MemberState.STALE}),
    MemberState.FATAL: frozenset(),
    MemberState.STALE: frozenset({MemberState.JOINING, MemberState.UNSUBSCRIBED}),
}
"""The states that may follow each state."""

IN_GROUP: Final = frozenset(_ACTIVE)
"""The states of a member that the coordinator counts on."""
SENDS_HEARTBEATS: Final = (*_ACTIVE, MemberState.PREPARE_LEAVING, MemberState.LEAVING)
"""The states with heartbeats. A tuple: looked at in every turn, and the hash of an enum is slow."""
CAN_TAKE_ASSIGNMENT: Final = IN_GROUP
