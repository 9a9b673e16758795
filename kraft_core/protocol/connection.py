"""Frames out of a stream of bytes, without any I/O, as h11 does it for HTTP.

The owner of a socket hands in what arrived and takes out whole frames:

    connection = Connection(max_frame_bytes=104_857_600)
    connection.receive_data(data)
    while (frame := connection.next_frame()) is not None:
        ...

A server's side says `checks_requests`: then a frame may also not be larger than the requests of its API may be
(`request_limits`), which is known once the frame's first two bytes are there.

"Not enough yet" is None, not an exception. Memory grows with the bytes that came, never with a size that a
peer merely announced.
"""

from typing import Final

from kraft_core.protocol.errors import InvalidFrame
from kraft_core.protocol.request_limits import SMALL, limit_of

REQUEST_BYTES_MAX: Final = 104_857_600
"""Kafka's default of socket.request.max.bytes."""

_SIZE_BYTES: Final = 4
_API_KEY_BYTES: Final = 2


class Connection:
    """One direction of a Kafka connection: bytes in, frames out. A frame is given without its size."""

    __slots__ = ("_buffer", "_position", "checks_requests", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int = REQUEST_BYTES_MAX, *, checks_requests: bool = False) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.checks_requests = checks_requests
        self._buffer: bytes | bytearray = b""
        self._position = 0

    @property
    def buffered_bytes(self) -> int:
        """How many bytes are held that have not left as a frame."""
        return len(self._buffer) - self._position

    def receive_data(self, data: bytes) -> None:
        """Take in what arrived on the socket."""
        if self._position == len(self._buffer):
            self._buffer = bytes(data)
        else:
            if not isinstance(self._buffer, bytearray):
                self._buffer = bytearray(memoryview(self._buffer)[self._position :])
            elif self._position:
                del self._buffer[: self._position]
            self._buffer += data
        self._position = 0

    def next_frame(self) -> bytes | None:
        """Take out the next whole frame; None when more bytes are needed.

        Raises InvalidFrame for a negative size or one above `max_frame_bytes` or above its API's limit: close the
        connection.
        """
        buffer, start = self._buffer, self._position
        body = start + _SIZE_BYTES
        if len(buffer) < body:
            return None
        size = int.from_bytes(buffer[start:body], signed=True)
        if not 0 <= size <= self.max_frame_bytes:
            raise InvalidFrame(f"a frame of {size} bytes; at most {self.max_frame_bytes} are allowed")
        if size > SMALL.max_frame_bytes and self.checks_requests:
            self._check_api(size, body)
        end = body + size
        if len(buffer) < end:
            return None
        if isinstance(buffer, bytes):
            frame = buffer[body:end]
        else:
            with memoryview(buffer) as view:
                frame = bytes(view[body:end])
        self._position = end
        if end == len(buffer):
            self._buffer = b""
            self._position = 0
        return frame

    def _check_api(self, size: int, body: int) -> None:
        key_end = body + _API_KEY_BYTES
        if len(self._buffer) < key_end:
            return
        api_key = int.from_bytes(self._buffer[body:key_end], signed=True)
        allowed = limit_of(api_key).max_frame_bytes
        if size > allowed:
            raise InvalidFrame(f"a request of {size} bytes; at most {allowed} are allowed for api key {api_key}")
