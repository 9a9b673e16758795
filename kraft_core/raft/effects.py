"""The outputs of a raft node. The runtime carries out the effects of one step in order."""

import msgspec

from kraft_core.protocol.wire import Message
from kraft_core.raft.quorum_state import ElectionState


class Destination(msgspec.Struct, frozen=True, gc=False):
    """Where to send a request. A negative node id is a bootstrap server whose id is not known yet."""

    node_id: int
    host: str
    port: int


class SendRequest(msgspec.Struct, frozen=True, gc=False):
    """Send `message` in the highest version that both sides support.

    The result is a `ResponseReceived` or `RequestFailed` event with the same correlation, within `timeout_ms`.
    If the peer supports no version from `min_version` up, it is `RequestFailed(UNSUPPORTED_VERSION)`.
    """

    correlation: int
    destination: Destination
    message: Message
    timeout_ms: int
    min_version: int = 0


class Respond(msgspec.Struct, frozen=True, gc=False):
    """Answer the request of this id, in the request's version."""

    request_id: int
    message: Message


class StoreElection(msgspec.Struct, frozen=True, gc=False):
    """Write the election state to disk, before any later effect of the same step is carried out."""

    election: ElectionState
    kraft_version: int  # 0: quorum-state is written in version 0, else in version 1


class Flush(msgspec.Struct, frozen=True, gc=False):
    """Flush the log on the I/O thread up to its current end; `Flushed` follows. At most one flush is in flight."""


class Stopped(msgspec.Struct, frozen=True, gc=False):
    """The requested shutdown is complete."""


Effect = SendRequest | Respond | StoreElection | Flush | Stopped
"""Any of the above."""
