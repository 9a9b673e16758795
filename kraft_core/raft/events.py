"""What can happen to a raft node. The runtime makes them, `KafkaRaftClient.step` takes them one at a time."""

from enum import Enum

import msgspec

from kraft_core.protocol.wire import Message
from kraft_core.raft.raft_log import OffsetAndEpoch


class FailureReason(Enum):
    """Why a request has no answer."""

    DISCONNECTED = "disconnected"  # refused, reset or closed
    TIMED_OUT = "timed_out"
    UNSUPPORTED_VERSION = "unsupported_version"  # the peer has no version from `min_version` on


class RequestReceived(msgspec.Struct, frozen=True, gc=False):
    """A request of a raft API; answered later by one `Respond` with the same `request_id`."""

    request_id: int
    message: Message
    version: int


class ResponseReceived(msgspec.Struct, frozen=True, gc=False):
    """The answer to the `SendRequest` with this correlation."""

    correlation: int
    message: Message


class RequestFailed(msgspec.Struct, frozen=True, gc=False):
    """The `SendRequest` with this correlation will never be answered."""

    correlation: int
    reason: FailureReason


class PeerDisconnected(msgspec.Struct, frozen=True, gc=False):
    """A connection of ours to this node was refused, reset or closed by it, with or without a request on it."""

    node_id: int


class Flushed(msgspec.Struct, frozen=True, gc=False):
    """A flush is done. What is durable is what `log.flushed_offset` says; `offset` is for the trace."""

    offset: int


class SnapshotCreated(msgspec.Struct, frozen=True, gc=False):
    """The state machine's own snapshot of this id is durable and visible in the log."""

    id: OffsetAndEpoch


class Timer(msgspec.Struct, frozen=True, gc=False):
    """`next_deadline_ms` has come (or not: an early one does no harm)."""


class Shutdown(msgspec.Struct, frozen=True, gc=False):
    """Stop in good order within `timeout_ms`; `Stopped` follows. A leader hands its office over first."""

    timeout_ms: int


Event = (
    RequestReceived | ResponseReceived | RequestFailed | PeerDisconnected | Flushed | SnapshotCreated | Timer | Shutdown
)
"""Any of the above."""
