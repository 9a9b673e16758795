"""Headers of requests and responses."""

from uuid import UUID

import pytest

from kraft_core.protocol import messages
from kraft_core.protocol.api_keys import APIS, ApiKey, request_class, response_class
from kraft_core.protocol.codec import encode
from kraft_core.protocol.errors import UnsupportedVersion
from kraft_core.protocol.framing import (
    RequestHeader,
    decode_request_body,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from tests.protocol.golden import headers

VERSIONS = [(key, version) for key, api in APIS.items() for version in (api.min_version, api.max_version)]


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=lambda value: getattr(value, "name", str(value)))
@pytest.mark.parametrize("client_id", [None, "", "raft-client-3"])
def test_a_request_and_its_response_survive_encoding_and_decoding(
    key: ApiKey, version: int, client_id: str | None
) -> None:
    request = request_class(key)()
    frame = encode_request(request, version, 77, client_id)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    header, offset = decode_request_header(frame[4:])
    assert header == RequestHeader(key, version, 77, client_id)
    assert decode_request_body(header, frame[4:], offset) == request

    response = response_class(key)()
    answer = encode_response(response, header)
    assert int.from_bytes(answer[:4]) == len(answer) - 4
    assert answer == encode_response(response, (key, version), 77)
    assert decode_response(key, version, answer[4:]) == (77, response)


def test_every_header_is_that_of_kafka() -> None:
    """Versions 1 and 2 of the request's, 0 and 1 of the answer's, each where Kafka has it."""
    kafkas = headers()
    for key, api in APIS.items():
        for version in range(api.min_version, api.max_version + 1):
            named, nameless, answered = kafkas[key, version]
            request, response = request_class(key)(), response_class(key)()
            for client_id, head in (("größe-1", named), (None, nameless)):
                assert encode_request(request, version, 77, client_id)[4:] == head + encode(request, version)
                assert decode_request_header(head) == (RequestHeader(key, version, 77, client_id), len(head))
            answer = answered + encode(response, version)
            assert encode_response(response, (key, version), 77)[4:] == answer
            assert decode_response(key, version, answer) == (77, response)


def test_the_client_id_keeps_the_old_string_in_a_flexible_header() -> None:
    frame = encode_request(messages.VoteRequest(), 2, 1, "ab")
    assert frame[4:17] == b"\x00\x34\x00\x02\x00\x00\x00\x01\x00\x02ab\x00"


def test_unknown_tags_in_a_header_are_skipped() -> None:
    head = b"\x00\x34\x00\x02\x00\x00\x00\x01\x00\x02ab"
    header, offset = decode_request_header(head + b"\x01\x05\x03xyz" + b"body")
    assert (header.client_id, offset) == ("ab", len(head) + 6)


def test_a_client_id_that_is_not_utf_8_is_kept_readable() -> None:
    header, _ = decode_request_header(b"\x00\x34\x00\x02\x00\x00\x00\x01\x00\x02\xff<\x00")
    assert header.client_id == "\N{REPLACEMENT CHARACTER}<"


def test_api_versions_is_answered_with_a_header_without_tags() -> None:
    """KIP-511: the client does not know yet what the server speaks."""
    answer = encode_response(messages.ApiVersionsResponse(error_code=0), (ApiKey.API_VERSIONS, 4), 5)
    assert answer[4:8] == b"\x00\x00\x00\x05"
    assert answer[8:10] == b"\x00\x00"
    assert decode_response(ApiKey.API_VERSIONS, 4, answer[4:])[0] == 5


def test_a_refused_api_versions_answer_is_read_as_version_0() -> None:
    refused = messages.ApiVersionsResponse(
        error_code=35, api_keys=(messages.ApiVersionsResponseApiVersion(api_key=18, max_version=4),)
    )
    frame = encode_response(refused, (ApiKey.API_VERSIONS, 0), 5)[4:]
    assert decode_response(ApiKey.API_VERSIONS, 4, frame) == (5, refused)


def test_the_header_of_an_unsupported_version_can_still_be_read() -> None:
    header, offset = decode_request_header(b"\x00\x12\x00\x63\x00\x00\x00\x09\x00\x01c\x00rest")
    assert (header.api_key, header.api_version, header.correlation_id, offset) == (ApiKey.API_VERSIONS, 99, 9, 12)
    with pytest.raises(UnsupportedVersion):
        decode_request_body(header, b"\x00\x12\x00\x63\x00\x00\x00\x09\x00\x01c\x00rest", offset)


def test_bytes_after_a_request_are_ignored_as_in_kafka() -> None:
    frame = encode_request(messages.VoteRequest(cluster_id="c"), 2, 1, "x")[4:] + b"more"
    header, offset = decode_request_header(frame)
    assert decode_request_body(header, frame, offset) == messages.VoteRequest(cluster_id="c")


def test_an_answer_to_a_fetch_is_decoded_from_a_buffer_that_is_used_again_afterwards() -> None:
    aborted = messages.FetchResponseAbortedTransaction(producer_id=1, first_offset=2)
    partition = messages.FetchResponsePartitionData(records=b"r" * 100, aborted_transactions=(aborted,))
    topic = messages.FetchResponseFetchableTopicResponse(topic_id=UUID(int=7), partitions=(partition,))
    endpoint = messages.FetchResponseNodeEndpoint(node_id=1, host="host", port=9, rack="rack")
    answers = {
        18: messages.FetchResponse(responses=(topic,), node_endpoints=(endpoint,)),
        4: messages.FetchResponse(
            responses=(messages.FetchResponseFetchableTopicResponse(topic="t", partitions=(partition,)),)
        ),
    }
    for version, answer in answers.items():
        buffer = bytearray(encode_response(answer, (ApiKey.FETCH, version), 3)[4:])
        found = decode_response(ApiKey.FETCH, version, memoryview(buffer))
        buffer[:] = bytes(len(buffer))
        assert found == decode_response(ApiKey.FETCH, version, encode_response(answer, (ApiKey.FETCH, version), 3)[4:])
        assert found[1] == answer


def test_large_records_make_the_same_frame_as_small_ones() -> None:
    for size in (10, 16_000, 70_000):
        partition = messages.FetchResponsePartitionData(records=b"r" * size)
        topic = messages.FetchResponseFetchableTopicResponse(partitions=(partition,))
        response = messages.FetchResponse(responses=(topic,))
        frame = encode_response(response, (ApiKey.FETCH, 18), 3)
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        assert decode_response(ApiKey.FETCH, 18, frame[4:]) == (3, response)
