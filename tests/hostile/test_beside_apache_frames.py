"""Malformed, truncated and random requests to a controller: ours closes and answers as Apache's node does."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import (
    ApiVersionsRequest,
    CreateAclsRequest,
    CreateAclsRequestAclCreation,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
    DescribeAclsRequest,
    DescribeClusterRequest,
)
from tests.hostile.frames import (
    NO_REQUESTS,
    TIME_ENOUGH_MS,
    UNUSUAL,
    Sent,
    cut_requests,
    frame,
    header,
    outcome,
    request,
    whole_requests,
)
from tests.hostile.raft_requests import fetch as fetch_request
from tests.hostile.twins import CLOSED, SILENT, Twins, View, running_twins, view
from tests.interop.conclave import Quorum, RawBroker, controller_client, create_topics
from tests.interop.kafka import PATIENCE_S

pytestmark = pytest.mark.interop

AT_ONCE = 16
TRIES = 5
MAY_MOVE_THE_EPOCH = {
    *(ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH),
    *(ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER, ApiKey.UPDATE_RAFT_VOTER),
}

SEVERAL_FAULTS_AT_ONCE = {
    *(ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.ELECT_LEADERS),
    *(ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_PARTITION_REASSIGNMENTS),
    *(ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.CREATE_DELEGATION_TOKEN),
    *(ApiKey.CONTROLLER_REGISTRATION, ApiKey.ASSIGN_REPLICAS_TO_DIRS),
}
"""APIs whose random requests have several errors, of which either may be reported first.

