"""The same requests to Apache's controller and to ours: responses equal field by field, and equal records."""

import asyncio
import base64
import itertools
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft_core.controller.partitions.replication_control_manager import FENCE
from kraft_core.image.scram_mechanism import SCRAM_SHA_256
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import (
    BrokerRegistrationResponse,
    CreateDelegationTokenResponse,
    CreateTopicsResponse,
    DescribeClusterRequest,
    EnvelopeResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kraft_core.protocol.metadata_records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    decode_record,
)
from kraft_core.protocol.record_batch import read_batches
from kraft_core.protocol.wire import Message
from kraft_core.security.plain import PlainSaslClient
from kraft_core.security.sasl import SaslClient
from kraft_core.security.scram import ScramSaslClient
from kraft_core.security.scram_formatter import new_nonce
from tests.interop import kafka
from tests.interop.answers.controller_requests import all_requests, lifecycle, secure_requests
from tests.interop.answers.controller_requests.brokers import heartbeat
from tests.interop.answers.controller_requests.case import BY_TOKEN, UNKNOWN_ID, Case, Known, fixed
from tests.interop.answers.controller_requests.histories import history
from tests.interop.conclave import Quorum
from tests.security.secure_quorum import PASSWORD, SCRAM_MODULE, SecureQuorum

pytestmark = pytest.mark.interop

SETTLES_WITHIN_S = 20
NOT_COMPARED = {"throttle_time_ms"}
CLOSED = "closed"
OF_ITS_OWN = {"NoOpRecord", "RegisterControllerRecord"}
"""Records that each controller writes about itself."""
DRAWN = {"token_id", "hmac"}
TIMES = {
    "issue_timestamp",
    "issue_timestamp_ms",
    "expiry_timestamp_ms",
    "expiration_timestamp",
    "max_timestamp",
    "max_timestamp_ms",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
}
OFFSETS = {"high_watermark", "log_end_offset", "finalized_features_epoch"}
UNORDERED = {
    "DeleteTopicsResponse": "responses",  # shuffled
    "DescribeConfigsResponseDescribeConfigsResult": "configs",
    "ListPartitionReassignmentsResponse": "topics",
    "ListPartitionReassignmentsResponseOngoingTopicReassignment": "partitions",
    "DescribeAclsResponse": "resources",
    "DescribeAclsResponseDescribeAclsResource": "acls",
    "DeleteAclsResponseDeleteAclsFilterResult": "matching_acls",
    "AlterUserScramCredentialsResponse": "results",
    "AlterClientQuotasResponse": "entries",
    "AlterClientQuotasResponseEntryData": "entity",
    "AlterClientQuotasRequestEntryData": "entity",
    "ClientQuotaRecord": "entity",
    "ApiVersionsResponse": "supported_features finalized_features",
    "CreateTopicsResponse": "topics",  # with some rejections
}
"""Fields in the order of a hash table in Apache's responses."""
WORDS = {
    each.default_message: each.name
    for each in (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
    )
} | {
    "Topic authorization failed.": "TOPIC_AUTHORIZATION_FAILED",
    "Cluster authorization failed.": "CLUSTER_AUTHORIZATION_FAILED",
    "Group authorization failed.": "GROUP_AUTHORIZATION_FAILED",
    "This most likely occurs because of a request being malformed by the client library or the message was sent to "
    "an incompatible broker. See the broker logs for more details.": "INVALID_REQUEST",
}
"""The default texts of error codes on both sides."""
NEEDS = re.compile(r"(?:Request Request\(.*\)|\w+) needs \w+ permission(?:\.| on the cluster\.)")
"""Apache's message contains an object, ours the name of the request."""
IN_OWN_WORDS = {"AddRaftVoterResponse", "RemoveRaftVoterResponse"}
"""Requests whose error messages differ in wording only."""


