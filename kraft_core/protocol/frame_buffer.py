"""Splitting a stream of bytes into frames, with a buffer that the socket writes into and that is used again.

The owner of a socket lets it write into the buffer and takes out complete frames:

    frames = FrameBuffer(max_frame_bytes=104_857_600)
    count = socket.recv_into(frames.get_buffer())
    frames.buffer_updated(count)
    while (frame := frames.next_frame()) is not None:
        ...

For peers that answer with large frames, as brokers answer fetches: `connection.Connection` takes bytes. An incomplete
frame is None, not an exception. Memory grows with the bytes received, to twice of them, never with an announced size;
a large buffer is given up after a frame that needs little of it.
"""

from typing import Final

from kraft_core.protocol.errors import InvalidFrame

_SIZE_BYTES: Final = 4
_LEAST_BYTES: Final = 64 * 1024
_SHRINK: Final = 4


class FrameBuffer:
    """The incoming direction of a connection. A frame is returned without its size."""

    __slots__ = ("_begin", "_buffer", "_end", "_max_frame_bytes")

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._begin = 0
        self._end = 0

    def get_buffer(self) -> memoryview:
        """Return room for bytes of the socket, until the next call of a method. It is never empty."""
        received = self._end - self._begin
        more = 1
        if received >= _SIZE_BYTES:
            missing = _SIZE_BYTES + self._size() - received
            more = min(missing, received) if missing > 0 else received
        self._reserve(more)
        return memoryview(self._buffer)[self._end :]

    def _reserve(self, more: int) -> None:
        """Have room for so many bytes behind those received."""
        if self._end + more <= len(self._buffer):
            return
        kept = self._buffer[self._begin : self._end]
        needed = max(len(kept) + more, _LEAST_BYTES)
        if needed > len(self._buffer):
            self._buffer = bytearray(needed)
        self._buffer[: len(kept)] = kept
        self._begin, self._end = 0, len(kept)

    def buffer_updated(self, count: int) -> None:
        """Take note of bytes that were written at the beginning of the buffer."""
        self._end += count

    def receive_data(self, data: bytes) -> None:
        """Add bytes that were received elsewhere."""
        self._reserve(len(data))
        self._buffer[self._end : self._end + len(data)] = data
        self._end += len(data)

    def next_frame(self) -> memoryview | None:
        """Return the next complete frame, to be read before the next call of a method; None when more bytes are needed.

        Raises InvalidFrame for a size that is negative or above the maximum: the caller must close the connection.
        """
        if self._end - self._begin < _SIZE_BYTES:
            return None
        size = self._size()
        if not 0 <= size <= self._max_frame_bytes:
            raise InvalidFrame(f"a frame of {size} bytes; at most {self._max_frame_bytes} are allowed")
        body = self._begin + _SIZE_BYTES
        end = body + size
        if self._end < end:
            return None
        frame = memoryview(self._buffer)[body:end]
        self._begin = end
        if end == self._end:
            self._begin = self._end = 0
            if len(self._buffer) > max(_LEAST_BYTES, _SHRINK * (size + _SIZE_BYTES)):
                self._buffer = bytearray()
        return frame

    def _size(self) -> int:
        return int.from_bytes(self._buffer[self._begin : self._begin + _SIZE_BYTES], signed=True)
