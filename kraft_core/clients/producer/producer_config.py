"""The configs of a producer. Source: ProducerConfig, Kafka 4.3.1.

Where Kafka has class names, serializers are callables and interceptors are objects.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, Final

from kraft_core.clients.client_config import ClientConfig, client_config_def
from kraft_core.clients.client_metadata import MetadataConfig
from kraft_core.clients.network_requests import NetworkConfig
from kraft_core.clients.producer.producer_batch import Headers
from kraft_core.clients.producer.producer_interceptor import ProducerInterceptor, ProducerInterceptors
from kraft_core.clients.producer.record_accumulator import AccumulatorConfig
from kraft_core.clients.producer.sender import SenderConfig
from kraft_core.clients.producer.txn_partition_map import BATCHES_THAT_BROKERS_REMEMBER
from kraft_core.configs.config_def import ConfigDef, ConfigException
from kraft_core.protocol.compression import NAMES, Compression
from kraft_core.security.listener_security import ClientSecurity

TABLE: Final = """
acks | STRING | all | LOW | [all, -1, 0, 1] | Which replicas acknowledge: all in sync, the leader, or none.
batch.size | INT | 16384 | MEDIUM | [0,...] | The size at which a batch is full, in bytes; 0 sends each record alone.
buffer.memory | LONG | 33554432 | HIGH | [0,...] | The most bytes of records that wait to be sent or acknowledged.
compression.gzip.level | INT | -1 | MEDIUM | [1,...,9] or -1 | The level of gzip; -1 for zlib's default.
compression.lz4.level | INT | 9 | MEDIUM | [1,...,17] | The level of lz4; 9 is fast, others are thorough.
compression.type | STRING | none | HIGH | [none, gzip, snappy, lz4, zstd] | How batches are compressed.
compression.zstd.level | INT | 3 | MEDIUM | [-131072,...,22] | The level of zstd.
delivery.timeout.ms | INT | 120000 | MEDIUM | [0,...] | After how long a record is acknowledged or has failed, in ms.
enable.idempotence | BOOLEAN | true | LOW |  | Whether the broker drops duplicates that retries would write.
interceptor.classes | LIST |  | LOW | distinct | ProducerInterceptor objects, called in this order.
key.serializer | CLASS | null | HIGH |  | A callable (topic, headers, key) -> bytes; without it keys are bytes.
linger.ms | LONG | 5 | MEDIUM | [0,...] | How long a batch that is not full waits for more records, in ms.
max.block.ms | LONG | 60000 | MEDIUM | [0,...] | How long send waits for metadata and for memory, in ms.
max.in.flight.requests.per.connection | INT | 5 | LOW | [1,...] | How many requests may be unanswered on a connection.
max.request.size | INT | 1048576 | MEDIUM | [0,...] | The most bytes of a request, and of a record.
metadata.max.idle.ms | LONG | 300000 | LOW | [5000,...] | After how long without records a topic is forgotten, in ms.
partitioner.adaptive.partitioning.enable | BOOLEAN | true | LOW |  | Whether faster brokers get more records.
partitioner.availability.timeout.ms | LONG | 0 | LOW | [0,...] | When a broker counts as slow; 0: never.
partitioner.ignore.keys | BOOLEAN | false | MEDIUM |  | Whether keys have no influence on the partition.
retries | INT | 2147483647 | HIGH | [0,...,2147483647] | How often a batch is sent again after an error that may pass.
transaction.timeout.ms | INT | 60000 | LOW |  | After how long the broker aborts a transaction, in ms.
transactional.id | STRING | null | LOW | non-empty string | The name that a restarted producer keeps.
value.serializer | CLASS | null | HIGH |  | A callable (topic, headers, value) -> bytes; without it values are bytes.
"""

Serializer = Callable[[str, Headers, Any], bytes | None]
"""Gets topic, headers, and a key or value that is not None."""

_NUMBERS: Final = count(1)


@cache
def producer_config_def() -> ConfigDef:
    """Return the keys of a producer."""
    return client_config_def(TABLE)


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """The parsed configs of one producer, for each of its parts."""

    bootstrap: tuple[tuple[str, int], ...]
    network: NetworkConfig
    metadata: MetadataConfig
    security: ClientSecurity
    accumulator: AccumulatorConfig
    sender: SenderConfig
    buffer_memory: int
    max_block_ms: int
    ignore_keys: bool
    is_idempotent: bool
    transactional_id: str | None
    transaction_timeout_ms: int
    key_serializer: Serializer | None
    value_serializer: Serializer | None
    interceptors: ProducerInterceptors


def parse_producer_config(given: Mapping[str, object]) -> ProducerConfig:
    """Parse a producer's configs. Raises ConfigException, also for values that contradict each other."""
    named = dict(given)
    if named.get("client.id") is None:
        named["client.id"] = f"producer-{given.get('transactional.id') or next(_NUMBERS)}"
    config = ClientConfig(producer_config_def(), named)
    acks = -1 if config.text("acks") == "all" else int(config.text("acks"))
    is_idempotent = _is_idempotent(config, acks)
    in_flight = config.number("max.in.flight.requests.per.connection")
    batch_size, buffer_memory = config.number("batch.size"), config.number("buffer.memory")
    if batch_size > buffer_memory:
        raise ConfigException(
            f"Invalid value {batch_size} for configuration batch.size: "
            f"must not exceed buffer.memory, which is {buffer_memory}"
        )
    return ProducerConfig(
        bootstrap=config.bootstrap(),
        network=config.network_config(in_flight),
        metadata=config.metadata_config(allow_auto_topic_creation=True),
        security=config.security(),
        accumulator=AccumulatorConfig(
            batch_size=batch_size,
            linger_ms=config.number("linger.ms"),
            retry_backoff_ms=config.number("retry.backoff.ms"),
            retry_backoff_max_ms=config.number("retry.backoff.max.ms"),
            delivery_timeout_ms=_delivery_timeout_ms(config),
            metadata_max_idle_ms=config.number("metadata.max.idle.ms"),
            max_request_size=config.number("max.request.size"),
            compression=_compression(config),
            adaptive_partitioning=config.flag("partitioner.adaptive.partitioning.enable"),
            partition_availability_timeout_ms=config.number("partitioner.availability.timeout.ms"),
        ),
        sender=SenderConfig(
            acks=acks,
            retries=config.number("retries"),
            max_request_size=config.number("max.request.size"),
            request_timeout_ms=config.number("request.timeout.ms"),
            guarantee_message_order=in_flight == 1,
        ),
        buffer_memory=buffer_memory,
        max_block_ms=config.number("max.block.ms"),
        ignore_keys=config.flag("partitioner.ignore.keys"),
        is_idempotent=is_idempotent,
        transactional_id=config.text("transactional.id") or None,
        transaction_timeout_ms=config.number("transaction.timeout.ms"),
        key_serializer=_serializer(config, "key.serializer"),
        value_serializer=_serializer(config, "value.serializer"),
        interceptors=_interceptors(config),
    )


