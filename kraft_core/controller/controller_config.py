"""The settings of the controller, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraft_core.image.standard_authorizer import StandardAuthorizer


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """Settings of the active controller. Times are in ms; 0 disables an interval where Kafka allows it.

    `static_configs`: the node's server.properties as text, for effective configs (topic → broker default → static →
    default). `bootstrap_features`: the feature levels of an empty log, from bootstrap.checkpoint, else the newest;
    "metadata.version" is included. Source: QuorumController.Builder, KRaftConfigs.
    """

    node_id: int
    cluster_id: str
    default_replication_factor: int = 1  # default.replication.factor
    default_num_partitions: int = 1  # num.partitions
    min_insync_replicas: int = 1  # min.insync.replicas
    session_timeout_ms: int = 9_000  # broker.session.timeout.ms
    heartbeat_interval_ms: int = 2_000  # broker.heartbeat.interval.ms
    max_idle_interval_ms: int = 500  # metadata.max.idle.interval.ms; 0: no NoOp records
    auto_leader_rebalance_enable: bool = True  # auto.leader.rebalance.enable
    leader_imbalance_check_interval_ms: int = 300_000  # leader.imbalance.check.interval.seconds
    unclean_leader_election_interval_ms: int = 300_000  # unclean.leader.election.interval.ms
    delete_topic_enable: bool = True  # delete.topic.enable
    max_partitions_per_batch: int = 10_000  # partitions that one request may create
    max_records_per_batch: int = 10_000
    leader_balance_max_elections: int = 1_000  # partitions that one rebalance run may move
    quota_window_num: int = 11  # controller.quota.window.num
    quota_window_size_seconds: int = 1  # controller.quota.window.size.seconds
    delegation_token_secret_key: str | None = field(default=None, repr=False)  # delegation.token.secret.key
    delegation_token_max_lifetime_ms: int = 604_800_000  # delegation.token.max.lifetime.ms
    delegation_token_expiry_time_ms: int = 86_400_000  # delegation.token.expiry.time.ms
    delegation_token_expiry_check_interval_ms: int = 3_600_000  # delegation.token.expiry.check.interval.ms
    authorizer: StandardAuthorizer | None = None  # authorizer.class.name, super.users, allow.everyone.if.no.acl.found
    static_configs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    bootstrap_features: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType(
            {
                "metadata.version": 30,
                "eligible.leader.replicas.version": 1,
                "group.version": 1,
                "share.version": 1,
                "streams.version": 1,
                "transaction.version": 2,
            }
        )
    )
