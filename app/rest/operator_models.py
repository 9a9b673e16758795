"""What answers about partitions, features and access look like; see models."""

from typing import Literal

from app.rest.models import Answer, ListOf, Related, Resource


class PartitionOutcomeData(Answer):
    """What became of a request about one partition; the last three are null where it was done."""

    topic_name: str
    partition_id: int
    partition: Related
    error_code: int | None
    kafka_error: str | None
    message: str | None


class PartitionOutcomeDataList(Answer):
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


class FeatureDataList(ListOf[FeatureData]):
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


class DeletedAclsData(Answer):
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
