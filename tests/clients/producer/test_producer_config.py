"""The configs of a producer: those of Kafka, and which of them exclude each other."""

import pytest

from kraft_core.clients.producer.producer_config import parse_producer_config, producer_config_def
from kraft_core.configs.config_def import ConfigException
from kraft_core.protocol.compression import Compression
from tests.clients.producer.producer_vectors import configs

ADDRESS = {"bootstrap.servers": "localhost:9092"}
ABSENT = {
    "enable.metrics.push",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partitioner.class",
    "receive.buffer.bytes",
    "send.buffer.bytes",
    "transaction.two.phase.commit.enable",
}
"""Keys that would have no effect."""


def test_types_importances_and_defaults_are_those_of_kafkas_producer() -> None:
    expected = configs()
    ours = {
        name: (
            key.type.name,
            key.importance,
            "-" if key.is_required else str(key.default or ("null" if key.default is None else "")).lower(),
        )
        for name, key in producer_config_def().items()
        if not name.startswith(("sasl.", "ssl.", "security."))
    }
    kafkas = {
        name: (kind, importance, default.lower())
        for name, (kind, importance, default) in expected.items()
        if not name.startswith(("sasl.", "ssl.", "security."))
    }
    assert ours.keys() <= kafkas.keys()
    assert kafkas.keys() - ours.keys() == ABSENT
    for name in ("key.serializer", "value.serializer"):  # required in Java; without them ours takes bytes
        assert ours.pop(name) == ("CLASS", "HIGH", "null")
    assert ours == {name: kafkas[name] for name in ours}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"linger": 5}, "Unknown configuration linger: did you mean linger.ms"),
        ({"acks": "2"}, "Invalid value 2 for configuration acks: must be of type STRING and"),
        ({"compression.type": "brotli"}, "[none, gzip, snappy, lz4, zstd]"),
        ({"compression.gzip.level": 0}, "Invalid value 0 for configuration compression.gzip.level"),
        ({"compression.zstd.level": 23}, "Invalid value 23 for configuration compression.zstd.level"),
        ({"delivery.timeout.ms": 1_000}, "at least linger.ms + request.timeout.ms, which is 30005"),
        ({"batch.size": 2_000, "buffer.memory": 1_000}, "must not exceed buffer.memory, which is 1000"),
        ({"enable.idempotence": True, "acks": "1"}, "Invalid value 1 for configuration acks: must be all"),
        ({"enable.idempotence": True, "retries": 0}, "Invalid value 0 for configuration retries: must be at least 1"),
        ({"max.in.flight.requests.per.connection": 6}, "must be at most 5 with enable.idempotence=true"),
        ({"key.serializer": "a.Class"}, "must be callable with (topic, headers, data)"),
        ({"interceptor.classes": [object()]}, "must be ProducerInterceptor objects"),
        ({"interceptor.classes": "a.Class"}, "Invalid value 'a.Class' for configuration interceptor.classes"),
        ({"transactional.id": "t", "acks": "1"}, "A transactional.id needs enable.idempotence=true"),
    ],
)
def test_a_value_that_is_not_allowed_is_named_with_what_is(given: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigException) as refused:
        parse_producer_config({**ADDRESS, **given})
    assert text in str(refused.value)


@pytest.mark.parametrize("given", [{"acks": "1"}, {"acks": 0}, {"retries": 0}])
def test_the_default_of_idempotence_gives_way_to_acks_and_retries(given: dict[str, object]) -> None:
    assert parse_producer_config(ADDRESS).is_idempotent
    assert not parse_producer_config({**ADDRESS, **given}).is_idempotent


def test_without_a_given_delivery_timeout_it_is_as_long_as_linger_and_request_need() -> None:
    config = parse_producer_config({**ADDRESS, "request.timeout.ms": 200_000})
    assert config.accumulator.delivery_timeout_ms == 200_005


def test_order_is_guaranteed_by_one_request_in_flight() -> None:
    config = parse_producer_config({**ADDRESS, "max.in.flight.requests.per.connection": 1})
    assert config.sender.guarantee_message_order
    assert not parse_producer_config(ADDRESS).sender.guarantee_message_order


def test_the_level_of_the_chosen_codec_is_used() -> None:
    given = {**ADDRESS, "compression.type": "zstd", "compression.zstd.level": 7, "compression.gzip.level": 2}
    assert parse_producer_config(given).accumulator.compression == Compression(4, 7)
    assert parse_producer_config(ADDRESS).accumulator.compression == Compression(0)


def test_client_ids_are_numbered_or_named_by_the_transactional_id() -> None:
    first = parse_producer_config(ADDRESS).network.client_id
    second = parse_producer_config(ADDRESS).network.client_id
    assert first.startswith("producer-")
    assert first != second
    assert parse_producer_config({**ADDRESS, "transactional.id": "t"}).network.client_id == "producer-t"
    assert parse_producer_config({**ADDRESS, "client.id": "mine"}).network.client_id == "mine"
