"""IncrementalAlterConfigs and AlterConfigs, valid and invalid."""

from collections.abc import Iterator

from kraft_core.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from tests.interop.answers.controller_requests.case import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    Case,
    fixed,
)


def incremental(
    kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    """Return an IncrementalAlterConfigs request for one resource."""
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ),
    )
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)


def legacy(kind: int, name: str, *, validate_only: bool = False, **values: str | None) -> AlterConfigsRequest:
    """Return an AlterConfigs request for one resource. Keys have underscores for dots."""
    resource = AlterConfigsRequestAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            AlterConfigsRequestAlterableConfig(name=key.replace("_", "."), value=value) for key, value in values.items()
        ),
    )
    return AlterConfigsRequest(resources=(resource,), validate_only=validate_only)


CHANGES: tuple[tuple[int, str, tuple[tuple[str, int, str | None], ...]], ...] = (
    (TOPIC, "made-2", (("retention.ms", SET, "1000"),)),
    (TOPIC, "made-2", (("retention.ms", DELETE, None),)),
    (TOPIC, "made-2", (("retention.ms", DELETE, None),)),
    (TOPIC, "made-2", (("cleanup.policy", SET, "compact,delete"),)),
    (TOPIC, "made-2", (("cleanup.policy", APPEND, "compact"),)),
    (TOPIC, "made-2", (("cleanup.policy", SUBTRACT, "compact"),)),
    (TOPIC, "made-2", (("retention.ms", APPEND, "1"),)),
    (TOPIC, "made-2", (("retention.ms", SET, "soon"),)),
    (TOPIC, "made-2", (("no.such.config", SET, "1"),)),
    (TOPIC, "made-2", (("no.such.config", DELETE, None),)),
    (TOPIC, "made-2", (("retention.ms", SET, "1"), ("cleanup.policy", SET, "burn"))),
    (TOPIC, "made-2", (("min.insync.replicas", SET, "2"),)),
    (TOPIC, "made-2", (("follower.replication.throttled.replicas", SET, "0:101"),)),
    (TOPIC, "made-2", (("follower.replication.throttled.replicas", APPEND, "1:102"),)),
    (TOPIC, "made-2", (("follower.replication.throttled.replicas", SET, "nonsense"),)),
    (TOPIC, "made-2", ()),
    (TOPIC, "unknown", (("retention.ms", SET, "1"),)),
    (TOPIC, "", (("retention.ms", SET, "1"),)),
    (TOPIC, "bad name", (("retention.ms", SET, "1"),)),
    (BROKER, "101", (("log.cleaner.threads", SET, "2"),)),
    (BROKER, "101", (("leader.replication.throttled.rate", SET, "1000"),)),
    (BROKER, "", (("log.retention.ms", SET, "1000000"),)),
    (BROKER, "", (("log.retention.ms", DELETE, None),)),
    (BROKER, "", (("min.insync.replicas", SET, "1"),)),
    (BROKER, "", (("min.insync.replicas", DELETE, None),)),
    (BROKER, "999", (("log.cleaner.threads", SET, "2"),)),
    (BROKER, "not-a-number", (("log.cleaner.threads", SET, "2"),)),
    (BROKER, "-1", (("log.cleaner.threads", SET, "2"),)),
    (BROKER, "101", (("log.cleaner.threads", SET, "none"),)),
    (BROKER, "101", (("some.unknown.key", SET, "x"),)),
    (BROKER_LOGGER, "101", (("kafka", SET, "INFO"),)),
    (CLIENT_METRICS, "watch", (("interval.ms", SET, "1000"), ("metrics", SET, "org.apache"))),
    (CLIENT_METRICS, "watch", (("interval.ms", SET, "1"),)),
    (CLIENT_METRICS, "watch", (("match", SET, "no-such-selector=1"),)),
    (CLIENT_METRICS, "watch", (("unknown", SET, "1"),)),
    (CLIENT_METRICS, "", (("interval.ms", SET, "1000"),)),
    (GROUP, "workers", (("consumer.session.timeout.ms", SET, "50000"),)),
    (GROUP, "workers", (("consumer.session.timeout.ms", SET, "1"),)),
    (GROUP, "workers", (("unknown", SET, "1"),)),
    (GROUP, "", (("consumer.session.timeout.ms", SET, "50000"),)),
    (0, "x", (("retention.ms", SET, "1"),)),
    (77, "x", (("retention.ms", SET, "1"),)),
)


def config_requests() -> Iterator[Case]:
    """IncrementalAlterConfigs and AlterConfigs."""
    for version in range(2):
        for kind, name, changes in CHANGES:
            yield fixed(f"alter {kind} {name!r} {changes}", incremental(kind, name, *changes), version)
    for kind, name, changes in CHANGES[:14:3]:
        yield fixed(f"validate {kind} {name!r} {changes}", incremental(kind, name, *changes, validate_only=True), 1)
    twice = incremental(TOPIC, "made-2", ("retention.ms", SET, "1")).resources[0]
    yield fixed("alter a resource twice", IncrementalAlterConfigsRequest(resources=(twice, twice)), 1)
    for version in range(3):
        yield fixed("replace", legacy(TOPIC, "made-3", retention_ms="100", segment_ms="200"), version)
        yield fixed("replace by fewer", legacy(TOPIC, "made-3", segment_ms="300"), version)
        yield fixed("replace by nothing", legacy(TOPIC, "made-3"), version)
        yield fixed("replace by nonsense", legacy(TOPIC, "made-3", retention_ms="soon"), version)
        yield fixed("replace of an unknown topic", legacy(TOPIC, "unknown", retention_ms="1"), version)
        yield fixed("replace, only to see", legacy(TOPIC, "made-3", validate_only=True, retention_ms="7"), version)
