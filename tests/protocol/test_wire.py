"""Declarations, versions and defaults: what the compilers do with fields that a version lacks."""

import subprocess
import sys
from typing import Annotated
from uuid import UUID

import pytest

from kraft_core.protocol import messages
from kraft_core.protocol.api_keys import APIS, ApiKey, apis_of, request_class, response_class
from kraft_core.protocol.codec import decode, encode
from kraft_core.protocol.errors import EncodeError, ErrorCode, KafkaError, UnsupportedVersion
from kraft_core.protocol.metadata_records import RECORD_CLASSES, PartitionRecord, decode_record, encode_record
from kraft_core.protocol.wire import Message, fields_of, wire

INT32_MAX = 2**31 - 1


def test_a_field_the_version_lacks_keeps_its_default() -> None:
    asked = messages.VoteRequest(cluster_id="c", voter_id=7)
    assert decode(messages.VoteRequest, 0, encode(asked, 0)) == messages.VoteRequest(cluster_id="c", voter_id=-1)
    assert decode(messages.VoteRequest, 1, encode(asked, 1)) == asked


def test_a_value_that_would_be_lost_is_refused_unless_the_field_is_ignorable() -> None:
    partition = messages.VoteRequestPartitionData(pre_vote=True)
    request = messages.VoteRequest(topics=(messages.VoteRequestTopicData(partitions=(partition,)),))
    assert encode(request, 2)
    with pytest.raises(EncodeError, match=r"topics\.partitions\.pre_vote") as failure:
        encode(request, 1)
    assert failure.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_response_drops_what_an_old_version_lacks() -> None:
    endpoint = messages.VoteResponseNodeEndpoint(node_id=1, host="h", port=9)
    response = messages.VoteResponse(error_code=3, node_endpoints=(endpoint,))
    assert decode(messages.VoteResponse, 0, encode(response, 0)) == messages.VoteResponse(error_code=3)


def test_a_removed_field_is_still_there_for_old_versions() -> None:
    old = messages.AlterPartitionRequestPartitionData(new_isr=(1, 2))
    topic = messages.AlterPartitionRequestTopicData(partitions=(old,))
    request = messages.AlterPartitionRequest(topics=(topic,))
    assert decode(messages.AlterPartitionRequest, 2, encode(request, 2)) == request
    with pytest.raises(EncodeError, match="new_isr"):
        encode(request, 3)


@pytest.mark.parametrize("version", [-1, 3])
def test_a_version_outside_the_range_is_unsupported(version: int) -> None:
    with pytest.raises(UnsupportedVersion, match="0 to 2"):
        encode(messages.VoteRequest(), version)
    with pytest.raises(UnsupportedVersion):
        decode(messages.VoteRequest, version, b"")


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (messages.BrokerHeartbeatRequest(broker_id=INT32_MAX + 1), "broker_id"),
        (messages.VoteResponse(error_code=40_000), "error_code"),
        (messages.BrokerRegistrationRequest(cluster_id="x" * 32_768), "cluster_id"),
        (messages.BrokerRegistrationRequest(cluster_id=None), "cluster_id"),  # type: ignore[arg-type]  # null
        (messages.BrokerRegistrationRequest(listeners=None), "listeners"),  # type: ignore[arg-type]  # null on purpose
        (messages.BrokerRegistrationRequest(cluster_id="\ud800"), "cluster_id"),
        (
            messages.ElectLeadersRequest(
                topic_partitions=(messages.ElectLeadersRequestTopicPartitions(partitions=(1 << 40,)),)
            ),
            "topic_partitions.partitions",
        ),
    ],
)
def test_a_value_that_does_not_fit_names_its_field(message: Message, field: str) -> None:
    with pytest.raises(EncodeError) as failure:
        encode(message, message.VERSIONS[0])
    assert failure.value.field == field


def test_a_tagged_field_is_written_only_when_it_differs_from_its_default() -> None:
    plain = PartitionRecord(topic_id=UUID(int=5), replicas=(1, 2))
    with_elr = PartitionRecord(topic_id=UUID(int=5), replicas=(1, 2), eligible_leader_replicas=())
    assert encode_record(plain, 2)[-1:] == b"\x00"
    assert encode_record(with_elr, 2)[-4:] == b"\x01\x01\x01\x01"
    assert decode_record(encode_record(plain, 2)) == plain
    assert decode_record(encode_record(with_elr, 2)) == with_elr


def test_a_record_of_an_old_version_refuses_fields_it_lacks() -> None:
    record = PartitionRecord(topic_id=UUID(int=5), eligible_leader_replicas=(1,))
    with pytest.raises(EncodeError, match="eligible_leader_replicas"):
        encode_record(record, 1)


