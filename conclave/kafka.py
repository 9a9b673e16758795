"""Conclave's clients of Kafka: `from conclave.kafka import KafkaConsumer, KafkaProducer`. See docs/clients.md.

A client is imported when its name is first used: none of them needs the modules of all.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kraft_core.clients.admin.admin_call import Results
    from kraft_core.clients.admin.configs import ConfigChange, ConfigResource, ConfigResourceType
    from kraft_core.clients.admin.kafka_admin_client import Admin
    from kraft_core.clients.admin.topics import NewPartitions, NewTopic
    from kraft_core.clients.client_metadata import TopicPartition
    from kraft_core.clients.consumer.consumer_errors import (
        InvalidSubscription,
        LogTruncation,
        NoOffsetForPartition,
        OffsetOutOfRange,
        PartitionNotAssigned,
        RecordDeserialization,
        RecordUnreadable,
    )
    from kraft_core.clients.consumer.consumer_interceptor import ConsumerInterceptor
    from kraft_core.clients.consumer.consumer_record import ConsumerRecord
    from kraft_core.clients.consumer.group_errors import (
        CommitFailed,
        FencedInstanceId,
        GroupAuthorizationFailed,
        RebalanceInProgress,
        RebalanceListenerFailed,
        RetriableCommitFailed,
        TopicAuthorizationFailed,
    )
    from kraft_core.clients.consumer.kafka_consumer import KafkaConsumer
    from kraft_core.clients.consumer.partition_reader import OffsetRange, PartitionReader, ReaderLimits
    from kraft_core.clients.consumer.subscription_state import ConsumerRebalanceListener, SubscriptionPattern
    from kraft_core.clients.offset_and_metadata import OffsetAndMetadata, OffsetAndTimestamp
    from kraft_core.clients.producer.future_record_metadata import FutureRecordMetadata, RecordMetadata
    from kraft_core.clients.producer.kafka_producer import KafkaProducer
    from kraft_core.clients.producer.producer_interceptor import ProducerInterceptor, ProducerRecord
    from kraft_core.clients.producer.transaction_errors import (
        IllegalState,
        ProducerFailed,
        ProducerFenced,
        TransactionAbortable,
        TransactionAborted,
    )
    from kraft_core.configs.config_def import ConfigException
    from kraft_core.protocol.errors import BufferExhausted, ErrorCode, KafkaError, RequestTimedOut, UnsupportedVersion
    from kraft_core.security.sasl_client_authenticator import LoginFailed

__all__ = [
    "Admin",
    "BufferExhausted",
    "CommitFailed",
    "ConfigChange",
    "ConfigException",
    "ConfigResource",
    "ConfigResourceType",
    "ConsumerInterceptor",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ErrorCode",
    "FencedInstanceId",
    "FutureRecordMetadata",
    "GroupAuthorizationFailed",
    "IllegalState",
    "InvalidSubscription",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "LogTruncation",
    "LoginFailed",
    "NewPartitions",
    "NewTopic",
    "NoOffsetForPartition",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRange",
    "OffsetRange",
    "PartitionNotAssigned",
    "PartitionReader",
    "ProducerFailed",
    "ProducerFenced",
    "ProducerInterceptor",
    "ProducerRecord",
    "ReaderLimits",
    "RebalanceInProgress",
    "RebalanceListenerFailed",
    "RecordDeserialization",
    "RecordMetadata",
    "RecordUnreadable",
    "RequestTimedOut",
    "Results",
    "RetriableCommitFailed",
    "SubscriptionPattern",
    "TopicAuthorizationFailed",
    "TopicPartition",
    "TransactionAbortable",
    "TransactionAborted",
    "UnsupportedVersion",
]

_NAMES: Final = {
    "kraft_core.clients.admin.admin_call": ("Results",),
    "kraft_core.clients.admin.configs": ("ConfigChange", "ConfigResource", "ConfigResourceType"),
    "kraft_core.clients.admin.kafka_admin_client": ("Admin",),
    "kraft_core.clients.admin.topics": ("NewPartitions", "NewTopic"),
    "kraft_core.clients.client_metadata": ("TopicPartition",),
    "kraft_core.clients.consumer.consumer_errors": (
        "InvalidSubscription",
        "LogTruncation",
        "NoOffsetForPartition",
        "OffsetOutOfRange",
        "PartitionNotAssigned",
        "RecordDeserialization",
        "RecordUnreadable",
    ),
    "kraft_core.clients.consumer.consumer_interceptor": ("ConsumerInterceptor",),
    "kraft_core.clients.consumer.consumer_record": ("ConsumerRecord",),
    "kraft_core.clients.consumer.group_errors": (
        "CommitFailed",
        "FencedInstanceId",
        "GroupAuthorizationFailed",
        "RebalanceInProgress",
        "RebalanceListenerFailed",
        "RetriableCommitFailed",
        "TopicAuthorizationFailed",
    ),
    "kraft_core.clients.consumer.kafka_consumer": ("KafkaConsumer",),
    "kraft_core.clients.consumer.partition_reader": ("OffsetRange", "PartitionReader", "ReaderLimits"),
    "kraft_core.clients.consumer.subscription_state": ("ConsumerRebalanceListener", "SubscriptionPattern"),
    "kraft_core.clients.offset_and_metadata": ("OffsetAndMetadata", "OffsetAndTimestamp"),
    "kraft_core.clients.producer.future_record_metadata": ("FutureRecordMetadata", "RecordMetadata"),
    "kraft_core.clients.producer.kafka_producer": ("KafkaProducer",),
    "kraft_core.clients.producer.producer_interceptor": ("ProducerInterceptor", "ProducerRecord"),
    "kraft_core.clients.producer.transaction_errors": (
        "IllegalState",
        "ProducerFailed",
        "ProducerFenced",
        "TransactionAbortable",
        "TransactionAborted",
    ),
    "kraft_core.configs.config_def": ("ConfigException",),
    "kraft_core.protocol.errors": (
        "BufferExhausted",
        "ErrorCode",
        "KafkaError",
        "RequestTimedOut",
        "UnsupportedVersion",
    ),
    "kraft_core.security.sasl_client_authenticator": ("LoginFailed",),
}
"""The names by the module that they are imported from."""
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a name when it is first used (PEP 562)."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(module), name)
    globals()[name] = found
    return found
