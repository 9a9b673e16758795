"""What answers look like: REST v3's resources with our additions, for OpenAPI and for the tests that check every answer.

Answers are built as plain dicts, which is quick; the tests hold them against these models, which know no other member.
"""

from typing import Literal

from app.rest.base_models import Answer, ListOf, Metadata, Related, Resource, Validated


class ClusterData(Resource):
    """A cluster."""

    kind: Literal["KafkaCluster"]
    controller: Related | None
    acls: Related
    brokers: Related
    broker_configs: Related
    consumer_groups: Related
    topics: Related
    partition_reassignments: Related
    quorum: Related


class ClusterDataList(ListOf[ClusterData]):
    """Clusters."""

    kind: Literal["KafkaClusterList"]


class ListenerData(Answer):
    """Where a broker listens."""

    name: str
    host: str
    port: int


class BrokerData(Resource):
    """A broker."""

    kind: Literal["KafkaBroker"]
    broker_id: int
    host: str | None
    port: int | None
    rack: str | None
    configs: Related
    partition_replicas: Related
    is_fenced: bool
    is_shutting_down: bool
    broker_epoch: int
    incarnation_id: str
    listeners: list[ListenerData]
    log_directories: list[str]


class BrokerDataList(ListOf[BrokerData]):
    """Brokers."""

    kind: Literal["KafkaBrokerList"]


class TopicData(Resource):
    """A topic."""

    kind: Literal["KafkaTopic"]
    topic_name: str
    topic_id: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Related
    configs: Related
    partition_reassignments: Related
    authorized_operations: list[str]


class TopicDataList(ListOf[TopicData]):
    """Topics."""

    kind: Literal["KafkaTopicList"]


class PartitionData(Resource):
    """A partition."""

    kind: Literal["KafkaPartition"]
    topic_name: str
    partition_id: int
    leader: Related | None
    replicas: Related
    reassignment: Related
    leader_id: int | None
    leader_epoch: int
    partition_epoch: int
    replica_ids: list[int]
    in_sync_replica_ids: list[int]
    eligible_leader_replica_ids: list[int]
    is_recovering: bool


class PartitionDataList(ListOf[PartitionData]):
    """Partitions."""

    kind: Literal["KafkaPartitionList"]


class ReplicaData(Resource):
    """A replica."""

    kind: Literal["KafkaReplica"]
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_sync: bool
    broker: Related
    directory_id: str | None


class ReplicaDataList(ListOf[ReplicaData]):
    """Replicas."""

    kind: Literal["KafkaReplicaList"]


class ReassignmentData(Resource):
    """A reassignment under way."""

    kind: Literal["KafkaReassignment"]
    topic_name: str
    partition_id: int
    adding_replicas: list[int]
    removing_replicas: list[int]
    replicas: Related


class ReassignmentDataList(ListOf[ReassignmentData]):
    """Reassignments under way."""

    kind: Literal["KafkaReassignmentList"]


class ConfigSynonymData(Answer):
    """A place a config could come from."""

    name: str
    value: str | None
    source: str


class ConfigData(Resource):
    """Members that configs of all kinds have."""

    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[ConfigSynonymData]
    type: str | None
    documentation: str | None


class TopicConfigData(ConfigData):
    """A config of a topic."""

    kind: Literal["KafkaTopicConfig"]
    topic_name: str


class TopicConfigDataList(ListOf[TopicConfigData]):
    """Configs of topics."""

    kind: Literal["KafkaTopicConfigList"]


class BrokerConfigData(ConfigData):
    """A config of a broker."""

    kind: Literal["KafkaBrokerConfig"]
    broker_id: int


class BrokerConfigDataList(ListOf[BrokerConfigData]):
    """Configs of brokers."""

    kind: Literal["KafkaBrokerConfigList"]


class ClusterConfigData(ConfigData):
    """A config of all brokers."""

    kind: Literal["KafkaClusterConfig"]
    config_type: Literal["BROKER"]


class ConsumerGroupConfigData(ConfigData):
    """A config of a consumer group."""

    kind: Literal["KafkaConsumerGroupConfig"]
    consumer_group_id: str


class ConsumerGroupConfigDataList(ListOf[ConsumerGroupConfigData]):
    """Configs of a consumer group."""

    kind: Literal["KafkaConsumerGroupConfigList"]


class ClientMetricsConfigData(ConfigData):
    """A config of a client-metrics subscription."""

    kind: Literal["KafkaClientMetricsConfig"]
    subscription_name: str


class ClientMetricsConfigDataList(ListOf[ClientMetricsConfigData]):
    """Configs of a client-metrics subscription."""

    kind: Literal["KafkaClientMetricsConfigList"]


class ClusterConfigDataList(ListOf[ClusterConfigData]):
    """Configs of all brokers."""

    kind: Literal["KafkaClusterConfigList"]


class QuorumReplicaData(Answer):
    """A voter or observer; -1 where an offset or time is unknown, times are the leader's clock in ms.

    `is_silent`: a voter that answers neither the web process nor, since then, the leader.
    """

    replica_id: int
    directory_id: str | None
    endpoints: list[ListenerData]
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    lag: int | None
    lag_ms: int | None
    is_leader: bool
    is_caught_up: bool
    is_silent: bool


class QuorumObserverData(QuorumReplicaData):
    """An observer, or (`is_fetching` false) a node that registered and that the leader hears no fetch of."""

    kind: Literal["BROKER", "CONTROLLER", "UNKNOWN"]
    is_fetching: bool


