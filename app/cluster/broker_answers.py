"""Answers of brokers by key, asked for in the background when somebody wants them and kept with their age.

A reader waits a moment and takes what is known, so that a broker that does not answer costs its own cells and no page.
Each broker has one request of a kind in flight; keys that are wanted meanwhile share the next one.
"""

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from app.tasks import cancel_tasks
from app.texts import sentence_of
from kraft_core.protocol.errors import ErrorCode, KafkaError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

FRESH_SECONDS: Final = 4.0
KEPT_SECONDS: Final = 300.0
CONCURRENCY: Final = 16
WAIT_SECONDS: Final = 0.25

AskBroker = Callable[[int, Sequence[K]], Awaitable[Mapping[K, V | KafkaError]]]
"""Asks a broker, by id, for keys, and returns a value or an error for each. Raises KafkaError, ConnectionError."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[V]):
    """What is known of one key: the newest value with its time, and why the request after it failed.

    `value` and `asked_at` are None before the first answer.
    """

    value: V | None = None
    asked_at: dt.datetime | None = None
    error: KafkaError | None = None

    def get_or_raise(self, what: str) -> V:
        """Return the value. Raises the KafkaError of the last request, REQUEST_TIMED_OUT without an answer."""
        if self.error is not None:
            raise KafkaError(self.error.code, self.error.message)
        if self.value is None:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"No broker has answered for {what} in time.")
        return self.value


class BrokerAnswers(Generic[K, V]):
    """The answers to one kind of request. Used on the event loop only."""

    def __init__(self, ask: AskBroker[K, V]) -> None:
        self._ask = ask
        self._limit = asyncio.Semaphore(CONCURRENCY)
        self._known: dict[K, tuple[float, Answer[V]]] = {}
        self._pending: dict[K, asyncio.Future[None]] = {}
        self._wanted_at: dict[K, float] = {}
        self._queues: dict[int, list[K]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def of(
        self, wanted: Mapping[K, int], wait_seconds: float = WAIT_SECONDS, fresh_seconds: float = FRESH_SECONDS
    ) -> dict[K, Answer[V]]:
        """Return what is known of keys, given with the broker of each, after asking for those not known or older.

        Waits until they are known, but for none longer than `wait_seconds` after it was asked for: a broker that does
        not answer delays the first reader, and not those that come while it is silent.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._forget_old(now)
        for key, broker_id in wanted.items():
            tried = self._known.get(key)
            if key not in self._pending and (tried is None or now - tried[0] >= fresh_seconds):
                self._pending[key] = loop.create_future()
                self._wanted_at[key] = now
                self._queues.setdefault(broker_id, []).append(key)
                if broker_id not in self._tasks:
                    self._tasks[broker_id] = asyncio.create_task(self._work_off(broker_id), name=f"ask-{broker_id}")
        until = {key: self._wanted_at[key] + wait_seconds for key in wanted if key in self._pending}
        waiting = [self._pending[key] for key, end in until.items() if end > now]
        if waiting:
            await asyncio.wait(waiting, timeout=max(until.values()) - now)
        return {key: self.known(key) for key in wanted}

    def known(self, key: K) -> Answer[V]:
        """Return what is known of a key without asking for it."""
        return self._known[key][1] if key in self._known else Answer()

    def forget(self, keys: Iterable[K]) -> None:
        """Forget keys that a change has made wrong; requests in flight for them are not used either."""
        for key in keys:
            self._known.pop(key, None)
            waiting = self._pending.pop(key, None)
            self._wanted_at.pop(key, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    async def stop(self) -> None:
        """Cancel pending requests."""
        await cancel_tasks(*self._tasks.values())

    def _forget_old(self, now: float) -> None:
        for key in [each for each, (tried, _) in self._known.items() if now - tried > KEPT_SECONDS]:
            del self._known[key]

    async def _work_off(self, broker_id: int) -> None:
        try:
            while keys := self._queues.pop(broker_id, []):
                await self._ask_and_note(broker_id, {key: self._pending[key] for key in keys if key in self._pending})
        finally:
            del self._tasks[broker_id]

    async def _ask_and_note(self, broker_id: int, batch: Mapping[K, asyncio.Future[None]]) -> None:
        try:
            async with self._limit:
                found = await self._ask(broker_id, list(batch))
        except KafkaError as error:
            found = dict.fromkeys(batch, error)
        except ConnectionError as error:
            found = dict.fromkeys(batch, KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, sentence_of(error)))
        finally:
            asked = [key for key, waiting in batch.items() if self._pending.get(key) is waiting]
            for key in asked:
                del self._pending[key], self._wanted_at[key]
        for key in asked:
            self._note(key, found[key])
        for waiting in batch.values():
            if not waiting.done():
                waiting.set_result(None)

    def _note(self, key: K, found: V | KafkaError) -> None:
        before = self.known(key)
        answer = (
            replace(before, error=found) if isinstance(found, KafkaError) else Answer(found, dt.datetime.now(dt.UTC))
        )
        self._known[key] = (asyncio.get_running_loop().time(), answer)