def test_equal_lists_and_uuids_are_decoded_to_the_same_object() -> None:
    """A million partitions share few replica lists and few directories."""
    directories = (UUID(int=1 << 100), UUID(int=2 << 100))
    first = decode_record(encode_record(PartitionRecord(replicas=(1, 2, 3), directories=directories), 1))
    second = decode_record(encode_record(PartitionRecord(isr=(1, 2, 3), directories=directories[::-1]), 1))
    assert isinstance(first, PartitionRecord)
    assert isinstance(second, PartitionRecord)
    assert first.replicas is second.isr
    assert first.directories[0] is second.directories[1]
    assert first.directories == directories


def test_a_shared_list_is_encoded_like_separate_equal_ones() -> None:
    configs = tuple(messages.CreateTopicsResponseCreatableTopicConfigs(name=f"c{n}", value=str(n)) for n in range(3))
    others = (messages.CreateTopicsResponseCreatableTopicConfigs(name="other"),)

    def response(*lists: tuple[messages.CreateTopicsResponseCreatableTopicConfigs, ...] | None) -> bytes:
        results = [messages.CreateTopicsResponseCreatableTopicResult(name="t", configs=each) for each in lists]
        return encode(messages.CreateTopicsResponse(topics=tuple(results)), 7)

    def copy(
        configs: tuple[messages.CreateTopicsResponseCreatableTopicConfigs, ...],
    ) -> tuple[messages.CreateTopicsResponseCreatableTopicConfigs, ...]:
        return tuple(config for config in configs)

    shared = response(configs, configs, others, configs, None, configs, ())
    assert shared == response(configs, copy(configs), copy(others), copy(configs), None, copy(configs), ())


def test_a_response_may_contain_views_of_a_log_without_a_copy() -> None:
    log = memoryview(b"0123456789")
    partition = messages.FetchResponsePartitionData(records=log[2:5])  # type: ignore[arg-type]  # any bytes-like
    topic = messages.FetchResponseFetchableTopicResponse(partitions=(partition,))
    decoded = decode(messages.FetchResponse, 18, encode(messages.FetchResponse(responses=(topic,)), 18))
    assert decoded.responses[0].partitions[0].records == b"234"


def test_messages_cannot_be_changed_and_compare_by_value() -> None:
    request = messages.VoteRequest(cluster_id="c")
    with pytest.raises(AttributeError):
        request.cluster_id = "d"  # type: ignore[misc]  # the point of the test
    assert request == messages.VoteRequest(cluster_id="c")
    assert {request: 1}[messages.VoteRequest(cluster_id="c")] == 1
    assert repr(request) == "VoteRequest(cluster_id='c')"


def test_a_field_without_a_wire_format_is_an_error_in_the_declaration() -> None:
    class Undeclared(Message):
        broker_id: int = 0

    class Unknown(Message):
        broker_id: Annotated[int, wire("int24")] = 0

    class Bare(Message):
        broker_id: Annotated[int, wire("int32")]

    for mistaken in (Undeclared, Unknown, Bare):
        with pytest.raises(TypeError, match=mistaken.__name__):
            list(fields_of(mistaken))


def test_the_table_of_apis_agrees_with_the_classes() -> None:
    for key, api in APIS.items():
        for message_class in (request_class(key), response_class(key)):
            assert key == message_class.API_KEY
            assert (api.min_version, api.max_version) == message_class.VERSIONS
            assert api.flexible_version == message_class.FLEXIBLE
    assert all(key == record_class.API_KEY for key, record_class in RECORD_CLASSES.items())


def test_a_controller_listener_has_the_41_apis_of_kafka() -> None:
    """What a JVM controller lists in ApiVersions, with its versions."""
    apis = apis_of("controller")
    assert len(apis) == 41
    expected = {
        ApiKey.FETCH: (4, 18),
        ApiKey.CREATE_TOPICS: (2, 7),
        ApiKey.ALTER_PARTITION: (2, 3),
        ApiKey.VOTE: (0, 2),
    }
    assert {key: (apis[key].min_version, apis[key].max_version) for key in expected} == expected
    assert ApiKey.PRODUCE not in apis


def test_an_api_without_messages_and_an_unknown_key_raise_different_errors() -> None:
    with pytest.raises(AttributeError):
        request_class(ApiKey.SHARE_FETCH)
    with pytest.raises(ValueError, match="9999"):
        request_class(9999)


def test_an_unknown_error_code_is_an_unknown_server_error() -> None:
    assert ErrorCode(30_000) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert ErrorCode(41).retriable
    assert KafkaError(ErrorCode(41)).message == ErrorCode.NOT_CONTROLLER.default_message


def test_modules_of_messages_are_loaded_at_first_use() -> None:
    program = """
import sys
from kraft_core.protocol import api_keys, framing, messages
loaded = [name for name in sys.modules if name.startswith("kraft_core.protocol.messages.")]
assert loaded == [], loaded
messages.VoteRequest
api_keys.response_class(52)
loaded = [name for name in sys.modules if name.startswith("kraft_core.protocol.messages.")]
assert loaded == ["kraft_core.protocol.messages.quorum"], loaded
"""
    subprocess.run([sys.executable, "-c", program], check=True)
