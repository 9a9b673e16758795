"""Answers of brokers that are asked in the background: batches, ages, silent brokers, changes."""

import asyncio
import datetime as dt
from collections.abc import Mapping, Sequence

import msgspec
import pytest

from app.cluster.broker_answers import Answer, BrokerAnswers
from app.cluster.broker_clients import BrokerClients
from app.cluster.groups import Groups
from app.cluster.lag_history import GAP, GROUPS_MAX, SAMPLES_MAX, STEP, LagHistory
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.security.listener_security import PLAINTEXT_CLIENT
from tests.app.cluster.test_log_dirs import registration
from tests.app.live import LiveWeb

FAILED = KafkaError(ErrorCode.NOT_COORDINATOR, "moved")


class Brokers:
    """Brokers that answer with a running number; `silent` ones do not answer before `release`."""

    def __init__(self, silent: Sequence[int] = ()) -> None:
        self.silent = set(silent)
        self.asked: list[tuple[int, list[str]]] = []
        self.release = asyncio.Event()
        self.errors: dict[str, KafkaError] = {}

    async def ask(self, broker_id: int, keys: Sequence[str]) -> Mapping[str, int | KafkaError]:
        self.asked.append((broker_id, list(keys)))
        number = len(self.asked)
        if broker_id in self.silent:
            await self.release.wait()
        return {key: self.errors.get(key, number) for key in keys}


def values(found: Mapping[str, Answer[int]]) -> dict[str, int | None]:
    return {key: each.value for key, each in found.items()}


def test_a_silent_broker_costs_its_own_keys_and_one_request() -> None:
    async def work() -> None:
        brokers = Brokers(silent=[2])
        answers = BrokerAnswers[str, int](brokers.ask)
        found = await answers.of({"a": 1, "b": 2, "c": 1}, 0.05)
        assert values(found) == {"a": 1, "b": None, "c": 1}
        wanted = {f"b{number}": 2 for number in range(1_000)} | {"a": 1}
        assert values(await answers.of(wanted, 0.0))["a"] == 1, "the live broker's answer is there at once"
        await answers.of(wanted, 0.0)
        assert brokers.asked == [(1, ["a", "c"]), (2, ["b"])], "the silent broker has one request, and others wait"
        brokers.release.set()
        found = await answers.of(wanted, 20)
        assert {each for key, each in values(found).items() if key != "a"} == {3}
        assert [len(keys) for _, keys in brokers.asked] == [2, 1, 1_000], "what waited shares the next request"

    asyncio.run(work())


def test_a_failure_keeps_the_last_value_with_its_time() -> None:
    async def work() -> None:
        brokers = Brokers()
        answers = BrokerAnswers[str, int](brokers.ask)
        before = (await answers.of({"a": 1}, 20))["a"]
        brokers.errors["a"] = FAILED
        after = (await answers.of({"a": 1}, 20, fresh_seconds=0.0))["a"]
        assert (after.value, after.asked_at, after.error) == (1, before.asked_at, FAILED)
        with pytest.raises(KafkaError, match="moved"):
            after.get_or_raise("a")
        with pytest.raises(KafkaError, match="No broker has answered for it in time"):
            Answer().get_or_raise("it")
        assert (await answers.of({"a": 1}, 20))["a"] is after, "a broker that failed is not asked again at once"

    asyncio.run(work())


def test_an_answer_from_before_a_change_is_not_used_after_it() -> None:
    async def work() -> None:
        brokers = Brokers(silent=[1])
        answers = BrokerAnswers[str, int](brokers.ask)
        reader = asyncio.create_task(answers.of({"a": 1}, 20))
        while not brokers.asked:
            await asyncio.sleep(0)
        answers.forget(["a"])
        assert values(await reader) == {"a": None}
        after = asyncio.create_task(answers.of({"a": 1}, 20))
        await asyncio.sleep(0)
        brokers.release.set()
        assert values(await after) == {"a": 2}

    asyncio.run(work())


def test_a_stop_ends_pending_requests() -> None:
    async def work() -> None:
        brokers = Brokers(silent=[1])
        answers = BrokerAnswers[str, int](brokers.ask)
        await answers.of({"a": 1}, 0.01)
        await answers.stop()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(work())


def test_the_history_of_lag_is_bounded_and_does_not_bridge_a_pause() -> None:
    history, now = LagHistory(), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    for number in range(SAMPLES_MAX + 10):
        history.add("g", now + number * STEP, number)
        history.add("g", now + number * STEP + STEP / 2, 10_000)
    trend = history.of("g")
    assert [each.lag for each in trend.samples] == list(range(10, SAMPLES_MAX + 10))
    assert (trend.change, trend.span) == (SAMPLES_MAX - 1, (SAMPLES_MAX - 1) * STEP)
    history.add("g", trend.samples[-1].at + GAP + STEP, 5)
    assert ([each.lag for each in history.of("g").samples], history.of("g").change) == ([5], None)
    for number in range(GROUPS_MAX):
        history.add(f"g{number}", now, 0)
    assert not history.of("g").samples
    assert history.of("g0").samples


def test_groups_of_a_live_broker_are_listed_beside_a_dead_one(web: LiveWeb) -> None:
    """The image has a broker that the cluster does not: as one that has just died and is not fenced yet."""
    image = web.services.cluster.image
    brokers = image.cluster.brokers.insert(2, registration(2, 1))
    both = msgspec.structs.replace(image, cluster=msgspec.structs.replace(image.cluster, brokers=brokers))

    async def work() -> None:
        client = BrokerClients(lambda: both, PLAINTEXT_CLIENT)
        groups = Groups(client, lambda: both)
        found = await groups.list(20)
        assert (list(found.errors), found.pending) == ([2], [])
        assert "Broker 2 is not in the cluster" in str(found.errors[2])
        assert found.asked_at is not None
        await groups.stop()
        await client.stop()

    asyncio.run(work())
