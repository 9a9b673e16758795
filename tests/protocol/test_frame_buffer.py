"""Frames out of a buffer that a socket writes into, however the network cuts them."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_core.protocol.errors import InvalidFrame
from kraft_core.protocol.frame_buffer import FrameBuffer

FRAME_BYTES_MAX = 104_857_600


def write(frames: FrameBuffer, data: bytes) -> None:
    """Write as a socket does that has all of the data: as much as there is room for at each time."""
    rest = memoryview(data)
    while rest:
        room = frames.get_buffer()
        count = min(len(room), len(rest))
        room[:count] = rest[:count]
        frames.buffer_updated(count)
        rest = rest[count:]


def frames_of(frames: FrameBuffer) -> list[bytes]:
    return [bytes(frame) for frame in iter(frames.next_frame, None)]


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4) + content


@given(
    contents=st.lists(st.binary(max_size=300) | st.integers(60_000, 200_000).map(bytes), max_size=5),
    cuts=st.lists(st.integers(1, 400) | st.integers(50_000, 150_000), min_size=1, max_size=5),
    is_written=st.booleans(),
)
def test_frames_come_out_whole_and_in_order_however_the_bytes_are_cut(
    contents: list[bytes], cuts: list[int], is_written: bool
) -> None:
    stream = b"".join(map(framed, contents))
    frames = FrameBuffer(200_000)
    seen: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        cut = cuts[turn % len(cuts)] if turn < 40 else len(stream)
        piece = stream[position : position + cut]
        if is_written:
            write(frames, piece)
        else:
            frames.receive_data(piece)
        if turn % 3:
            seen += frames_of(frames)
        position += cut
        turn += 1
    assert seen + frames_of(frames) == contents


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_a_size_that_is_negative_or_above_the_limit_is_refused_before_its_bytes_come(size: int) -> None:
    frames = FrameBuffer(100)
    write(frames, framed(b"ok") + size.to_bytes(4, signed=True))
    frame = frames.next_frame()
    assert frame is not None
    assert bytes(frame) == b"ok"
    with pytest.raises(InvalidFrame, match=str(size)):
        frames.next_frame()
    assert len(frames.get_buffer()) > 0


def test_memory_follows_the_bytes_received_and_not_an_announced_size() -> None:
    tracemalloc.start()
    try:
        frames = FrameBuffer(FRAME_BYTES_MAX)
        write(frames, (100 * 1024 * 1024).to_bytes(4))
        for received in (1_000, 100_000, 1_000_000):
            write(frames, bytes(received))
            assert frames.next_frame() is None
            assert len(frames.get_buffer()) > 0
            held, _ = tracemalloc.get_traced_memory()
            assert held < 3 * received + 100_000
    finally:
        tracemalloc.stop()


def test_the_buffer_of_large_frames_is_used_again_and_given_up_when_frames_are_small() -> None:
    content = bytes(1_000_000)
    large = framed(content)
    tracemalloc.start()
    try:
        frames = FrameBuffer(FRAME_BYTES_MAX)
        write(frames, large)
        frames.next_frame()
        tracemalloc.reset_peak()
        held, _ = tracemalloc.get_traced_memory()
        assert 1_000_000 < held < 1_100_000
        for _ in range(3):
            write(frames, large)
            frame = frames.next_frame()
            assert frame is not None
            assert frame == memoryview(content)
        assert tracemalloc.get_traced_memory()[1] < held + 100_000
        write(frames, framed(b"small"))
        assert frames_of(frames) == [b"small"]
        del frame
        assert tracemalloc.get_traced_memory()[0] < 10_000
    finally:
        tracemalloc.stop()
