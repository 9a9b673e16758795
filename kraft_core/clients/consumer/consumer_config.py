"""The configs of a consumer. Source: ConsumerConfig, Kafka 4.3.1."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Final

from kraft_core.clients.client_config import ClientConfig, client_config_def
from kraft_core.clients.consumer.auto_offset_reset_strategy import AutoOffsetResetStrategy, auto_offset_reset
from kraft_core.clients.consumer.consumer_interceptor import ConsumerInterceptor, ConsumerInterceptors
from kraft_core.clients.consumer.fetcher import FetchConfig
from kraft_core.clients.consumer.subscription_state import READ_COMMITTED, READ_UNCOMMITTED
from kraft_core.clients.network_requests import NetworkConfig
from kraft_core.configs.config_def import ConfigDef, ConfigException
from kraft_core.configs.definitions_consumer import CONSUMER_TABLE

_CLASSIC_ONLY: Final = ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms")
_CONSUMER_ONLY: Final = ("group.remote.assignor",)
_IN_FLIGHT_MAX: Final = 100
_RESETS: Final = "one of earliest, latest, none, by_duration:<PnDTnHnMn.nS>"
_numbers: Final = itertools.count(1)


@cache
def consumer_config_def() -> ConfigDef:
    """Return the keys of a consumer."""
    keys = client_config_def(CONSUMER_TABLE, "client.rack", "default.api.timeout.ms")
    reset = replace(keys["auto.offset.reset"], validator=auto_offset_reset, valid_values=_RESETS)
    return ConfigDef(reset if key.name == reset.name else key for key in keys.values())


class ConsumerConfig(ClientConfig):
    """The parsed configs of one consumer. Raises ConfigException."""

    def __init__(self, given: Mapping[str, object]) -> None:
        super().__init__(consumer_config_def(), given)
        for name in ("key.deserializer", "value.deserializer"):
            if self.get(name) is not None and not callable(self.get(name)):
                raise ConfigException(
                    f"Invalid value {self.get(name)!r} for configuration {name}: must be a callable "
                    "(topic, headers, bytes) -> value"
                )
        self.interceptors = _interceptors(self)
        if self.group_id is None and self.is_given("enable.auto.commit") and self.flag("enable.auto.commit"):
            raise ConfigException("enable.auto.commit cannot be true without a group.id")
        protocol = self.group_protocol
        refused = [name for name in (_CONSUMER_ONLY if protocol == "classic" else _CLASSIC_ONLY) if self.is_given(name)]
        if refused:
            raise ConfigException(f"{', '.join(refused)} cannot be set with group.protocol={protocol}")
        wait_ms = self.number("fetch.max.wait.ms")
        if wait_ms >= self.number("request.timeout.ms"):
            raise ConfigException(
                f"Invalid value {wait_ms} for configuration fetch.max.wait.ms: must be below request.timeout.ms, "
                f"which is {self.number('request.timeout.ms')}"
            )

    @property
    def group_id(self) -> str | None:
        """The group; None for a consumer without one. An empty group.id is one of a name."""
        value = self.get("group.id")
        return None if value is None else str(value)

    @property
    def group_protocol(self) -> str:
        """`classic` or `consumer`."""
        return self.text("group.protocol").lower()

    @property
    def enable_auto_commit(self) -> bool:
        """Whether offsets are committed in the background: only in a group."""
        return self.group_id is not None and self.flag("enable.auto.commit")

    @property
    def isolation_level(self) -> int:
        """The isolation level as requests name it."""
        return READ_COMMITTED if self.text("isolation.level") == "read_committed" else READ_UNCOMMITTED

    @property
    def reset_strategy(self) -> AutoOffsetResetStrategy:
        """The strategy of auto.offset.reset."""
        return AutoOffsetResetStrategy.from_text(self.text("auto.offset.reset"))

    def fetch_config(self) -> FetchConfig:
        """Return the settings of fetches."""
        return FetchConfig(
            min_bytes=self.number("fetch.min.bytes"),
            max_bytes=self.number("fetch.max.bytes"),
            max_wait_ms=self.number("fetch.max.wait.ms"),
            fetch_size=self.number("max.partition.fetch.bytes"),
            max_poll_records=self.number("max.poll.records"),
            check_crcs=self.flag("check.crcs"),
            client_rack=self.text("client.rack"),
            isolation_level=self.isolation_level,
            retry_backoff_ms=self.number("retry.backoff.ms"),
        )

    def network_config(self, max_in_flight: int = _IN_FLIGHT_MAX) -> NetworkConfig:
        """Return the settings of connections; without a client.id, one is made from the group."""
        config = super().network_config(max_in_flight)
        if config.client_id:
            return config
        member = self.text("group.instance.id") or next(_numbers)
        return replace(config, client_id=f"consumer-{self.group_id or 'null'}-{member}")


def _interceptors(config: ClientConfig) -> ConsumerInterceptors:
    found: list[ConsumerInterceptor] = []
    for each in config.items("interceptor.classes"):
        if not isinstance(each, ConsumerInterceptor):
            raise ConfigException(
                f"Invalid value {each!r} for configuration interceptor.classes: must be ConsumerInterceptor objects"
            )
        found.append(each)
    return ConsumerInterceptors(found)