@dataclass
class Side:
    """One controller and the state from its responses."""

    quorum: Quorum
    known: Known
    logs_in: bool = False
    acls: dict[UUID, str] = field(default_factory=dict)
    epochs: dict[int, str] = field(default_factory=dict)
    session_lifetimes: dict[str, int] = field(default_factory=dict)
    asked_at: float | None = None
    longest_pause_s: float = 0.0
    now_ms: int | None = None  # when a record was written; a response is used when it arrives
    _connections: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=dict)

    async def ask(self, case: Case) -> Message | str:
        """Send one request. Return the response, or that the connection was closed."""
        message = case.build(self.known)
        self.note_pause()
        try:
            answer = await self._exchange(case.user, message, case.version)
        except (EOFError, ConnectionError):
            await self.hang_up(case.user)
            return CLOSED
        self._learn(case, message, answer)
        return answer

    def note_pause(self) -> None:
        """Record the longest time between two requests."""
        now = time.monotonic()
        self.longest_pause_s = max(self.longest_pause_s, now - (self.asked_at or now))
        self.asked_at = now

    async def wait_until_it_serves(self) -> None:
        """Wait until the controller is active and has applied its own registration."""
        deadline = time.monotonic() + kafka.PATIENCE_S
        while True:
            stranger: Any = await self.ask(fixed("heartbeat of a stranger", heartbeat(999, 1), 1))
            found: Any = await self.ask(fixed("controllers", DescribeClusterRequest(endpoint_type=2), 1))
            if CLOSED not in (stranger, found) and stranger.error_code != ErrorCode.NOT_CONTROLLER and found.brokers:
                return
            assert time.monotonic() < deadline, (stranger, found)
            await asyncio.sleep(0.1)

    async def _exchange(self, user: str, message: Message, version: int) -> Message:
        if user not in self._connections:
            self._connections[user] = await asyncio.open_connection("127.0.0.1", self.quorum.ports[0])
            if self.logs_in:
                await self._log_in(user)
        reader, writer = self._connections[user]
        writer.write(encode_request(message, version, 1, "same"))
        async with asyncio.timeout(kafka.PATIENCE_S):
            size = int.from_bytes(await reader.readexactly(4))
            return decode_response(message.API_KEY, version, await reader.readexactly(size))[1]

    async def _log_in(self, user: str) -> None:
        """Log in with name and password, or with the newest delegation token."""
        if user != BY_TOKEN:
            login: SaslClient = PlainSaslClient(user, PASSWORD)
        else:
            shown = base64.b64encode(self.known.hmac).decode()
            login = ScramSaslClient(SCRAM_SHA_256, self.known.token_id, shown, new_nonce(), is_token=True)
        mechanism = "SCRAM-SHA-256" if user == BY_TOKEN else "PLAIN"
        await self._exchange(user, SaslHandshakeRequest(mechanism=mechanism), 1)
        auth_bytes = login.evaluate_challenge(b"")
        while auth_bytes:
            said: Any = await self._exchange(user, SaslAuthenticateRequest(auth_bytes=auth_bytes), 2)
            assert not said.error_code, said
            self.session_lifetimes[user] = said.session_lifetime_ms
            auth_bytes = b"" if login.is_complete else login.evaluate_challenge(said.auth_bytes)

    async def hang_up(self, *users: str) -> None:
        """Close the connections of these users, or all."""
        for user in users or tuple(self._connections):
            writer = self._connections.pop(user)[1]
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _learn(self, case: Case, message: Any, answer: Message) -> None:
        if isinstance(answer, CreateTopicsResponse) and not message.validate_only and case.version >= 7:
            for topic in answer.topics:
                if not topic.error_code:
                    self.known.topic_ids[topic.name] = topic.topic_id
        if isinstance(answer, BrokerRegistrationResponse) and not answer.error_code:
            self.known.broker_epochs[message.broker_id] = answer.broker_epoch
            self.epochs.setdefault(answer.broker_epoch, f"epoch {len(self.epochs)}, of {message.broker_id}")
        if isinstance(answer, CreateDelegationTokenResponse) and not answer.error_code:
            self.known.token_id, self.known.hmac = answer.token_id, answer.hmac
        if isinstance(answer, EnvelopeResponse) and answer.response_data and case.inside is not None:
            inside = case.inside
            self._learn(inside, inside.build(self.known), _inside(inside, answer))

    def comparable(self, case: Case, answer: Message | str) -> Any:
        """Return a response in a form without random ids, times, ports and offsets."""
        if isinstance(answer, EnvelopeResponse) and answer.response_data and case.inside is not None:
            return {
                "inside": self.comparable(case.inside, _inside(case.inside, answer)),
                "error_code": answer.error_code,
            }
        return self.in_words(answer)

    def in_words(self, value: Any, name: str = "") -> Any:
        """Return a response, a record or a part of one in that form."""
        if isinstance(value, Message):
            kind = type(value).__name__
            fields = {each: self.in_words(getattr(value, each), each) for each in value.__struct_fields__}
            if kind in IN_OWN_WORDS:
                fields["error_message"] = bool(fields["error_message"])
            for each in UNORDERED.get(kind, "").split():
                fields[each] = sorted(fields[each] or [], key=repr)
            return {kind: {each: said for each, said in fields.items() if each not in NOT_COMPARED}}
        if isinstance(value, tuple):
            return [self.in_words(each, name) for each in value]
        if name == "documentation":
            return bool(value)
        if name == "error_message" and value:
            return WORDS.get(value) or ("CLUSTER_AUTHORIZATION_FAILED" if NEEDS.fullmatch(value) else value)
        if name in DRAWN and value:
            return f"drawn, of {len(value)}"
        if name in TIMES and value > 0:
            return f"in {round((value - (self.now_ms or time.time() * 1000)) / 120_000)} times two minutes"
        if name in OFFSETS and value > 0:
            return "an offset"
        if value in self.acls and isinstance(value, UUID):
            return self.acls[value]
        if name == "topic_id" and value.int and value != UNKNOWN_ID and value not in self.known.topic_ids.values():
            return "an id"
        if isinstance(value, UUID):
            return next((f"id of {topic}" for topic, found in self.known.topic_ids.items() if found == value), value)
        if isinstance(value, int) and "broker_epoch" in name:
            return self.epochs.get(value, value)
        if name == "port" and value == self.quorum.ports[0]:
            return "the controller's port"
        if name == "value" and isinstance(value, str):
            return value.replace(str(self.quorum.folder), "folder").replace(f":{self.quorum.ports[0]}", ":port")
        return value