class LatestSnapshotData(Answer):
    """The leader's newest snapshot: all before `end_offset`; -1 where unknown, times in ms."""

    end_offset: int
    epoch: int
    size_bytes: int
    last_contained_log_timestamp: int


class QuorumData(Resource):
    """The quorum; `is_live` is false while its leader does not answer, then only what the log says is here.

    `state_text` says in words what is wrong: who does not answer, since when, how many are needed; "" if nothing is.
    """

    kind: Literal["KafkaQuorum"]
    leader_id: int | None
    leader_epoch: int
    high_watermark: int
    kraft_version: int
    log_start_offset: int
    log_end_offset: int
    latest_snapshot: LatestSnapshotData | None
    voters: list[QuorumReplicaData]
    observers: list[QuorumObserverData]
    committed_voter_ids: list[int] | None
    is_voter_change_under_way: bool
    majority: int
    failures_tolerated: int
    max_follower_lag: int | None
    max_follower_lag_ms: int | None
    state: Literal["LED", "NO_LEADER", "NO_MAJORITY", "UNKNOWN"]
    state_text: str
    is_live: bool
    error: str | None


class VoterSetData(Answer):
    """A voter set and what it withstands; `_now` counts those that are behind or silent as failed."""

    voter_ids: list[int]
    behind_voter_ids: list[int]
    majority: int
    failures_tolerated: int
    failures_tolerated_now: int


class CheckData(Answer):
    """A precondition, whether it holds, and what was found."""

    name: str
    is_met: bool
    detail: str


class VoterChangeData(Resource):
    """A voter added or removed, or, with `validate_only`, what that would do; `offset` is null then."""

    kind: Literal["KafkaQuorumVoterChange"]
    operation: Literal["ADD", "REMOVE"]
    voter_id: int
    directory_id: str
    endpoints: list[ListenerData]
    before: VoterSetData
    after: VoterSetData
    checks: list[CheckData]
    warnings: list[str]
    offset: int | None


class QuorumEpochData(Resource):
    """One leadership: from the log, by the leaders' clocks; `leaderless_ms` and some of `end_reason` as this process saw it.

    Times and durations in ms; -1 or null where not known. `end_offset` is exclusive. `gap_ms` lies between the last record
    of the leader before and the first of this one: at most half a second more than there was no leader.
    """

    kind: Literal["KafkaQuorumEpoch"]
    leader_epoch: int
    leader_id: int
    start_offset: int
    timestamp: int
    end_offset: int
    last_timestamp: int
    led_ms: int | None
    voter_ids: list[int]
    granting_voter_ids: list[int]
    previous_leader_id: int | None
    epochs_without_leader_before: int | None
    gap_ms: int | None
    leaderless_ms: int | None
    end_reason: Literal[
        "leads", "removed", "resigned", "connection-closed", "silent", "voted-for-successor", "led-again", "unknown"
    ]
    end_detail: str


class QuorumEpochDataList(ListOf[QuorumEpochData]):
    """Leaderships, newest first."""

    kind: Literal["KafkaQuorumEpochList"]


class ChangeData(Answer):
    """One committed batch or transaction."""

    kind: Literal["KafkaMetadataChange"]
    first_offset: int
    offset: int
    leader_epoch: int
    timestamp: int
    lines: list[str]
    records: list["MetadataRecordData"]


class MetadataRecordData(Answer):
    """One record of the metadata log; secrets are left out."""

    offset: int
    type: str
    data: dict[str, object]


class ChangeDataList(ListOf[ChangeData]):
    """Changes, oldest first."""

    kind: Literal["KafkaMetadataChangeList"]
    oldest_offset: int


class UserData(Validated):
    """A user of this installation."""

    kind: Literal["ConclaveUser"]
    metadata: Metadata
    name: str
    role: str
    has_password: bool
    disabled: bool
    created_at: str
    last_login_at: str | None


class UserDataList(ListOf[UserData]):
    """Users."""

    kind: Literal["ConclaveUserList"]


class TokenData(Validated):
    """An API token; its text is in the answer to its creation alone."""

    kind: Literal["ConclaveToken"]
    metadata: Metadata
    name: str
    hint: str
    role: str
    scopes: list[str]
    created_by: str
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None
    token: str | None = None


class TokenDataList(ListOf[TokenData]):
    """API tokens."""

    kind: Literal["ConclaveTokenList"]


class SessionData(Answer):
    """One browser that a user is logged in with; `opened_by` is password or link."""

    kind: Literal["ConclaveSession"]
    metadata: Metadata
    id: int
    created_at: str
    last_seen_at: str
    source: str
    user_agent: str
    opened_by: str
    is_present: bool


class SessionDataList(ListOf[SessionData]):
    """Sessions, the last used first."""

    kind: Literal["ConclaveSessionList"]


class AuditEventData(Answer):
    """One login, denial or change."""

    kind: Literal["ConclaveAuditEvent"]
    id: int
    at: str
    actor: str
    actor_kind: str
    source: str
    action: str
    resource: str
    result: str
    count: int
    error: str | None
    detail: dict[str, object]
    request_id: str
    metadata_offset: int | None


class AuditEventDataList(ListOf[AuditEventData]):
    """Events, newest first."""

    kind: Literal["ConclaveAuditEventList"]


class LoginLinkData(Validated):
    """A link that logs in once; a dry run makes none, so its `url` is null."""

    kind: Literal["ConclaveLoginLink"]
    name: str
    url: str | None
