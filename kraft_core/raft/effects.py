"""What a raft node wants done. The runtime carries the effects of one step out in order."""

import msgspec

from kraft_core.protocol.wire import Message
from kraft_core.raft.quorum_state import ElectionState


class Destination(msgspec.Struct, frozen=True, gc=False):
    """Where a request goes. A negative node id is a bootstrap server whose id is not known yet."""

    node_id: int
    host: str
    port: int


class SendRequest(msgspec.Struct, frozen=True, gc=False):
    """Send `message` in the highest version that the peer has too.

    Comes back as `ResponseReceived` or `RequestFailed` with the same correlation, after `timeout_ms` at the latest.
    A peer without any version from `min_version` on: `RequestFailed(UNSUPPORTED_VERSION)`.
    """

    correlation: int
    destination: Destination
    message: Message
    timeout_ms: int
    min_version: int = 0


class Respond(msgspec.Struct, frozen=True, gc=False):
    """Answer the request of this id, in the version it came in."""

    request_id: int
    message: Message


class StoreElection(msgspec.Struct, frozen=True, gc=False):
    """Must be on disk before any later effect of the same list is carried out."""

    election: ElectionState
    kraft_version: int  # quorum-state is written as v0 below 1, else as v1


class Flush(msgspec.Struct, frozen=True, gc=False):
    """Flush the log on the I/O thread up to its present end; `Flushed` follows. Never two at a time."""


class Stopped(msgspec.Struct, frozen=True, gc=False):
    """The shutdown that was asked for is complete."""


Effect = SendRequest | Respond | StoreElection | Flush | Stopped
"""Any of the above."""