def _inside(case: Case, answer: EnvelopeResponse) -> Message:
    message = case.build(Known(""))
    assert answer.response_data is not None
    return decode_response(message.API_KEY, case.version, answer.response_data)[1]


@contextmanager
def two_sides(apache: Quorum, ours: Quorum, *, logs_in: bool = False) -> Iterator[tuple[Side, Side]]:
    """Yield Apache's side and ours, with the same cluster id."""
    ours.cluster_id = apache.cluster_id
    ours.directory_ids = apache.directory_ids
    for quorum in (apache, ours):
        quorum.format(1)
    try:
        apache.start_apache(1)
        ours.start(1)
        for quorum in (apache, ours):
            quorum.wait_for_leader(60)
        yield Side(apache, Known(apache.cluster_id), logs_in), Side(ours, Known(ours.cluster_id), logs_in)
    finally:
        for quorum in (apache, ours):
            quorum.stop_all()


def differences(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """Return the differences of two responses, one per line. A message where Apache has none is no difference."""
    if isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        for key in expected:
            yield from differences(expected[key], found[key], f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (theirs, mine) in enumerate(zip(expected, found, strict=True)):
            yield from differences(theirs, mine, f"{path}/{index}")
    elif expected != found and not (path.endswith("error_message") and expected is None):
        yield f"  {path}: Apache {expected!r}, ours {found!r}"


async def ask_both(sides: tuple[Side, Side], case: Case) -> list[Any]:
    """Return the responses to one request, once neither satisfies the `not_yet` of the case."""
    deadline = time.monotonic() + kafka.PATIENCE_S
    said: dict[int, Any] = {}
    while True:
        waiting = [index for index in range(len(sides)) if index not in said]
        answers = await asyncio.gather(*(sides[index].ask(case) for index in waiting))
        for index, answer in zip(waiting, answers, strict=True):
            if case.not_yet is None or not case.not_yet(answer):
                said[index] = sides[index].comparable(case, answer)
        if len(said) == len(sides):
            return [said[index] for index in range(len(sides))]
        assert time.monotonic() < deadline, f"{case.name}: {answers}"
        for beat in case.meanwhile:
            await asyncio.gather(*(side.ask(beat) for side in sides))
        await asyncio.sleep(0.05)


def changes_nothing(case: Case) -> bool:
    """Return whether a request is read-only."""
    request = type((case.inside or case).build(Known(""))).__name__
    return request.startswith(("ApiVersions", "Describe", "List"))


async def differences_in(sides: tuple[Side, Side], case: Case) -> list[str]:
    """Return the differences of the responses. Read-only requests are repeated until they agree.

    Both controllers answer them from the applied log, which may be a moment behind what they have acknowledged.
    """
    deadline = time.monotonic() + SETTLES_WITHIN_S
    while True:
        expected, answer = await ask_both(sides, case)
        found = list(differences(expected, answer))
        if not found or not changes_nothing(case) or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.05)


def records_of(side: Side) -> list[Any]:
    """Return the metadata records of a log in comparable form, without those that each controller writes about itself.

    Changes of several partitions are in the order of random topic ids, so they are sorted. Apache's controller may
    repeat a change when a broker's replicas leave the ELR; repetitions are removed.
    """
    folder = side.quorum.folder_of(1) / "data" / "__cluster_metadata-0"
    records = [
        (record, batch.max_timestamp)
        for path in sorted(folder.glob("*.log"))
        for batch in read_batches(path.read_bytes())
        if not batch.is_control
        for record in map(decode_record, batch.values())
        if type(record).__name__ not in OF_ITS_OWN
    ]
    side.acls = {
        each.id: f"ACL {each.resource_type} {each.resource_name} {each.pattern_type} {each.principal} {each.operation}"
        for each, _ in records
        if isinstance(each, AccessControlEntryRecord)
    }
    found: list[Any] = []
    for kind, group in itertools.groupby(without_repeated_fencing(records), lambda each: type(each[0])):
        said = []
        for each, side.now_ms in group:
            said.append(side.in_words(each))
        is_unordered = kind in {ClientQuotaRecord, PartitionChangeRecord, RemoveAccessControlEntryRecord}
        found += [each for each, _ in itertools.groupby(sorted(said, key=repr))] if is_unordered else said
    return found


def without_repeated_fencing(records: list[tuple[Any, int]]) -> Iterator[tuple[Any, int]]:
    """Remove the fencing of fenced brokers, which Apache's controller repeats."""
    fenced: dict[int, bool] = {}
    for record, written_ms in records:
        is_change = isinstance(record, BrokerRegistrationChangeRecord)
        if is_change and record.fenced == FENCE and fenced[record.broker_id]:
            continue
        if isinstance(record, RegisterBrokerRecord):
            fenced[record.broker_id] = record.fenced
        elif is_change and record.fenced:
            fenced[record.broker_id] = record.fenced == FENCE
        yield record, written_ms


def compared(apache: Side, ours: Side, cases: list[Case]) -> list[str]:
    """Send each request to both. Return the differing responses, else the differing records."""

    async def ask_all() -> list[str]:
        try:
            for side in (apache, ours):
                await side.wait_until_it_serves()
            return [
                "\n".join((f"{number} {case.name} v{case.version} by {case.user}", *found))
                for number, case in enumerate(cases)
                if (found := await differences_in((apache, ours), case))
            ]
        finally:
            for side in (apache, ours):
                await side.hang_up()

    different = asyncio.run(ask_all())
    for side in (apache, ours):
        side.note_pause()
    return different or [
        f"record {number}:\n  Apache {expected}\n  Ours   {record}"
        for number, (expected, record) in enumerate(itertools.zip_longest(records_of(apache), records_of(ours)))
        if expected != record
    ]


def compare(apache: Side, ours: Side, cases: list[Case]) -> None:
    """Send each request to both, and require equal responses and records."""
    different = compared(apache, ours, cases)
    assert not different, f"{len(different)} differ:\n" + "\n".join(different[:50])


SETTINGS: dict[str, object] = {
    "broker.session.timeout.ms": 3_600_000,
    "auto.leader.rebalance.enable": "false",
    "controller.quorum.append.linger.ms": 0,
    "default.replication.factor": 2,
    "num.partitions": 3,
}


SESSION_MS = 4_000
REQUESTS_BETWEEN_HEARTBEATS = 6
"""Upper bound of requests between two heartbeats of every living broker."""


def test_a_long_list_of_requests_has_the_same_answers_and_records(tmp_path: Path) -> None:
    kafka.require()
    cases = all_requests()
    assert len(cases) > 900
    with two_sides(Quorum(tmp_path / "apache", 1, SETTINGS), Quorum(tmp_path / "ours", 1, SETTINGS)) as (apache, ours):
        compare(apache, ours, cases)


def test_brokers_that_start_and_stop_get_the_same_answers(tmp_path: Path) -> None:
    """Sessions end in this test. It starts over if a pause was so long that a session may have ended too early."""
    kafka.require()
    settings: dict[str, object] = {**SETTINGS, "broker.session.timeout.ms": SESSION_MS}
    different: list[str] = []
    for attempt in range(3):
        both = [Quorum(tmp_path / f"{name}-{attempt}", 1, settings) for name in ("apache", "ours")]
        with two_sides(*both) as (apache, ours):
            different = compared(apache, ours, lifecycle())
        pause_s = max(apache.longest_pause_s, ours.longest_pause_s)
        if not different or pause_s * REQUESTS_BETWEEN_HEARTBEATS * 1000 < SESSION_MS:
            break
    assert not different, f"{len(different)} differ:\n" + "\n".join(different[:50])


def test_random_histories_of_partitions_are_the_same(tmp_path: Path) -> None:
    kafka.require()
    cases = [case for seed in (1, 2, 3) for with_elr in (True, False) for case in history(seed, with_elr=with_elr)]
    both = Quorum(tmp_path / "apache", 1, SETTINGS), Quorum(tmp_path / "ours", 1, SETTINGS)
    with two_sides(*both) as (apache, ours):
        compare(apache, ours, cases)


MORE_SETTINGS = f"""
listener.name.controller.scram-sha-256.sasl.jaas.config={SCRAM_MODULE} required;
listener.name.controller.ssl.client.auth=none
listener.name.controller.sasl.server.max.receive.size=500000
some.plug.in=secret
"""
"""A second SASL mechanism, and configs that DescribeConfigs treats specially."""


def test_users_with_and_without_rights_get_the_same_answers(tmp_path: Path) -> None:
    kafka.require()
    cases = secure_requests()
    assert {case.user for case in cases} == {"alice", "admin", BY_TOKEN}
    settings = {
        **{key.replace(".", "_"): value for key, value in SETTINGS.items()},
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:controller;User:admin",
        "delegation_token_secret_key": "the-same-secret",
    }
    both = [SecureQuorum(tmp_path / name, 1, "SASL_PLAINTEXT", "PLAIN", **settings) for name in ("apache", "ours")]
    for quorum in both:
        path = quorum.config_of(1)
        text = path.read_text().replace("user_admin=", f'user_alice="{PASSWORD}" user_admin=')
        text = text.replace("sasl.enabled.mechanisms=PLAIN", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256")
        path.write_text(f"{text}\n{MORE_SETTINGS}")
    with two_sides(*both, logs_in=True) as (apache, ours):
        compare(apache, ours, cases)
        for side in (apache, ours):  # the lifetime of the token is an hour
            assert 1_800_000 < side.session_lifetimes[BY_TOKEN] <= 3_600_000