def _is_idempotent(config: ClientConfig, acks: int) -> bool:
    """Return enable.idempotence; its default gives way to acks and retries that exclude it."""
    is_idempotent = config.flag("enable.idempotence")
    if is_idempotent:
        in_flight = config.number("max.in.flight.requests.per.connection")
        if in_flight > BATCHES_THAT_BROKERS_REMEMBER:
            raise ConfigException(
                f"Invalid value {in_flight} for configuration max.in.flight.requests.per.connection: must be at most "
                f"{BATCHES_THAT_BROKERS_REMEMBER} with enable.idempotence=true"
            )
        is_possible = acks == -1 and config.number("retries") > 0
        if not is_possible and config.is_given("enable.idempotence"):
            name = "acks" if acks != -1 else "retries"
            wanted = "all" if acks != -1 else "at least 1"
            raise ConfigException(
                f"Invalid value {config.get(name)} for configuration {name}: must be {wanted} with "
                "enable.idempotence=true"
            )
        is_idempotent = is_possible
    if not is_idempotent and config.is_given("transactional.id"):
        raise ConfigException("A transactional.id needs enable.idempotence=true, acks=all and retries of at least 1.")
    return is_idempotent


def _delivery_timeout_ms(config: ClientConfig) -> int:
    """Return delivery.timeout.ms. Its default is raised to what linger.ms and request.timeout.ms need."""
    timeout_ms = config.number("delivery.timeout.ms")
    needed_ms = min(config.number("linger.ms") + config.number("request.timeout.ms"), 2**31 - 1)
    if timeout_ms >= needed_ms:
        return timeout_ms
    if config.is_given("delivery.timeout.ms"):
        raise ConfigException(
            f"Invalid value {timeout_ms} for configuration delivery.timeout.ms: must be at least linger.ms + "
            f"request.timeout.ms, which is {needed_ms}"
        )
    return needed_ms


def _compression(config: ClientConfig) -> Compression:
    name = config.text("compression.type")
    codec = next(number for number, known in NAMES.items() if known == name)
    return Compression(codec, config.number(f"compression.{name}.level") if codec in {1, 3, 4} else None)


def _serializer(config: ClientConfig, name: str) -> Serializer | None:
    found = config.get(name)
    if found is None or callable(found):
        return found
    raise ConfigException(
        f"Invalid value {found!r} for configuration {name}: must be callable with (topic, headers, data)"
    )


def _interceptors(config: ClientConfig) -> ProducerInterceptors:
    found = config.items("interceptor.classes")
    for each in found:
        if not isinstance(each, ProducerInterceptor):
            raise ConfigException(
                f"Invalid value {each!r} for configuration interceptor.classes: must be ProducerInterceptor objects"
            )
    return ProducerInterceptors([each for each in found if isinstance(each, ProducerInterceptor)])
