"""Error responses of every version of every API that a controller serves."""

from itertools import groupby
from typing import Any

import pytest

from kraft_core.controller.error_responses import error_response
from kraft_core.protocol import messages as m
from kraft_core.protocol.api_keys import APIS, ApiKey, request_class
from kraft_core.protocol.codec import decode, encode
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.wire import Message
from tests.protocol.golden import Vector, vectors

VECTORS = {name: list(lines) for name, lines in groupby(sorted(vectors(), key=lambda v: v.name), lambda v: v.name)}
SERVED = [key for key, api in APIS.items() if "controller" in api.listeners]
CODE = ErrorCode.NOT_CONTROLLER


def error_codes(value: Any) -> list[int]:
    """Return every error_code in a message."""
    if isinstance(value, tuple):
        return [code for each in value for code in error_codes(each)]
    if not isinstance(value, Message):
        return []
    code = getattr(value, "error_code", None)
    found = [] if code is None else [code]
    return found + [code for name in value.__struct_fields__ for code in error_codes(getattr(value, name))]


def requests_of(key: ApiKey) -> list[Vector]:
    return VECTORS.get(request_class(key).__name__, [])


@pytest.mark.parametrize("key", SERVED, ids=lambda key: key.name)
def test_the_error_survives_the_wire_in_every_version(key: ApiKey) -> None:
    """Requests with items, written by Kafka's classes, get the error in each version."""
    examples = requests_of(key)
    assert examples, f"no example of {key.name}"
    for vector in examples:
        request = decode(request_class(key), vector.version, vector.data)
        answer = error_response(request, vector.version, CODE, "somebody else leads")
        on_the_wire = decode(type(answer), vector.version, encode(answer, vector.version))
        codes = error_codes(on_the_wire)
        if codes:
            assert CODE in codes, f"{key.name} v{vector.version}"
        else:
            assert not any(isinstance(value, tuple) and value for value in vector.shown.values()), key.name


@pytest.mark.parametrize(
    ("request_message", "items"),
    [
        (m.CreateTopicsRequest(topics=(m.CreateTopicsRequestCreatableTopic(name="t"),)), lambda a: a.topics),
        (m.DeleteTopicsRequest(topics=(m.DeleteTopicsRequestDeleteTopicState(name="t"),)), lambda a: a.responses),
        (m.DeleteTopicsRequest(topic_names=("t",)), lambda a: a.responses),
        (
            m.CreatePartitionsRequest(topics=(m.CreatePartitionsRequestCreatePartitionsTopic(name="t"),)),
            lambda a: a.results,
        ),
        (m.AlterConfigsRequest(resources=(m.AlterConfigsRequestAlterConfigsResource(),)), lambda a: a.responses),
        (m.CreateAclsRequest(creations=(m.CreateAclsRequestAclCreation(),) * 2), lambda a: a.results),
        (m.DeleteAclsRequest(filters=(m.DeleteAclsRequestDeleteAclsFilter(),) * 2), lambda a: a.filter_results),
        (
            m.AlterUserScramCredentialsRequest(
                deletions=(m.AlterUserScramCredentialsRequestScramCredentialDeletion(name="b"),),
                upsertions=(m.AlterUserScramCredentialsRequestScramCredentialUpsertion(name="a"),),
            ),
            lambda a: a.results,
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)  # fmt: skip
def test_a_response_of_items_has_the_error_in_every_item(request_message: Message, items: Any) -> None:
    answer = error_response(request_message, type(request_message).VERSIONS[1], CODE, "why")
    assert {item.error_code for item in items(answer)} == {CODE}


def test_internal_errors_do_not_leak() -> None:
    answer = error_response(m.UnregisterBrokerRequest(), 0, ErrorCode.UNKNOWN_SERVER_ERROR, "division by zero")
    assert answer.error_message is None


def test_an_old_fetch_response_has_the_error_in_every_partition() -> None:
    partition = m.FetchRequestFetchPartition(partition=0)
    request = m.FetchRequest(topics=(m.FetchRequestFetchTopic(topic="t", partitions=(partition,)),))
    assert error_codes(error_response(request, 12, CODE)) == [CODE, CODE]
    assert error_codes(error_response(request, 13, CODE)) == [CODE]


def test_an_unsupported_api_versions_request_learns_which_versions_there_are() -> None:
    answer = error_response(m.ApiVersionsRequest(), 0, ErrorCode.UNSUPPORTED_VERSION)
    assert [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys] == [(18, 0, 4)]
