"""The same requests to an Apache controller and to ours: the answers are equal field by field, and so are the records."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import BrokerRegistrationResponse, CreateTopicsResponse
from kraft_core.protocol.metadata_records import decode_record
from kraft_core.protocol.record_batch import read_batches
from kraft_core.protocol.wire import Message
from tests.interop import kafka
from tests.interop.conclave import Quorum
from tests.interop.controller_requests import all_requests
from tests.interop.controller_requests.case import UNKNOWN_ID, Case, Known

pytestmark = pytest.mark.interop

NOT_COMPARED = {"throttle_time_ms"}
CLOSED = "closed"


@dataclass
class Side:
    """One controller and what it has told."""

    quorum: Quorum
    known: Known
    answers: list[Any] = field(default_factory=list)
    _connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, case: Case) -> Message | str:
        """Send one request; what comes back, or that the connection was closed."""
        message = case.build(self.known)
        if self._connection is None:
            self._connection = await asyncio.open_connection("127.0.0.1", self.quorum.ports[0])
        reader, writer = self._connection
        writer.write(encode_request(message, case.version, 1, "same"))
        try:
            async with asyncio.timeout(15):
                size = int.from_bytes(await reader.readexactly(4))
                answer = decode_response(message.API_KEY, case.version, await reader.readexactly(size))[1]
        except (EOFError, ConnectionError):
            await self.hang_up()
            return CLOSED
        self._learn(case, message, answer)
        return answer

    async def hang_up(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            writer = self._connection[1]
            self._connection = None
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

    def said(self, value: Any, name: str = "") -> Any:
        """Put an answer or a record into words that do not depend on drawn ids, ports and offsets."""
        if isinstance(value, Message):
            fields = {each: self.said(getattr(value, each), each) for each in value.__struct_fields__}
            return {type(value).__name__: {each: said for each, said in fields.items() if each not in NOT_COMPARED}}
        if isinstance(value, tuple):
            said = [self.said(each, name) for each in value]
            return sorted(said, key=repr) if name == "responses" else said  # DeleteTopics shuffles its results
        if name == "topic_id" and value.int and value != UNKNOWN_ID and value not in self.known.topic_ids.values():
            return "an id"
        if isinstance(value, UUID):
            return next((f"id of {topic}" for topic, found in self.known.topic_ids.items() if found == value), value)
        if isinstance(value, int) and "broker_epoch" in name:
            return next((f"epoch of {one}" for one, epoch in self.known.broker_epochs.items() if epoch == value), value)
        if name == "port" and value == self.quorum.ports[0]:
            return "the controller's port"
        return value


@contextmanager
def two_sides(folder: Path) -> Iterator[tuple[Side, Side]]:
    """Apache's and ours, with the same cluster id."""
    settings = {"broker.session.timeout.ms": 600_000, "controller.quorum.append.linger.ms": 0}
    apache = Quorum(folder / "apache", 1, dict(settings))
    ours = Quorum(folder / "ours", 1, dict(settings), cluster_id=apache.cluster_id)
    ours.directory_ids = apache.directory_ids
    for quorum in (apache, ours):
        quorum.format(1)
    try:
        apache.start_apache(1)
        ours.start(1)
        for quorum in (apache, ours):
            quorum.wait_for_leader(60)
        yield Side(apache, Known(apache.cluster_id)), Side(ours, Known(ours.cluster_id))
    finally:
        for quorum in (apache, ours):
            quorum.stop_all()


def differences(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """Where two answers differ, a line each. A message where Apache has none is no difference."""
    if isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        for key in expected:
            yield from differences(expected[key], found[key], f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (theirs, mine) in enumerate(zip(expected, found, strict=True)):
            yield from differences(theirs, mine, f"{path}/{index}")
    elif expected != found and not (path.endswith("error_message") and expected is None):
        yield f"  {path}: Apache {expected!r}, ours {found!r}"


async def ask_all(side: Side, cases: list[Case]) -> list[Any]:
    """The answers, in words."""
    try:
        return [side.said(await side.ask(case)) for case in cases]
    finally:
        await side.hang_up()


def records_of(side: Side) -> list[Any]:
    """The metadata records of a log, in words, without what each controller writes of itself."""
    folder = side.quorum.folder_of(1) / "data" / "__cluster_metadata-0"
    records = [
        decode_record(value)
        for path in sorted(folder.glob("*.log"))
        for batch in read_batches(path.read_bytes())
        if not batch.is_control
        for value in batch.values()
    ]
    return [
        side.said(each) for each in records if type(each).__name__ not in {"NoOpRecord", "RegisterControllerRecord"}
    ]


def test_a_long_list_of_requests_has_the_same_answers_and_makes_the_same_records(tmp_path: Path) -> None:
    kafka.require()
    cases = all_requests()
    assert len(cases) > 400
    with two_sides(tmp_path) as (apache, ours):
        theirs = asyncio.run(ask_all(apache, cases))
        mine = asyncio.run(ask_all(ours, cases))
        different = [
            "\n".join((f"{number} {case.name} v{case.version}", *found))
            for number, (case, expected, answer) in enumerate(zip(cases, theirs, mine, strict=True))
            if (found := list(differences(expected, answer)))
        ]
        assert not different, f"{len(different)} answers differ:\n" + "\n".join(different)
        for number, (expected, record) in enumerate(zip(records_of(apache), records_of(ours), strict=True)):
            assert expected == record, f"record {number}:\n" + "\n".join(differences(expected, record))
