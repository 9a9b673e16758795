"""What answers about partitions, features and access look like; see models."""

from typing import Literal

from app.rest.base_models import Answer, ListOf, Related, Resource, Validated
from app.rest.models import ListenerData


class PartitionOutcomeData(Answer):
    """What became of a request about one partition; the last three are null where it was done."""

    topic_name: str
    partition_id: int
    partition: Related
    error_code: int | None
    kafka_error: str | None
    message: str | None


class PartitionOutcomeDataList(Validated):
    """One for each partition of the request, in its order."""

    data: list[PartitionOutcomeData]


class BrokerFeatureData(Answer):
    """The levels that a broker supports."""

    broker_id: int
    lowest_level: int
    highest_level: int


class FeatureData(Resource):
    """A feature. `level` 0: not switched on; null: not known now. The bounds are this software's, null: not known to it."""

    kind: Literal["KafkaFeature"]
    feature_name: str
    level: int | None
    lowest_level: int | None
    highest_level: int | None
    brokers: list[BrokerFeatureData]


class FeatureDataList(ListOf[FeatureData], Validated):
    """Features."""

    kind: Literal["KafkaFeatureList"]


class AclData(Resource):
    """An ACL."""

    kind: Literal["KafkaAcl"]
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class AclDataList(ListOf[AclData]):
    """ACLs."""

    kind: Literal["KafkaAclList"]


class DeletedAclsData(Validated):
    """The ACLs that were deleted."""

    data: list[AclData]


class ScramCredentialData(Answer):
    """What may be told of one password."""

    mechanism: str
    iterations: int


class ScramUserData(Resource):
    """A SCRAM user."""

    kind: Literal["KafkaScramUser"]
    user_name: str
    credentials: list[ScramCredentialData]


class ScramUserDataList(ListOf[ScramUserData]):
    """SCRAM users."""

    kind: Literal["KafkaScramUserList"]


class QuotaEntityData(Answer):
    """One part of whom a quota is for; the name null is the default."""

    entity_type: str
    entity_name: str | None


class QuotaValueData(Answer):
    """One quota."""

    key: str
    value: float


class ClientQuotaData(Resource):
    """The quotas of one entity."""

    kind: Literal["KafkaClientQuota"]
    entity: list[QuotaEntityData]
    quotas: list[QuotaValueData]


class ClientQuotaDataList(ListOf[ClientQuotaData]):
    """Client quotas."""

    kind: Literal["KafkaClientQuotaList"]


class SupportedFeatureData(Answer):
    """The levels of a feature that a node supports."""

    feature_name: str
    lowest_level: int
    highest_level: int


class ControllerData(Resource):
    """A controller; whether it votes is told by the quorum."""

    kind: Literal["KafkaController"]
    controller_id: int
    incarnation_id: str
    is_leader: bool
    listeners: list[ListenerData]
    features: list[SupportedFeatureData]
    quorum: Related


class ControllerDataList(ListOf[ControllerData]):
    """Controllers."""

    kind: Literal["KafkaControllerList"]


class LogDirectoryData(Resource):
    """A log directory of a broker that is online. `is_cordoned` (takes no new replicas) is null until the broker told."""

    kind: Literal["KafkaLogDirectory"]
    broker_id: int
    directory_id: str
    is_cordoned: bool | None
    replicas_count: int
    partition_replicas: Related


class LogDirectoryDataList(ListOf[LogDirectoryData]):
    """Log directories of a broker."""

    kind: Literal["KafkaLogDirectoryList"]


class ProducerIdsData(Resource):
    """Producer ids: the first one that no broker has been given."""

    kind: Literal["KafkaProducerIds"]
    next_producer_id: int


class DelegationTokenData(Resource):
    """A delegation token; times in ms since 1970. `hmac` is there in the answer that made the token, and nowhere else."""

    kind: Literal["KafkaDelegationToken"]
    token_id: str
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int


class DelegationTokenDataList(ListOf[DelegationTokenData]):
    """Delegation tokens."""

    kind: Literal["KafkaDelegationTokenList"]


class CreatedDelegationTokenData(DelegationTokenData):
    """A new delegation token."""

    hmac: str


class TokenEndData(Answer):
    """When a token ends, in ms since 1970."""

    expiry_timestamp: int
