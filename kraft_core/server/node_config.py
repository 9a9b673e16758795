"""The configs of a node's parts, built from its KafkaConfig and bootstrap.checkpoint.

Source: QuorumConfig, KRaftConfigs, ControllerServer and BootstrapDirectory, Kafka 4.3.1.
"""

import logging
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final
from uuid import UUID

from kraft_core.clients.metadata_source import MetadataSource
from kraft_core.configs.config_resource import BROKER
from kraft_core.controller.controller_config import ControllerConfig
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.node import NodeConfig
from kraft_core.protocol.metadata_records import FeatureLevelRecord, MetadataRecord, decode_record
from kraft_core.protocol.record_batch import read_batches
from kraft_core.protocol.wire import Message
from kraft_core.raft.raft_config import RaftConfig
from kraft_core.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet
from kraft_core.server.config.kafka_config import ConfigError, KafkaConfig
from kraft_core.server.network.connection_quotas import ConnectionQuotas
from kraft_core.server.network.listener_limits import SocketServerLimits
from kraft_core.storage.format import BOOTSTRAP_NAME

log = logging.getLogger(__name__)

_CONNECTION_KEYS: Final = (
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.connection.creation.rate",
)


def advertised_endpoints(config: KafkaConfig) -> tuple[Endpoint, ...]:
    """Return the advertised endpoints of this controller; an empty host becomes this machine's name."""
    return tuple(
        Endpoint(each.name, each.host or socket.getfqdn(), each.port) for each in config.advertised_controller_listeners
    )


def raft_config(
    config: KafkaConfig, cluster_id: str, directory_id: UUID, endpoints: tuple[Endpoint, ...]
) -> RaftConfig:
    """Return the config of the raft client. Without bootstrap servers it asks the static voters for the leader."""
    listener_name = config.controller_listener_names[0].upper()
    static = VoterSet.of(
        VoterNode(ReplicaKey(voter.id), (Endpoint(listener_name, voter.host, voter.port),), 0, 0)
        for voter in config.controller_quorum_voters
    )
    return RaftConfig(
        node_id=config.node_id,
        directory_id=directory_id,
        cluster_id=cluster_id,
        is_voter_capable=config.is_controller,
        endpoints=endpoints,
        listener_name=listener_name,
        bootstrap_servers=config.quorum_addresses,
        static_voters=static,
        auto_join=config.controller_quorum_auto_join_enable,
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        fetch_snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        max_batch_bytes=config.internal_metadata_max_batch_size_in_bytes,
    )


def read_bootstrap(folder: Path) -> tuple[dict[str, int], list[MetadataRecord]]:
    """Read bootstrap.checkpoint, which `format` wrote for the first leader -> (feature levels by name, other records).

    Both are empty without the file. Raises CorruptBatch for damaged bytes, OSError if the file cannot be read.
    """
    path = folder / BOOTSTRAP_NAME
    features: dict[str, int] = {}
    others: list[MetadataRecord] = []
    if not path.exists():
        return features, others
    for batch in read_batches(path.read_bytes()):
        if batch.is_control:
            continue
        for value in batch.values():
            record = decode_record(value)
            if isinstance(record, FeatureLevelRecord):
                features[record.name] = record.feature_level
            else:
                others.append(record)
    return features, others


def controller_config(config: KafkaConfig, cluster_id: str, features: dict[str, int]) -> ControllerConfig:
    """Return the config of the controller; `features` are those of bootstrap.checkpoint, empty for the newest."""
    settings = ControllerConfig(
        node_id=config.node_id,
        cluster_id=cluster_id,
        default_replication_factor=config.default_replication_factor,
        default_num_partitions=config.num_partitions,
        min_insync_replicas=config.min_insync_replicas,
        session_timeout_ms=config.broker_session_timeout_ms,
        heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
        max_idle_interval_ms=config.metadata_max_idle_interval_ms,
        auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_ms=config.leader_imbalance_check_interval_seconds * 1000,
        unclean_leader_election_interval_ms=config.unclean_leader_election_interval_ms,
        delete_topic_enable=config.delete_topic_enable,
        quota_window_num=config.controller_quota_window_num,
        quota_window_size_seconds=config.controller_quota_window_size_seconds,
        delegation_token_secret_key=config.delegation_token_secret_key,
        delegation_token_max_lifetime_ms=config.delegation_token_max_lifetime_ms,
        delegation_token_expiry_time_ms=config.delegation_token_expiry_time_ms,
        delegation_token_expiry_check_interval_ms=config.delegation_token_expiry_check_interval_ms,
        authorizer=config.security.authorizer,
        static_configs={**config.originals, **dict.fromkeys(("broker.id", "node.id"), str(config.node_id))},
    )
    return replace(settings, bootstrap_features=features) if features else settings


def node_config(
    config: KafkaConfig, cluster_id: str, directory_id: UUID, endpoints: tuple[Endpoint, ...]
) -> NodeConfig:
    """Return the config of a node, with the contents of bootstrap.checkpoint."""
    features, records = read_bootstrap(config.metadata_log_dir)
    return NodeConfig(
        raft=raft_config(config, cluster_id, directory_id, endpoints),
        controller=controller_config(config, cluster_id, features),
        bootstrap_records=tuple(records),
        max_bytes_between_snapshots=config.metadata_log_max_record_bytes_between_snapshots,
        max_snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
    )


def socket_limits(config: KafkaConfig) -> SocketServerLimits:
    """Return the limits of a listener. For queued.max.request.bytes=-1, Kafka's default (no limit), ours applies."""
    default, queued_bytes = SocketServerLimits(), config.queued_max_request_bytes
    return SocketServerLimits(
        max_frame_bytes=config.socket_request_max_bytes,
        max_queued_bytes=queued_bytes if queued_bytes > 0 else default.max_queued_bytes,
        connections_max_idle_ms=config.connections_max_idle_ms,
    )


def connection_quotas(config: KafkaConfig) -> ConnectionQuotas:
    """Return the connection quotas that all listeners of the process share.

    Protected are the controller listeners, and the inter-broker listener if clients have another.
    """
    protected = {listener.name for listener in config.controller_listeners}
    if len(config.broker_listeners) > 1:
        protected.add(config.inter_broker_listener_name)
    return ConnectionQuotas(config.connection_limits, protected=frozenset(protected))


def follow_connection_limits(quotas: ConnectionQuotas, config: KafkaConfig, source: MetadataSource) -> None:
    """Apply the dynamic broker configs of connection limits, which override server.properties, to the quotas."""

    def changed(old: MetadataImage, new: MetadataImage, records: Sequence[Message]) -> None:
        if old.configs is new.configs:
            return
        dynamic = {**new.configs.of(BROKER, ""), **new.configs.of(BROKER, str(config.node_id))}
        ours = {key: value for key, value in dynamic.items() if key.endswith(_CONNECTION_KEYS)}
        try:
            quotas.update(KafkaConfig({**config.originals, **ours}).connection_limits)
        except ConfigError as error:
            log.warning("connection_limits_not_changed", extra={"cause": str(error)})

    source.subscribe(changed)
