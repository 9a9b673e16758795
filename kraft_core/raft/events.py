"""The inputs of a raft node. The runtime creates them and passes them to `KafkaRaftClient.step` one at a time."""

from enum import Enum

import msgspec

from kraft_core.protocol.wire import Message
from kraft_core.raft.raft_log import OffsetAndEpoch


class FailureReason(Enum):
    """Why a request failed."""

    DISCONNECTED = "disconnected"  # refused, reset or closed
    TIMED_OUT = "timed_out"
    UNSUPPORTED_VERSION = "unsupported_version"  # the peer supports no version from `min_version` up


class RequestReceived(msgspec.Struct, frozen=True, gc=False):
    """A request of a raft API; exactly one `Respond` with the same `request_id` answers it later."""

    request_id: int
    message: Message
    version: int


class ResponseReceived(msgspec.Struct, frozen=True, gc=False):
    """The response to the `SendRequest` with this correlation."""

    correlation: int
    message: Message


class RequestFailed(msgspec.Struct, frozen=True, gc=False):
    """The `SendRequest` with this correlation failed: no response will follow."""

    correlation: int
    reason: FailureReason


class PeerDisconnected(msgspec.Struct, frozen=True, gc=False):
    """The peer refused, reset or closed a connection of this node, with or without a request in flight."""

    node_id: int


class Flushed(msgspec.Struct, frozen=True, gc=False):
    """A flush is complete. `log.flushed_offset` says what is durable; `offset` is for traces only."""

    offset: int


class SnapshotCreated(msgspec.Struct, frozen=True, gc=False):
    """The snapshot of this id, written by the state machine, is durable and visible in the log."""

    id: OffsetAndEpoch


class Timer(msgspec.Struct, frozen=True, gc=False):
    """`next_deadline_ms` has been reached; an early timer is harmless."""


class Shutdown(msgspec.Struct, frozen=True, gc=False):
    """Shut down within `timeout_ms`; `Stopped` follows. A leader first hands over its leadership."""

    timeout_ms: int


Event = (
    RequestReceived | ResponseReceived | RequestFailed | PeerDisconnected | Flushed | SnapshotCreated | Timer | Shutdown
)
"""Any of the above."""
