"""The ACLs that an application needs: a producer, a consumer, Kafka Streams, or workers of Kafka Connect.

    producer   WRITE, DESCRIBE, CREATE on its topics; WRITE, DESCRIBE on its transactional id; IDEMPOTENT_WRITE
    consumer   READ, DESCRIBE on its topics; READ on its group
    streams    READ, DESCRIBE on the topics that it reads, WRITE, DESCRIBE, CREATE on those that it writes; ALL on the
               topics and groups whose names begin with its application id; with exactly-once semantics WRITE, DESCRIBE
               on the transactional ids that begin with it
    connect    READ on the workers' group; READ, WRITE, CREATE on their three internal topics; READ, DESCRIBE on the
               topics that sinks read and READ on the group of each connector; WRITE, DESCRIBE, CREATE on the topics
               that sources write; with exactly-once semantics WRITE, DESCRIBE on the transactional ids of the workers
               and on those that begin with the group's and a connector's name

Producer and consumer are those of `kafka-acls --producer` and `--consumer`, source: AclCommand, Kafka 4.3.1. Streams is
what its documentation asks for: it names internal topics, groups and transactional ids after the application id.
Connect is the table "ACL requirements" of its user guide, for workers and connectors with the same principal.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import msgspec

from app.cluster.acl_files import ACLS_MAX
from app.cluster.acls import wrong_principal
from app.texts import phrase
from kraft_core.image.acls_image import StandardAcl
from kraft_core.protocol.acl import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kraft_core.protocol.errors import ErrorCode, KafkaError

Preset = Literal["producer", "consumer", "streams", "connect"]

PRESETS: Final[tuple[Preset, ...]] = get_args(Preset)
READS: Final = (AclOperation.READ, AclOperation.DESCRIBE)
WRITES: Final = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
TRANSACTS: Final = (AclOperation.WRITE, AclOperation.DESCRIBE)
INTERNAL: Final = (AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE)
INTERNAL_TOPICS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An application. With `prefixed`, its topics, group and transactional id are prefixes of names.

    The group of Connect workers, their `internal_topics` and `connectors` are names in any case.
    """

    preset: str
    principal: str
    host: str = WILDCARD
    read_topics: Sequence[str] = ()
    write_topics: Sequence[str] = ()
    prefixed: bool = False
    group: str = ""
    transactional_id: str = ""
    idempotent: bool = False
    application_id: str = ""
    exactly_once: bool = False
    internal_topics: Sequence[str] = ()
    connectors: Sequence[str] = ()

    def acls(self) -> list[StandardAcl]:
        """Return its ACLs, sorted. Raises KafkaError INVALID_REQUEST for what is missing or too much."""
        if text := wrong_principal(self.principal):
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        found: set[StandardAcl] = set()
        for resource, operations in self._rights():
            found.update(self._allowed(resource, operations))
            if len(found) > ACLS_MAX:
                raise KafkaError(ErrorCode.INVALID_REQUEST, phrase("There are more than %(most)s ACLs.", most=ACLS_MAX))
        return sorted(found, key=msgspec.structs.astuple)

    def _rights(self) -> "Iterable[tuple[_Resource, Sequence[AclOperation]]]":
        pattern = PatternType.PREFIXED if self.prefixed else PatternType.LITERAL
        reads = [((ResourceType.TOPIC, pattern, name), READS) for name in self.read_topics]
        writes = [((ResourceType.TOPIC, pattern, name), WRITES) for name in self.write_topics]
        match self.preset:
            case "producer":
                self._require("write_topics")
                yield from writes
                if self.transactional_id:
                    yield (ResourceType.TRANSACTIONAL_ID, pattern, self.transactional_id), TRANSACTS
                if self.idempotent:
                    cluster = (ResourceType.CLUSTER, PatternType.LITERAL, CLUSTER_NAME)
                    yield cluster, (AclOperation.IDEMPOTENT_WRITE,)
            case "consumer":
                self._require("read_topics", "group")
                yield from reads
                yield (ResourceType.GROUP, pattern, self.group), (AclOperation.READ,)
            case "streams":
                self._require("application_id")
                yield from (*reads, *writes)
                for kind in (ResourceType.TOPIC, ResourceType.GROUP):
                    yield (kind, PatternType.PREFIXED, self.application_id), (AclOperation.ALL,)
                if self.exactly_once:
                    yield (ResourceType.TRANSACTIONAL_ID, PatternType.PREFIXED, self.application_id), TRANSACTS
            case "connect":
                yield from (*reads, *writes, *self._connect_rights())
            case _:
                known = ", ".join(PRESETS)
                text = phrase("The preset must be one of %(known)s (was '%(name)s').", known=known, name=self.preset)
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)

    def _connect_rights(self) -> "Iterable[tuple[_Resource, Sequence[AclOperation]]]":
        """Return the rights beside those on the topics of connectors."""
        self._require("group", "internal_topics", *(["connectors"] if self.read_topics else []))
        if len(set(self.internal_topics)) != INTERNAL_TOPICS:
            given = ", ".join(self.internal_topics)
            text = phrase(
                "The internal topics of Connect are three: configs, offsets, status (was %(given)s).", given=given
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        literal, prefixed = PatternType.LITERAL, PatternType.PREFIXED
        yield (ResourceType.GROUP, literal, self.group), (AclOperation.READ,)
        for topic in self.internal_topics:
            yield (ResourceType.TOPIC, literal, topic), INTERNAL
        if self.read_topics:
            for connector in self.connectors:
                yield (ResourceType.GROUP, literal, f"connect-{connector}"), (AclOperation.READ,)
        if self.exactly_once:
            yield (ResourceType.TRANSACTIONAL_ID, literal, f"connect-cluster-{self.group}"), TRANSACTS
            for connector in self.connectors:
                yield (ResourceType.TRANSACTIONAL_ID, prefixed, f"{self.group}-{connector}-"), TRANSACTS

    def _require(self, *fields: str) -> None:
        missing = [name for name in fields if not getattr(self, name)]
        if missing:
            names = ", ".join(missing)
            text = phrase("The preset %(preset)s needs %(names)s.", preset=self.preset, names=names)
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)

    def _allowed(self, resource: "_Resource", operations: Sequence[AclOperation]) -> Iterable[StandardAcl]:
        kind, pattern, name = resource
        for operation in operations:
            yield StandardAcl(
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern,
                principal=self.principal,
                host=self.host,
                operation=operation,
                permission_type=AclPermissionType.ALLOW,
            )


_Resource = tuple[ResourceType, PatternType, str]
