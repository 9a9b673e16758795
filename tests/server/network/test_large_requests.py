"""LargeRequests: one request in work, addresses in turn, connections that closed or do not read."""

import asyncio
from collections.abc import Callable
from typing import cast

from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.framing import RequestHeader
from kraft_core.server.network.large_requests import LargeRequests
from kraft_core.server.network.request import Request


class WaitingRequest:
    """The part of a request that the queue uses."""

    def __init__(self, address: str) -> None:
        self.client_host = address
        self.is_abandoned = False
        self.answer_room = 1
        self.closed: list[str] = []
        self.header = RequestHeader(ApiKey.CREATE_TOPICS, 7, 1, None)

    def close(self, cause: str) -> None:
        self.closed.append(cause)


class Queue:
    """A queue and the order in which its requests were started."""

    def __init__(self) -> None:
        self.requests = LargeRequests()
        self.started: list[str] = []

    def submit(self, name: str, start: Callable[[], None] | None = None) -> WaitingRequest:
        request = WaitingRequest(name[0])
        self.requests.submit(cast("Request", request), start or (lambda: self.started.append(name)))
        return request

    async def end_all(self) -> None:
        for _ in range(10):
            self.requests.done()
            await asyncio.sleep(0)


def test_one_request_is_in_work_and_addresses_take_turns() -> None:
    async def scenario() -> None:
        queue = Queue()
        for name in ("a1", "a2", "a3", "b1", "b2"):
            queue.submit(name)
        assert queue.started == ["a1"]
        await queue.end_all()
        assert queue.started == ["a1", "a2", "b1", "a3", "b2"]
        queue.submit("c1")
        assert queue.started[-1] == "c1"

    asyncio.run(scenario())


def test_a_request_whose_connection_closed_is_not_started() -> None:
    async def scenario() -> None:
        queue = Queue()
        queue.submit("a1")
        queue.submit("a2").is_abandoned = True
        queue.submit("a3")
        await queue.end_all()
        assert queue.started == ["a1", "a3"]

    asyncio.run(scenario())


def test_a_request_that_cannot_be_decoded_ends_its_connection_and_not_the_queue() -> None:
    def malformed() -> None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no such field")

    def faulty() -> None:
        raise ZeroDivisionError

    async def scenario() -> None:
        queue = Queue()
        first, second = queue.submit("a1", malformed), queue.submit("b1", faulty)
        queue.submit("c1")
        assert first.closed == ["request cannot be served: no such field"]
        assert second.closed == ["request handler failed"]
        assert queue.started == ["c1"]

    asyncio.run(scenario())


def test_an_address_with_too_many_unsent_answers_waits_and_delays_no_other() -> None:
    async def scenario() -> None:
        queue = Queue()
        queue.submit("a1")
        full = queue.submit("b1")
        full.answer_room = 0
        queue.submit("c1")
        await queue.end_all()
        assert queue.started == ["a1", "c1"]
        full.answer_room = 1
        while len(queue.started) < 3:
            await asyncio.sleep(0.01)
        assert queue.started[-1] == "b1"

    asyncio.run(asyncio.wait_for(scenario(), 30))
