"""One broker of three is stopped and fenced, one is silent: pages answer with what is known, and name what is not.

Requests to brokers have ten minutes here. So a page that arrives has not waited for the silent broker.
"""

import asyncio
import datetime as dt
import re
from collections.abc import Iterator

import httpx
import pytest

from app.cluster import broker_clients, broker_requests, topic_rates
from app.pages.frame import UNKNOWN
from app.rest import groups as rest_groups
from app.rest import topics as rest_topics
from conclave.testing import Cluster
from kraft_core.clients.admin.kafka_admin_client import Admin
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.offset_and_metadata import OffsetAndMetadata
from kraft_core.clients.producer.kafka_producer import KafkaProducer
from kraft_core.protocol.internal_topics import CONSUMER_OFFSETS
from tests.app.live import LiveWeb, running_web
from tests.interop.kafka import PATIENCE_S, wait_until

GROUPS = 1_000
TOPIC = "orders"
PARTITIONS = 6
NEVER_MS = 600_000
ALIVE, SILENT, STOPPED = 1, 2, 3


async def fill(bootstrap: str) -> None:
    """Commit an offset of every partition for every group, and write three records to every partition."""
    offsets = {TopicPartition(TOPIC, index): OffsetAndMetadata(1) for index in range(PARTITIONS)}
    async with KafkaProducer({"bootstrap.servers": bootstrap}) as producer:
        for number in range(3 * PARTITIONS):
            await producer.send(TOPIC, value=f"record {number}".encode(), partition=number % PARTITIONS)
    async with Admin({"bootstrap.servers": bootstrap}) as admin:
        names = [f"group-{number}" for number in range(GROUPS)]
        for first in range(0, GROUPS, 100):
            each = [admin.alter_consumer_group_offsets(name, offsets) for name in names[first : first + 100]]
            for done in await asyncio.gather(*each):
                done.all()


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    configs = {"broker.session.timeout.ms": 3_600_000, "offsets.topic.num.partitions": 9}
    with pytest.MonkeyPatch.context() as patch, Cluster(3, controllers=1, configs=configs) as cluster:
        patch.setattr(broker_clients, "TIMEOUT_MS", NEVER_MS)
        patch.setattr(broker_requests, "TIMEOUT_MS", NEVER_MS)
        patch.setattr(rest_groups, "WAIT_SECONDS", 0.5)
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        asyncio.run(fill(cluster.bootstrap_servers))
        cluster.stop(STOPPED)
        cluster.pause(SILENT)
        with running_web(tmp_path_factory.mktemp("web"), cluster.bootstrap_controllers) as running:
            yield running.wait_ready().wait_for_broker(STOPPED, unfenced=False)


def page(web: LiveWeb, path: str, *parts: str) -> str:
    """Return a page once it has all parts. Answers of the live broker come in the background."""

    def found() -> str | None:
        text = web.client.get(path).text
        return text if all(part in text for part in parts) else None

    try:
        return wait_until(found, PATIENCE_S, f"{path} has {parts}", 0.05)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{web.client.get(path).text}") from None


def leaders(web: LiveWeb, topic: str) -> dict[int, int]:
    image = web.services.cluster.image.topics.topic(topic)
    assert image is not None
    return {index: partition.leader for index, partition in image.sorted_partitions()}


def coordinator_of(web: LiveWeb, group_id: str) -> int:
    """Return the leader of the group's partition: Java's hash of its id, without the sign, modulo the partitions."""
    code = 0
    for letter in group_id:
        code = (31 * code + ord(letter)) & 0xFFFF_FFFF
    return leaders(web, CONSUMER_OFFSETS)[(code & 0x7FFF_FFFF) % 9]


def of_coordinator(web: LiveWeb, broker_id: int) -> list[str]:
    names = (f"group-{number}" for number in range(GROUPS))
    return [name for name in names if coordinator_of(web, name) == broker_id]


def test_groups_of_live_brokers_are_listed_and_the_others_accounted_for(web: LiveWeb) -> None:
    alive = of_coordinator(web, ALIVE)
    assert 0 < len(alive) < GROUPS
    assert of_coordinator(web, SILENT)
    lost = [index for index, leader in leaders(web, CONSUMER_OFFSETS).items() if leader < 0]
    assert lost
    text = page(web, "/groups", f"of {len(alive)} groups", "group-")
    assert f"Not answered yet: broker {SILENT}. Their groups appear as soon as they do." in text
    assert (
        f"Groups may be missing: {len(lost)} of 9 partitions of __consumer_offsets have no leader until "
        f"broker {STOPPED} is back." in text
    )
    assert re.findall(r'<tr data-key="([^"]+)"', text) == sorted(alive)[:50]


