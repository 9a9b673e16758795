"""The configs of clients: parsed, checked, and turned into the settings of connections, metadata and security."""

import re
from pathlib import Path

import pytest

from kraft_core.clients.client_config import ClientConfig, client_config_def
from kraft_core.configs.config_def import ConfigException
from kraft_core.security.client_properties import load_client_properties

TABLE = """
connections.max.idle.ms | LONG | 300000 | MEDIUM |  | Another default.
greeting.class | CLASS | null | LOW |  | Any object.
listeners.of.news | LIST |  | LOW |  | Any objects.
share | DOUBLE | 0.5 | LOW |  | A share.
"""
DEFINITIONS = client_config_def(TABLE, "client.rack")


def config(**given: object) -> ClientConfig:
    texts = {name.replace("_", "."): value for name, value in given.items()}
    return ClientConfig(DEFINITIONS, {"bootstrap.servers": "localhost:9092", **texts})


def test_values_are_texts_numbers_and_booleans() -> None:
    made = config(request_timeout_ms=5, retry_backoff_ms="7", client_id="me", share=0.25)
    assert made.number("request.timeout.ms") == 5
    assert made.number("retry.backoff.ms") == 7
    assert made.text("client.id") == "me"
    assert made.fraction("share") == 0.25
    assert made.text("client.rack") == ""


def test_a_clients_table_replaces_a_shared_default() -> None:
    assert config().network_config().connections_max_idle_ms == 300_000


def test_unknown_keys_are_refused_with_the_keys_that_are_close() -> None:
    with pytest.raises(ConfigException, match=r"Unknown configuration client.di: did you mean client.id"):
        config(client_di="x")
    with pytest.raises(ConfigException, match=r"Unknown configuration xyz: known are: bootstrap.servers, "):
        config(xyz="x")
    with pytest.raises(ConfigException, match=r"default.api.timeout.ms"):
        config(default_api_timeout_ms=1)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("request_timeout_ms", -1, "Invalid value -1 for configuration request.timeout.ms: must be of type INT and [0"),
        ("request_timeout_ms", "soon", "Invalid value soon for configuration request.timeout.ms: must be of type INT"),
        ("request_timeout_ms", [1], "Invalid value [1] for configuration request.timeout.ms: must be of type INT"),
        ("security_protocol", "TLS", "Invalid value TLS for configuration security.protocol: must be of type STRING"),
        ("ssl_key_password", [1], "Invalid value [hidden] for configuration ssl.key.password"),
        ("client_dns_lookup", "none", "[use_all_dns_ips]"),
    ],
)
def test_invalid_values_are_refused_with_what_is_allowed(name: str, value: object, text: str) -> None:
    with pytest.raises(ConfigException, match=re.escape(text)):
        config(**{name: value})


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(ConfigException, match=r"Missing required configuration bootstrap.servers"):
        ClientConfig(DEFINITIONS, {})
    with pytest.raises(ConfigException, match=r"Invalid value  for configuration bootstrap.servers"):
        config(bootstrap_servers="")


def test_bootstrap_servers_are_host_and_port_with_ipv6_in_brackets() -> None:
    made = config(bootstrap_servers="a:1, [::1]:2,10.0.0.1:3,[fe80::1%eth0]:4")
    assert made.bootstrap() == (("a", 1), ("::1", 2), ("10.0.0.1", 3), ("fe80::1%eth0", 4))
    assert config(bootstrap_servers=["a:1", "b:2"]).bootstrap() == (("a", 1), ("b", 2))


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:0", "a:65536", "::1:9092", "a:x", "PLAINTEXT://a:1"])
def test_an_address_that_is_not_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(ConfigException, match=f"Invalid value {text} for configuration bootstrap.servers: '{text}' is"):
        config(bootstrap_servers=text).bootstrap()


def test_classes_and_lists_may_be_objects() -> None:
    news = object()
    made = config(greeting_class=dict, listeners_of_news=[news])
    assert made.get("greeting.class") is dict
    assert made.items("listeners.of.news") == (news,)
    assert config(listeners_of_news=["a", "b"]).items("listeners.of.news") == ("a", "b")


def test_a_reconnect_backoff_alone_is_its_own_maximum() -> None:
    """As CommonClientConfigs.postProcessReconnectBackoffConfigs."""
    assert config().network_config().reconnect_backoff_max_ms == 1_000
    assert config(reconnect_backoff_ms=3_000).network_config().reconnect_backoff_max_ms == 3_000
    both = config(reconnect_backoff_ms=10, reconnect_backoff_max_ms=20).network_config()
    assert (both.reconnect_backoff_ms, both.reconnect_backoff_max_ms) == (10, 20)


def test_metadata_recovery_may_be_switched_off() -> None:
    made = config(metadata_recovery_strategy="NONE", metadata_max_age_ms=9)
    settings = made.metadata_config(allow_auto_topic_creation=False)
    assert (settings.rebootstrap, settings.metadata_max_age_ms) == (False, 9)


def test_security_comes_from_the_same_keys_as_of_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nconfig.providers=dir\n"
        "config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="alice" password="${{dir:{tmp_path}:secret}}";\n'
    )
    (tmp_path / "secret").write_text("hush")
    made = ClientConfig(DEFINITIONS, {**load_client_properties(file), "bootstrap.servers": "a:1"})
    security = made.security()
    assert (security.security_protocol, security.username, security.password) == ("SASL_PLAINTEXT", "alice", "hush")


def test_a_mechanism_that_is_not_supported_is_a_config_exception() -> None:
    with pytest.raises(ConfigException, match=r"GSSAPI.*must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"):
        config(security_protocol="sasl_plaintext").security()
