"""What requests about partitions, features and access carry; strict as all bodies."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.rest.bodies import BROKERS_PER_PARTITION_MAX, CONFIGS_MAX, PARTITIONS_MAX, Body, ChangeBody, ConfigName

TopicName = Annotated[str, StringConstraints(max_length=10_000)]
PartitionId = Annotated[int, Field(ge=0, le=2**31 - 1)]
Name = Annotated[str, StringConstraints(max_length=32_767)]
ScramName = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
PrincipalName = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
PeriodMs = Annotated[int, Field(ge=1, le=2**63 - 1)]


class ReassignmentEntry(Body):
    """The replicas that one partition shall have, the preferred leader first."""

    topic_name: TopicName
    partition_id: PartitionId
    replica_ids: Annotated[tuple[int, ...], Field(max_length=BROKERS_PER_PARTITION_MAX, strict=False)]


class ReassignBody(ChangeBody):
    """Partitions to move. `allow_replication_factor_change` false refuses another number of replicas (KIP-860)."""

    data: Annotated[tuple[ReassignmentEntry, ...], Field(min_length=1, max_length=PARTITIONS_MAX, strict=False)]
    allow_replication_factor_change: bool = True


class PartitionEntry(Body):
    """One partition."""

    topic_name: TopicName
    partition_id: PartitionId


class CancelBody(ChangeBody):
    """Partitions whose reassignment shall end where it began."""

    data: Annotated[tuple[PartitionEntry, ...], Field(min_length=1, max_length=PARTITIONS_MAX, strict=False)]


class UnregisterBrokerBody(ChangeBody):
    """`force` forgets a broker that is live or holds replicas; it may stand in the query instead."""

    force: bool = False


class ElectBody(ChangeBody):
    """Which replica shall lead: PREFERRED the first one, UNCLEAN any that lives, even one that lacks records."""

    election_type: Literal["PREFERRED", "UNCLEAN"] = "PREFERRED"


class FeatureEntry(Body):
    """A feature and its new level; a lower one needs its upgrade_type, 0 takes the feature away."""

    feature_name: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    level: Annotated[int, Field(ge=0, le=2**15 - 1)]
    upgrade_type: Literal["UPGRADE", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE"] = "UPGRADE"


class UpdateFeaturesBody(ChangeBody):
    """Feature levels to change, all or none."""

    data: Annotated[tuple[FeatureEntry, ...], Field(min_length=1, max_length=100, strict=False)]


class AclEntry(Body):
    """One ACL."""

    resource_type: str
    resource_name: Name
    pattern_type: str
    principal: Name
    host: Name = "*"
    operation: str
    permission: str


class CreateAclBody(AclEntry, ChangeBody):
    """CreateAclRequestData of REST v3."""


class CreateAclsBody(ChangeBody):
    """ACLs to create at once."""

    data: Annotated[tuple[AclEntry, ...], Field(min_length=1, max_length=CONFIGS_MAX, strict=False)]


class ScramUserBody(ChangeBody):
    """A SCRAM user's new password. It is salted and hashed here; the cluster never sees it."""

    password: Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
    iterations: int = 8192


class QuotaEntityEntry(Body):
    """One part of whom a quota is for; `entity_name` null is the default of all others."""

    entity_type: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    entity_name: Name | None


class QuotaEntry(Body):
    """One quota; `value` null removes it."""

    key: ConfigName
    value: Annotated[float, Field(strict=False, allow_inf_nan=False)] | None


class AlterQuotaBody(ChangeBody):
    """Quotas of one entity, all or none."""

    entity: Annotated[tuple[QuotaEntityEntry, ...], Field(min_length=1, max_length=3, strict=False)]
    data: Annotated[tuple[QuotaEntry, ...], Field(min_length=1, max_length=100, strict=False)]


class CreateDelegationTokenBody(ChangeBody):
    """Whom a token is for (absent: the user this process logs in as), who may renew it, how long it can last."""

    owner: PrincipalName | None = None
    renewers: Annotated[tuple[PrincipalName, ...], Field(max_length=100, strict=False)] = ()
    max_lifetime_ms: PeriodMs | None = None


class RenewDelegationTokenBody(ChangeBody):
    """The token's HMAC in Base64, and for how long it shall last from now; absent: as the controllers' setting says."""

    hmac: Annotated[str, StringConstraints(max_length=1_000)]
    renew_period_ms: PeriodMs | None = None


class ExpireDelegationTokenBody(ChangeBody):
    """The token's HMAC in Base64, and in how long it shall end; absent: at once."""

    hmac: Annotated[str, StringConstraints(max_length=1_000)]
    expiry_period_ms: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
