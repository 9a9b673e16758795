"""Splitting a stream of bytes into frames, without I/O, as h11 does for HTTP.

The owner of a socket passes in received data and takes out complete frames:

    connection = Connection(max_frame_bytes=104_857_600)
    connection.receive_data(data)
    while (frame := connection.next_frame()) is not None:
        ...

A server sets `checks_requests`: then a frame must also not exceed the limit of its API (`request_limits`), which is
checked after the frame's first two bytes.

An incomplete frame is None, not an exception. Memory grows with the bytes received, never with an announced size.
"""

from typing import Final

from kraft_core.protocol.errors import InvalidFrame
from kraft_core.protocol.request_limits import SMALL, limit_of

REQUEST_BYTES_MAX: Final = 104_857_600
"""Kafka's default of socket.request.max.bytes."""

_SIZE_BYTES: Final = 4
_API_KEY_BYTES: Final = 2


class Connection:
    """One direction of a Kafka connection: bytes in, frames out. A frame is returned without its size."""

    __slots__ = ("_buffer", "_position", "checks_requests", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int = REQUEST_BYTES_MAX, *, checks_requests: bool = False) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.checks_requests = checks_requests
        self._buffer: bytes | bytearray = b""
        self._position = 0

    @property
    def buffered_bytes(self) -> int:
        """The number of received bytes that were not returned in a frame yet."""
        return len(self._buffer) - self._position

    def receive_data(self, data: bytes) -> None:
        """Add data received on the socket."""
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
        """Return the next complete frame; None when more bytes are needed.

        Raises InvalidFrame for a size that is negative, above `max_frame_bytes` or above its API's limit: the caller
        must close the connection.
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
        elif isinstance(buffer, bytearray) and end > len(buffer) - end:
            self._drop_returned()
        return frame

    def _drop_returned(self) -> None:
        """Release the frames that were returned. The next bytes may take long to come if the connection is not read."""
        self._buffer = bytes(memoryview(self._buffer)[self._position :])
        self._position = 0

    def _check_api(self, size: int, body: int) -> None:
        key_end = body + _API_KEY_BYTES
        if len(self._buffer) < key_end:
            return
        api_key = int.from_bytes(self._buffer[body:key_end], signed=True)
        allowed = limit_of(api_key).max_frame_bytes
        if size > allowed:
            raise InvalidFrame(f"a request of {size} bytes; at most {allowed} are allowed for api key {api_key}")
