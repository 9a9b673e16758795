"""Records of brokers, controllers, features, and of the log itself.

The fields are those of Kafka 4.3.1's message schemas, which document them.
"""

from typing import Annotated
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import Message, wire


class RegisterBrokerRecordBrokerEndpoint(Message):
    """An element of RegisterBrokerRecord.end_points."""

    name: Annotated[str, wire("string")] = ""
    host: Annotated[str, wire("string")] = ""
    port: Annotated[int, wire("uint16")] = 0
    security_protocol: Annotated[int, wire("int16")] = 0


class RegisterBrokerRecordBrokerFeature(Message):
    """An element of RegisterBrokerRecord.features."""

    name: Annotated[str, wire("string")] = ""
    min_supported_version: Annotated[int, wire("int16")] = 0
    max_supported_version: Annotated[int, wire("int16")] = 0


class RegisterBrokerRecord(Message):
    """A broker registered; fenced until BrokerRegistrationChange; apiKey 0, v0-4. Source: RegisterBrokerRecord.json."""

    API_KEY = 0
    VERSIONS = (0, 4)
    FLEXIBLE = 0

    broker_id: Annotated[int, wire("int32")] = 0
    is_migrating_zk_broker: Annotated[bool, wire("bool", since=2)] = False
    incarnation_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    broker_epoch: Annotated[int, wire("int64")] = 0
    end_points: Annotated[tuple[RegisterBrokerRecordBrokerEndpoint, ...], wire("[]BrokerEndpoint")] = ()
    features: Annotated[tuple[RegisterBrokerRecordBrokerFeature, ...], wire("[]BrokerFeature")] = ()
    rack: Annotated[str | None, wire("string", nullable_since=0)] = ""
    fenced: Annotated[bool, wire("bool")] = True
    in_controlled_shutdown: Annotated[bool, wire("bool", since=1)] = False
    log_dirs: Annotated[tuple[UUID, ...], wire("[]uuid", since=3, tag=0)] = ()
    cordoned_log_dirs: Annotated[tuple[UUID, ...] | None, wire("[]uuid", since=4, nullable_since=4, tag=1)] = None


class UnregisterBrokerRecord(Message):
    """A broker was unregistered; apiKey 1, v0. Source: UnregisterBrokerRecord.json."""

    API_KEY = 1
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    broker_id: Annotated[int, wire("int32")] = 0
    broker_epoch: Annotated[int, wire("int64")] = 0


class FenceBrokerRecord(Message):
    """A broker was fenced (written by old controllers); apiKey 7, v0. Source: FenceBrokerRecord.json."""

    API_KEY = 7
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    id: Annotated[int, wire("int32")] = 0
    epoch: Annotated[int, wire("int64")] = 0


class UnfenceBrokerRecord(Message):
    """A broker was unfenced (written by old controllers); apiKey 8, v0. Source: UnfenceBrokerRecord.json."""

    API_KEY = 8
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    id: Annotated[int, wire("int32")] = 0
    epoch: Annotated[int, wire("int64")] = 0


class FeatureLevelRecord(Message):
    """A feature was finalized at a level; 0 removes it; apiKey 12, v0. Source: FeatureLevelRecord.json."""

    API_KEY = 12
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    name: Annotated[str, wire("string")] = ""
    feature_level: Annotated[int, wire("int16")] = 0


class ProducerIdsRecord(Message):
    """Producer ids below next_producer_id are assigned; apiKey 15, v0. Source: ProducerIdsRecord.json."""

    API_KEY = 15
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    broker_id: Annotated[int, wire("int32")] = 0
    broker_epoch: Annotated[int, wire("int64")] = -1
    next_producer_id: Annotated[int, wire("int64")] = 0


class BrokerRegistrationChangeRecord(Message):
    """A broker registration changed; 0, null or empty means unchanged; apiKey 17, v0-3.

    Source: BrokerRegistrationChangeRecord.json.
    """

    API_KEY = 17
    VERSIONS = (0, 3)
    FLEXIBLE = 0

    broker_id: Annotated[int, wire("int32")] = 0
    broker_epoch: Annotated[int, wire("int64")] = 0
    fenced: Annotated[int, wire("int8", tag=0)] = 0
    in_controlled_shutdown: Annotated[int, wire("int8", since=1, tag=1)] = 0
    log_dirs: Annotated[tuple[UUID, ...], wire("[]uuid", since=2, tag=2)] = ()
    cordoned_log_dirs: Annotated[tuple[UUID, ...] | None, wire("[]uuid", since=3, nullable_since=3, tag=3)] = None


class NoOpRecord(Message):
    """No change: advances the log while the cluster is idle; apiKey 20, v0. Source: NoOpRecord.json."""

    API_KEY = 20
    VERSIONS = (0, 0)
    FLEXIBLE = 0


class ZkMigrationStateRecord(Message):
    """State of the migration from ZooKeeper (read, never written); apiKey 21, v0. Source: ZkMigrationRecord.json."""

    API_KEY = 21
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    zk_migration_state: Annotated[int, wire("int8")] = 0


class BeginTransactionRecord(Message):
    """A metadata transaction begins: hold back the following records; apiKey 23, v0.

    Source: BeginTransactionRecord.json.
    """

    API_KEY = 23
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    name: Annotated[str | None, wire("string", nullable_since=0, tag=0)] = None


class EndTransactionRecord(Message):
    """The metadata transaction is complete: apply it; apiKey 24, v0. Source: EndTransactionRecord.json."""

    API_KEY = 24
    VERSIONS = (0, 0)
    FLEXIBLE = 0


class AbortTransactionRecord(Message):
    """The metadata transaction failed: drop it; apiKey 25, v0. Source: AbortTransactionRecord.json."""

    API_KEY = 25
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    reason: Annotated[str | None, wire("string", nullable_since=0, tag=0)] = None


class RegisterControllerRecordControllerEndpoint(Message):
    """An element of RegisterControllerRecord.end_points."""

    name: Annotated[str, wire("string")] = ""
    host: Annotated[str, wire("string")] = ""
    port: Annotated[int, wire("uint16")] = 0
    security_protocol: Annotated[int, wire("int16")] = 0


class RegisterControllerRecordControllerFeature(Message):
    """An element of RegisterControllerRecord.features."""

    name: Annotated[str, wire("string")] = ""
    min_supported_version: Annotated[int, wire("int16")] = 0
    max_supported_version: Annotated[int, wire("int16")] = 0


class RegisterControllerRecord(Message):
    """A controller registered; apiKey 27, v0. Source: RegisterControllerRecord.json."""

    API_KEY = 27
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    controller_id: Annotated[int, wire("int32")] = 0
    incarnation_id: Annotated[UUID, wire("uuid")] = ZERO_UUID
    zk_migration_ready: Annotated[bool, wire("bool")] = False
    end_points: Annotated[tuple[RegisterControllerRecordControllerEndpoint, ...], wire("[]ControllerEndpoint")] = ()
    features: Annotated[tuple[RegisterControllerRecordControllerFeature, ...], wire("[]ControllerFeature")] = ()
