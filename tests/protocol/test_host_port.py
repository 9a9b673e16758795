"""Addresses as text."""

import pytest

from kraft_core.protocol.host_port import host_port, parse_host_port


@pytest.mark.parametrize(
    ("host", "text"),
    [("kafka-1.example", "kafka-1.example:9092"), ("10.0.0.1", "10.0.0.1:9092"), ("::1", "[::1]:9092")],
)
def test_an_address_is_read_as_it_was_written(host: str, text: str) -> None:
    assert host_port(host, 9092) == text
    assert parse_host_port(text) == (host, 9092)


@pytest.mark.parametrize("text", ["kafka", "kafka:", ":9092", "::1:9092", "kafka:0", "kafka:65536", "kafka:9092x"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_host_port(text)