One of them, ControllerRegistration, makes Apache's leader resign.
"""
NOT_NOW = {ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT}
EVERY_ACL = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    folder: Path = tmp_path_factory.mktemp("twins")
    patient = {"controller_quorum_fetch_timeout_ms": 20_000, "broker_session_timeout_ms": 600_000}
    with running_twins(folder, **patient) as found:
        before = asyncio.run(view(found.ours))
        yield found
        after = asyncio.run(view(found.ours))
        assert (after.leader, after.epoch) == (before.leader, before.epoch)
        for process in found.ours.processes.values():
            assert "Traceback" not in process.output, process.output


async def views(twins: Twins) -> list[View]:
    return list(await asyncio.gather(*(view(each) for each in twins.both)))


Compared = tuple[Sent, Any, Any]


async def differences(twins: Twins, cases: list[Sent]) -> list[Compared]:
    """Send each case to both quorums. Return (case, ours, Apache's) where the outcomes differ.

    A case is repeated when a leader changed meanwhile, because it reached the wrong node, or when a node was too slow.
    """
    sure: list[Compared] = []
    for _ in range(TRIES):
        before = await views(twins)
        found = await _differences(before, cases)
        if not found:
            break
        if [each.term for each in await views(twins)] == [each.term for each in before]:
            sure += [each for each in found if not _is_held_up(each)]
            found = [each for each in found if _is_held_up(each)]
        cases = [case for case, _, _ in found]
    return sure + found


async def _differences(asked: list[View], cases: list[Sent]) -> list[Compared]:
    ours, apache = asked
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(case: Sent) -> Compared:
        async with slots:
            return case, await outcome(case, ours), await outcome(case, apache)

    return [found for found in await asyncio.gather(*map(one, cases)) if found[1] != found[2]]


def _is_held_up(found: Compared) -> bool:
    return any(code in NOT_NOW for answer in found[1:] for code in _codes(answer))


def _codes(answer: Any) -> Iterator[int]:
    """Return the error codes at any depth of an answer."""
    if isinstance(answer, dict):
        yield from (value for name, value in answer.items() if name == "error_code")
    for each in answer.values() if isinstance(answer, dict) else answer if isinstance(answer, list) else ():
        yield from _codes(each)


def shown(found: list[Compared]) -> str:
    return "\n".join(f"{case.label}\n  ours   {ours}\n  apache {theirs}" for case, ours, theirs in found[:30])


def test_a_malformed_request_closes_the_connection_on_both(twins: Twins) -> None:
    async def scenario() -> None:
        for each in await views(twins):
            found = {case.label: await outcome(case, each) for case in NO_REQUESTS}
            assert {label: what for label, what in found.items() if what != CLOSED} == {}

    asyncio.run(scenario())


def test_unusual_requests_get_the_same_answer(twins: Twins) -> None:
    found = asyncio.run(differences(twins, UNUSUAL))
    assert found == [], shown(found)


def test_a_body_truncated_at_any_byte_closes_the_connection_on_both(twins: Twins) -> None:
    found = asyncio.run(differences(twins, list(cut_requests())))
    assert found == [], shown(found)


def test_random_requests_are_closed_or_answered_as_by_apache(twins: Twins) -> None:
    def is_same_kind(ours: Any, theirs: Any) -> bool:
        return SILENT not in (ours, theirs) and (ours == CLOSED) == (theirs == CLOSED)

    cases = list(whole_requests(MAY_MOVE_THE_EPOCH))
    several = [each for each in cases if ApiKey(each.api_key) in SEVERAL_FAULTS_AT_ONCE]

    async def scenario() -> tuple[list[Compared], list[Compared]]:
        exact = await differences(twins, [each for each in cases if each not in several])
        return exact, await _differences(await views(twins), several)

    answers, more = asyncio.run(scenario())
    kinds = [each for each in more if not is_same_kind(each[1], each[2])]
    assert kinds == [], shown(kinds)
    assert answers == [], shown(answers)


def acl(**changed: Any) -> CreateAclsRequest:
    """Return a CreateAcls that is valid except for `changed`."""
    fine = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:x"}
    rest = {"host": "*", "operation": 3, "permission_type": 3}
    return CreateAclsRequest(creations=(CreateAclsRequestAclCreation(**{**fine, **rest, **changed}),))


ACL_ELEMENTS = [
    *({"resource_type": each} for each in (0, 1, 77)),
    *({"operation": each} for each in (0, 1, 99)),
    *({"resource_pattern_type": each} for each in (0, 1, 2, 55)),
    *({"permission_type": each} for each in (0, 1, 44)),
    *({"principal": each} for each in ("", "nobody")),
]


def test_acls_of_any_or_unknown_kind_are_refused_as_apache_refuses_them(twins: Twins) -> None:
    """Without an authorizer, the default: SECURITY_DISABLED, or a closed connection."""
    cases = [
        request(f"acl {each}", acl(**each), version, role)
        for each in ACL_ELEMENTS
        for version in (1, 3)
        for role in ("leader", "follower")
    ]
    cases += [
        request(f"acls of {name} 0", DescribeAclsRequest(**{**EVERY_ACL, name: 0}), 3, role)
        for name in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
        for role in ("leader", "follower")
    ]
    found = asyncio.run(differences(twins, cases))
    assert found == [], shown(found)


@pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31)])
def test_a_request_without_time_is_timed_out_and_has_no_effect(twins: Twins, timeout_ms: int) -> None:
    late = CreateTopicsRequest(
        topics=(CreateTopicsRequestCreatableTopic(name="late", num_partitions=1, replication_factor=1),),
        timeout_ms=timeout_ms,
    )
    cases = [
        request(f"timeout {timeout_ms}", late, version, role) for version in (2, 7) for role in ("leader", "follower")
    ]
    cases += [request(f"delete {timeout_ms}", DeleteTopicsRequest(topic_names=("late",), timeout_ms=timeout_ms), 5)]

    async def scenario() -> None:
        found = await differences(twins, cases)
        assert found == [], shown(found)
        ours, _ = await views(twins)
        assert (await outcome(cases[0], ours))["topics"][0]["error_code"] == ErrorCode.REQUEST_TIMED_OUT

    asyncio.run(scenario())


def test_a_request_above_the_limits_is_refused_as_a_whole(twins: Twins) -> None:
    """10,001 partitions, and 20,000 topics with a broker. The broker leaves, so that other tests find none."""

    async def codes(quorum: Quorum) -> list[list[int]]:
        client = controller_client(quorum.bootstrap)
        broker = RawBroker(101, quorum.cluster_id, client)
        try:
            await broker.register()
            asked = [create_topics(["many"], 10_001), create_topics([f"t{n}" for n in range(20_000)])]
            asked.append(create_topics(["many", "t0"]))
            answers = [await client.request(each) for each in asked]
            doomed = tuple(DeleteTopicsRequestDeleteTopicState(name=name) for name in ("many", "t0"))
            deleted = await client.request(DeleteTopicsRequest(topics=doomed, timeout_ms=TIME_ENOUGH_MS))
            assert [topic.error_code for topic in deleted.responses] == [0, 0]
            return [sorted({topic.error_code for topic in answer.topics}) for answer in answers]
        finally:
            await broker.leave()
            client.close()

    async def scenario() -> None:
        ours, theirs = [await codes(each) for each in twins.both]
        assert ours == theirs == [[44], [44], [0]]

    asyncio.run(scenario())


@pytest.mark.parametrize("api_key", [ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.DESCRIBE_DELEGATION_TOKEN])
def test_an_api_that_is_advertised_but_not_served_is_answered_even_where_apache_never_answers(
    twins: Twins, api_key: ApiKey
) -> None:
    """Null users or owners: Apache's node fails while it builds the error, and never answers."""
    version = 0 if api_key == ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS else 2
    null = Sent("null", frame(header(api_key, version) + b"\x00\x00"), int(api_key), version)

    async def scenario() -> None:
        ours, _ = await views(twins)
        assert (await outcome(null, ours))["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR

    asyncio.run(scenario())


def test_pipelined_requests_are_answered_in_order_on_both(twins: Twins) -> None:
    """Some are slow: a Fetch that waits, a topic that must be committed."""

    async def scenario() -> None:
        for each in await views(twins):
            fetch = fetch_request(version=18, max_wait_ms=300)(each, "leader")
            asked = [(ApiVersionsRequest(), 0), (fetch, 18), (DescribeClusterRequest(endpoint_type=2), 1)] * 4
            reader, writer = await asyncio.open_connection("127.0.0.1", each.port("leader"))
            writer.writelines(encode_request(body, version, n, "x") for n, (body, version) in enumerate(asked))
            for n, (body, version) in enumerate(asked):
                async with asyncio.timeout(PATIENCE_S):
                    size = int.from_bytes(await reader.readexactly(4))
                    found, _ = decode_response(body.API_KEY, version, await reader.readexactly(size))
                assert found == n
            writer.close()

    asyncio.run(scenario())
