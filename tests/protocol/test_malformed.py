"""Bytes that no honest peer sends end in a named error: never a crash, never a large allocation."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_core.protocol import messages
from kraft_core.protocol.api_keys import APIS, ApiKey, request_class, response_class
from kraft_core.protocol.codec import decode, decode_prefix, encode
from kraft_core.protocol.errors import DecodeError, ErrorCode, InvalidFrame, MetadataRecordError
from kraft_core.protocol.framing import (
    RequestHeader,
    decode_request_body,
    decode_request_header,
    decode_response,
    encode_request,
)
from kraft_core.protocol.metadata_records import RECORD_CLASSES, TopicRecord, decode_record, encode_record
from kraft_core.protocol.primitives import encode_uvarint
from kraft_core.protocol.request_limits import limit_of
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message
from tests.protocol.vectors import random_message

CASES = [
    (kind(key), version)
    for key, api in APIS.items()
    for kind in (request_class, response_class)
    for version in (api.min_version, api.max_version)
]
HUGE = (2**28, 2**31 - 1, 2**32 - 1)


@contextmanager
def no_large_allocation(limit_bytes: int = 1_000_000) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit_bytes, f"{peak} bytes were allocated"


def create_topics(version: int, name_length: bytes, name: bytes = b"") -> bytes:
    """A CreateTopicsRequest of one topic, cut after the given name."""
    count = b"\x02" if version >= 5 else b"\x00\x00\x00\x01"
    return count + name_length + name


@pytest.mark.parametrize(("message_class", "version"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_body_cut_anywhere_is_a_decode_error(message_class: type[Message], version: int) -> None:
    data = max((encode(random_message(message_class, version, Random(seed)), version) for seed in range(5)), key=len)
    for cut in range(min(300, len(data))):
        with pytest.raises(DecodeError) as failure:
            decode(message_class, version, data[:cut])
        assert failure.value.message_name == message_class.__name__
        assert 0 <= failure.value.position <= cut


@pytest.mark.parametrize("length", HUGE)
def test_an_announced_length_allocates_nothing(length: int) -> None:
    compact, fixed = encode_uvarint(length), min(length, 2**31 - 1).to_bytes(4)
    bodies: list[tuple[type[Message], int, bytes]] = [
        (messages.CreateTopicsRequest, 7, compact + b"\x00" * 50),
        (messages.CreateTopicsRequest, 7, create_topics(7, compact, b"abc")),
        (messages.CreateTopicsRequest, 2, fixed + b"\x00" * 50),
        (messages.SaslAuthenticateRequest, 2, compact + b"abc"),
        (messages.SaslAuthenticateRequest, 0, fixed + b"abc"),
        (messages.ElectLeadersRequest, 2, b"\x00\x02\x02a" + compact + b"\x00\x00\x00\x01"),
        (messages.BrokerHeartbeatRequest, 1, b"\x00" * 22 + encode_uvarint(1) + b"\x00" + compact + b"\x00" * 16),
        (messages.DescribeConfigsRequest, 4, b"\x02\x02\x02a" + compact + b"\x02a"),
    ]
    for message_class, version, body in bodies:
        with no_large_allocation(), pytest.raises(DecodeError):
            decode(message_class, version, body)


def test_many_unknown_tags_allocate_nothing() -> None:
    body = b"\x00" * 3 + encode_uvarint(2**31 - 1) + b"\x07\x00" * 1000
    with no_large_allocation(), pytest.raises(DecodeError):
        decode(messages.SaslAuthenticateResponse, 2, b"\x00\x00\x00\x01" + b"\x00" * 8 + body[3:])


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("length", [-2, -(2**15)])
def test_a_negative_string_length_is_refused(version: int, length: int) -> None:
    with pytest.raises(DecodeError, match="length of"):
        decode(messages.CreateTopicsRequest, version, create_topics(version, length.to_bytes(2, signed=True), b"abc"))


@pytest.mark.parametrize("length", [-2, -(2**31)])
def test_a_negative_array_length_is_refused(length: int) -> None:
    with pytest.raises(DecodeError, match="length of"):
        decode(messages.CreateTopicsRequest, 2, length.to_bytes(4, signed=True) + bytes(20))


@pytest.mark.parametrize(("version", "null"), [(2, b"\xff\xff"), (7, b"\x00")])
def test_null_for_a_string_that_may_not_be_null_names_the_field(version: int, null: bytes) -> None:
    with pytest.raises(DecodeError, match="null") as failure:
        decode(messages.CreateTopicsRequest, version, create_topics(version, null) + bytes(40))
    assert failure.value.field == "topics.name"
    assert failure.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("version", "null"), [(2, b"\xff\xff\xff\xff"), (7, b"\x00")])
def test_null_for_an_array_that_may_not_be_null_is_refused(version: int, null: bytes) -> None:
    with pytest.raises(DecodeError, match="null"):
        decode(messages.CreateTopicsRequest, version, null + bytes(40))


@pytest.mark.parametrize("varint", [b"\x80\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\xff", b"\xff\xff\xff\xff\x1f"])
def test_a_varint_longer_than_five_bytes_or_32_bits_is_refused(varint: bytes) -> None:
    with pytest.raises(DecodeError, match="varint"):
        decode(messages.CreateTopicsRequest, 7, varint + bytes(40))
    with pytest.raises(DecodeError, match="varint"):
        decode(messages.CreateTopicsRequest, 7, create_topics(7, varint) + bytes(40))


def test_a_string_longer_than_32767_bytes_is_refused() -> None:
    longest = encode(TopicRecord(name="x" * 32767), 0)
    assert decode(TopicRecord, 0, longest).name == "x" * 32767
    with pytest.raises(DecodeError, match="32768 bytes"):
        decode(TopicRecord, 0, encode_uvarint(32769) + b"x" * 32768 + bytes(17))


def test_bytes_that_are_not_utf_8_become_replacement_characters() -> None:
    record = decode_record(b"\x01\x02\x00\x05a\xff\xfeb" + ZERO_UUID.bytes + b"\x00")
    assert record == TopicRecord(name="a��b")
    request = decode(messages.DeleteTopicsRequest, 1, b"\x00\x00\x00\x01\x00\x02\xc3\x28\x00\x00\x00\x05")
    assert request.topic_names == ("�(",)


def test_unknown_tags_are_skipped_at_any_position() -> None:
    plain = encode(messages.VoteRequest(cluster_id="c", voter_id=2), 2)
    tagged = plain[:-1] + b"\x02" + b"\x09\x03abc" + encode_uvarint(300) + b"\x00"
    assert decode(messages.VoteRequest, 2, tagged) == decode(messages.VoteRequest, 2, plain)
    response = messages.VoteResponse(node_endpoints=(messages.VoteResponseNodeEndpoint(node_id=3, host="h", port=1),))
    known = encode(response, 2)
    assert known[3:4] == b"\x01"
    assert decode(messages.VoteResponse, 2, known[:3] + b"\x02" + known[4:] + b"\x63\x01z") == response
    value = encode_record(TopicRecord(name="t"), 0)
    assert decode_record(value[:-1] + b"\x01\x28\x02hi") == TopicRecord(name="t")


def test_one_element_more_than_the_bytes_can_hold_is_refused_before_any_is_read() -> None:
    data = encode(messages.CreateTopicsRequest(topics=(messages.CreateTopicsRequestCreatableTopic(name="t"),) * 20), 7)
    with pytest.raises(DecodeError) as failure:
        decode(messages.CreateTopicsRequest, 7, bytes((data[0] + 8,)) + data[1:])
    assert failure.value.field == "topics"


def test_a_byte_more_inside_a_tag_than_its_field_takes_is_refused() -> None:
    response = messages.VoteResponse(node_endpoints=(messages.VoteResponseNodeEndpoint(node_id=3, host="h", port=1),))
    data = encode(response, 2)
    with pytest.raises(DecodeError, match="another length") as failure:
        decode(messages.VoteResponse, 2, data[:5] + bytes((data[5] + 1,)) + data[6:] + b"\x00")
    assert failure.value.field == "node_endpoints"


def test_a_tagged_field_shorter_or_longer_than_announced_is_refused() -> None:
    response = messages.VoteResponse(node_endpoints=(messages.VoteResponseNodeEndpoint(node_id=3, host="h", port=1),))
    data = encode(response, 2)
    for wrong in (data[5] - 1, data[5] + 1):
        with pytest.raises(DecodeError):
            decode(messages.VoteResponse, 2, data[:5] + bytes((wrong,)) + data[6:] + b"\x00")


def test_bytes_after_a_message_are_refused_by_decode_and_left_by_decode_prefix() -> None:
    data = encode(messages.VoteRequest(), 2)
    with pytest.raises(DecodeError, match="3 bytes too many"):
        decode(messages.VoteRequest, 2, data + b"abc")
    assert decode_prefix(messages.VoteRequest, 2, b"zz" + data + b"abc", 2) == (messages.VoteRequest(), len(data) + 2)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00",
        b"\x00\x12\x00\x03\x00\x00\x00\x01",
        b"\x00\x12\x00\x03\x00\x00\x00\x01\x00\x05abc",
        b"\x00\x12\x00\x03\x00\x00\x00\x01\x80\x00",
        b"\x00\x12\x00\x03\x00\x00\x00\x01\x00\x01a",
        b"\x00\x12\x00\x03\x00\x00\x00\x01\x00\x01a\x01\x00\x7f",
        b"\x00\x12\x00\x03\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xff\xff\x01",
        b"\x00\x11\x00\x01\x00\x00\x00\x01\x00\x05abc",
        b"\x00\x11\x00\x01\x00\x00\x00\x01\xff\xfeabc",
        b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff",
        b"\xff\xff\x00\x00\x00\x00\x00\x01\xff\xff",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_a_request_header_that_is_cut_or_unknown_is_an_invalid_frame(frame: bytes) -> None:
    with pytest.raises(InvalidFrame):
        decode_request_header(frame)


@pytest.mark.parametrize("cut", range(11))
def test_a_header_cut_at_any_byte_is_an_invalid_frame(cut: int) -> None:
    frame = encode_request(messages.VoteRequest(), 2, 7, "c")[4:]
    assert decode_request_header(frame)[1] == 12
    with pytest.raises(InvalidFrame):
        decode_request_header(frame[:cut])


@pytest.mark.parametrize("frame", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x07", b"\x00\x00\x00\x07\x01\x01"])
def test_a_cut_response_header_is_a_decode_error(frame: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_response(ApiKey.VOTE, 2, frame)


def survive(call: Callable[[], object], *allowed: type[Exception]) -> None:
    try:
        call()
    except allowed:
        return


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=200), case=st.sampled_from(CASES))
def test_any_bytes_decode_or_raise_a_decode_error(data: bytes, case: tuple[type[Message], int]) -> None:
    survive(lambda: decode_prefix(*case, data), DecodeError)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(min_value=0), case=st.sampled_from(CASES), flips=st.integers(min_value=1, max_value=4))
def test_damaged_messages_decode_or_raise_a_decode_error(
    seed: int, case: tuple[type[Message], int], flips: int
) -> None:
    random = Random(seed)
    data = bytearray(encode(random_message(*case, random), case[1]))
    for _ in range(flips if data else 0):
        data[random.randrange(len(data))] = random.randrange(256)
    survive(lambda: decode_prefix(*case, bytes(data)), DecodeError)


@settings(max_examples=300, deadline=None)
@given(body=st.binary(max_size=80), key=st.sampled_from(sorted(RECORD_CLASSES)), version=st.integers(0, 5))
def test_any_record_value_decodes_or_raises_a_record_error(body: bytes, key: int, version: int) -> None:
    survive(lambda: decode_record(bytes((1, key, version)) + body), MetadataRecordError)


@settings(max_examples=200, deadline=None)
@given(frame=st.binary(max_size=120))
def test_any_frame_is_decoded_or_refused(frame: bytes) -> None:
    def serve() -> None:
        header, offset = decode_request_header(frame)
        if APIS[header.api_key].min_version <= header.api_version <= APIS[header.api_key].max_version:
            decode_request_body(header, frame, offset)

    survive(serve, InvalidFrame, DecodeError)


def _metadata_of(topics: int) -> tuple[RequestHeader, bytes]:
    body = encode_uvarint(topics + 1) + (bytes(16) + b"\x02a\x00") * topics + b"\x01\x00\x00"
    return RequestHeader(ApiKey.METADATA, 13, 1, None), body


def test_a_request_with_as_many_elements_as_its_api_may_have_is_decoded_and_one_more_is_refused() -> None:
    most = limit_of(ApiKey.METADATA).max_elements
    body = decode_request_body(*_metadata_of(most), 0)
    assert isinstance(body, messages.MetadataRequest)
    assert len(body.topics or ()) == most
    with pytest.raises(DecodeError, match="more elements"):
        decode_request_body(*_metadata_of(most + 1), 0)


def test_tagged_fields_of_a_request_count_as_elements() -> None:
    tags = limit_of(ApiKey.API_VERSIONS).max_elements + 1
    body = b"\x01\x01" + encode_uvarint(tags) + b"\x63\x00" * tags
    with pytest.raises(DecodeError, match="more elements"):
        decode_request_body(RequestHeader(ApiKey.API_VERSIONS, 3, 1, None), body, 0)


def test_a_request_header_with_hundreds_of_tagged_fields_is_refused() -> None:
    frame = b"\x00\x12\x00\x03\x00\x00\x00\x07\xff\xff" + b"\xc8\x01" + b"\x63\x00" * 200 + b"\x01\x01\x00"
    with pytest.raises(InvalidFrame, match="more than 100 tagged fields"):
        decode_request_header(frame)