def test_a_group_shows_the_lag_of_the_partitions_whose_leader_lives(web: LiveWeb) -> None:
    name = of_coordinator(web, ALIVE)[0]
    known = [index for index, leader in leaders(web, TOPIC).items() if leader == ALIVE]
    text = page(web, f"/groups/{name}", *(f'<tr data-key="{TOPIC}-{index}">' for index in known))
    rows: dict[str, str] = dict(re.findall(rf'<tr data-key="{TOPIC}-(\d+)">(.*?)</tr>', text, re.DOTALL))
    for index, leader in leaders(web, TOPIC).items():
        numbers = re.findall(r'<td class="num">([^<]*)</td>', rows[str(index)])
        assert numbers == [str(index), "1", *(["3", "2"] if leader == ALIVE else [UNKNOWN, UNKNOWN])]
        assert ("The partition has no leader." in rows[str(index)]) == (leader < 0)
    silent = of_coordinator(web, SILENT)[0]
    assert "The coordinator has not answered yet." in page(web, f"/groups/{silent}")


def test_a_topic_of_which_a_leader_is_silent_has_no_rate_and_names_the_partitions(
    web: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_rates, "STEP", dt.timedelta(seconds=0.2))
    monkeypatch.setattr(rest_topics, "RATE_WAIT_SECONDS", 0.2)
    others = [index for index, leader in leaders(web, TOPIC).items() if leader != ALIVE]
    assert 0 < len(others) < PARTITIONS

    def unknown() -> list[int]:
        answer = web.client.get(f"{web.cluster}/topics/{TOPIC}/rate").json()
        assert answer["records_per_second"] is None
        found: list[int] = answer["unknown_partition_ids"]
        return found

    wait_until(lambda: unknown() == others, PATIENCE_S, f"broker {ALIVE} has answered twice", 0.05)
    text = page(web, f"/topics/{TOPIC}", "Records/s")
    assert any(why in text for why in ("a leader has not answered: ", "known when the leaders of all partitions"))


def test_messages_of_live_leaders_are_shown_and_the_other_partitions_named(web: LiveWeb) -> None:
    text = page(web, f"/topics/{TOPIC}/messages", "record ")
    for index, leader in leaders(web, TOPIC).items():
        assert (f"/messages/{index}/2" in text) == (leader == ALIVE)
        if leader == SILENT:
            assert f"Partition {index} is not shown: broker {SILENT} did not answer as fast as others" in text
        if leader < 0:
            assert f"Partition {index} is not shown: has no leader" in text


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        (f"/topics/{TOPIC}/groups", (f"Not answered yet: broker {SILENT}", 'data-key="group-')),
        (f"/topics/{TOPIC}/producers", ("The partition has no leader.", "not answered yet.", "<tr data-key")),
        ("/transactions", (f"Not answered yet: broker {SILENT}", f"Broker {ALIVE} serves no transactions")),
        ("/brokers", ("<main",)),
        (f"/brokers/{ALIVE}", ("from the broker.",)),
        (f"/brokers/{SILENT}", (f"Broker {SILENT} has not answered yet",)),
        ("/topics", (TOPIC,)),
        (f"/topics/{TOPIC}", (TOPIC,)),
        ("/search?q=group-", (">group-", '<span class="kind">group</span>')),
        ("/", ("<main",)),
    ],
)
def test_every_page_answers_while_a_broker_is_silent(web: LiveWeb, path: str, parts: tuple[str, ...]) -> None:
    page(web, path, *parts)


def test_a_program_gets_an_error_instead_of_a_part_of_the_groups(web: LiveWeb) -> None:
    def refused_for_the_silent_one() -> httpx.Response | None:
        answer = web.client.get(f"{web.cluster}/consumer-groups")
        return None if f"Broker {ALIVE} " in answer.text else answer

    refused = wait_until(refused_for_the_silent_one, PATIENCE_S, f"broker {ALIVE} has listed its groups", 0.05)
    assert refused.status_code >= 500
    assert f"Broker {SILENT} has not listed its groups in time." in refused.json()["message"]
