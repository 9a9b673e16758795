"""Frames out of bytes, however the network cuts them."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_core.protocol import request_limits
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.connection import Connection
from kraft_core.protocol.errors import InvalidFrame


def frames_of(connection: Connection) -> list[bytes]:
    return list(iter(connection.next_frame, None))


@given(frames=st.lists(st.binary(max_size=300), max_size=12), cuts=st.lists(st.integers(1, 400), min_size=1))
def test_frames_come_out_whole_and_in_order_however_the_bytes_are_cut(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(frame).to_bytes(4) + frame for frame in frames)
    connection = Connection(max_frame_bytes=300)
    seen: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        size = cuts[turn % len(cuts)]
        connection.receive_data(stream[position : position + size])
        if turn % 3:
            seen += frames_of(connection)
        position += size
        turn += 1
    seen += frames_of(connection)
    assert seen == frames
    assert all(type(frame) is bytes for frame in seen)
    assert connection.buffered_bytes == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_a_size_that_is_negative_or_above_the_limit_is_refused_before_its_bytes_come(size: int) -> None:
    connection = Connection(max_frame_bytes=100)
    connection.receive_data(b"\x00\x00\x00\x02ok" + size.to_bytes(4, signed=True))
    assert connection.next_frame() == b"ok"
    with pytest.raises(InvalidFrame, match=str(size)):
        connection.next_frame()


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_http_and_tls_on_a_plain_port_are_refused(data: bytes) -> None:
    connection = Connection()
    connection.receive_data(data)
    with pytest.raises(InvalidFrame):
        connection.next_frame()


def test_an_announced_size_reserves_no_memory() -> None:
    connections = [Connection() for _ in range(20)]
    tracemalloc.start()
    try:
        for connection in connections:
            connection.receive_data((50 * 1024 * 1024).to_bytes(4) + b"x")
            assert connection.next_frame() is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000
    assert all(connection.buffered_bytes == 5 for connection in connections)


def test_a_frame_is_independent_of_what_arrives_later() -> None:
    connection = Connection()
    connection.receive_data(b"\x00\x00")
    connection.receive_data(b"\x00\x02ab\x00")
    frame = connection.next_frame()
    connection.receive_data(b"\x00\x00\x01c")
    assert (frame, connection.next_frame(), connection.next_frame()) == (b"ab", b"c", None)


def begin_of_frame(size: int, api_key: int) -> bytes:
    return size.to_bytes(4) + api_key.to_bytes(2)


def test_a_request_larger_than_its_api_may_be_is_refused_when_its_api_key_is_there() -> None:
    size = request_limits.limit_of(ApiKey.METADATA).max_frame_bytes + 1
    connection = Connection(checks_requests=True)
    connection.receive_data(begin_of_frame(size, ApiKey.METADATA)[:5])
    assert connection.next_frame() is None
    connection.receive_data(begin_of_frame(size, ApiKey.METADATA)[5:])
    with pytest.raises(InvalidFrame, match=f"a request of {size} bytes; at most {size - 1} are allowed for api key 3"):
        connection.next_frame()


def test_a_produce_request_may_be_as_large_as_socket_request_max_bytes_allows() -> None:
    connection = Connection(max_frame_bytes=50_000_000, checks_requests=True)
    connection.receive_data(begin_of_frame(50_000_000, ApiKey.PRODUCE))
    assert connection.next_frame() is None


def test_answers_are_not_measured_by_the_limits_of_requests() -> None:
    connection = Connection()
    connection.receive_data(begin_of_frame(50_000_000, ApiKey.METADATA))
    assert connection.next_frame() is None


def test_a_frame_that_was_returned_is_released_while_the_next_one_is_incomplete() -> None:
    frame = (1 << 20).to_bytes(4) + bytes(1 << 20)
    tracemalloc.start()
    try:
        connections = [Connection() for _ in range(20)]
        for connection in connections:
            connection.receive_data(frame[: 1 << 19])
            connection.receive_data(frame[1 << 19 :] + frame[:1_000])
            assert connection.next_frame() == frame[4:]
            assert connection.buffered_bytes == 1_000
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * len(frame)
    for connection in connections:
        connection.receive_data(frame[1_000:])
        assert connection.next_frame() == frame[4:]
