"""The settings that this program uses, as typed attributes named like their keys, with underscores for dots.

Times are in the unit at the end of the name, sizes in bytes. Source: the `…Configs` classes of Kafka 4.3.1.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar, overload

from kraft_core.configs.config_def import Value

T = TypeVar("T")


class Setting(Generic[T]):
    """Descriptor of a typed attribute: `num_partitions` has the value of the key `num.partitions`."""

    def __init__(self) -> None:
        self.key = ""

    def __set_name__(self, owner: type, name: str) -> None:
        """Derive the key from the attribute's name."""
        self.key = name.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> "Setting[T]": ...

    @overload
    def __get__(self, instance: "Settings", owner: type) -> T: ...

    def __get__(self, instance: "Settings | None", owner: type) -> "Setting[T] | T":
        """Return the value."""
        if instance is None:
            return self
        value: T = instance.values[self.key]  # type: ignore[assignment]  # a test compares T with the table's type
        return value


class Settings:
    """Typed view of the values; `values` has every known key, also those without an attribute."""

    values: Mapping[str, Value]

    # Identity and quorum
    node_id = Setting[int]()
    broker_rack = Setting[str | None]()
    controller_listener_names = Setting[tuple[str, ...]]()
    controller_quorum_auto_join_enable = Setting[bool]()
    controller_quorum_election_backoff_max_ms = Setting[int]()
    controller_quorum_election_timeout_ms = Setting[int]()
    controller_quorum_fetch_max_bytes = Setting[int]()
    controller_quorum_fetch_snapshot_max_bytes = Setting[int]()
    controller_quorum_fetch_timeout_ms = Setting[int]()
    controller_quorum_request_timeout_ms = Setting[int]()
    controller_quorum_retry_backoff_ms = Setting[int]()
    initial_broker_registration_timeout_ms = Setting[int]()

    # Metadata log
    internal_metadata_log_segment_bytes = Setting[int | None]()
    internal_metadata_max_batch_size_in_bytes = Setting[int]()
    metadata_log_max_record_bytes_between_snapshots = Setting[int]()
    metadata_log_max_snapshot_interval_ms = Setting[int]()
    metadata_log_segment_bytes = Setting[int]()
    metadata_log_segment_ms = Setting[int]()
    metadata_max_idle_interval_ms = Setting[int]()
    metadata_max_retention_bytes = Setting[int]()
    metadata_max_retention_ms = Setting[int]()

    # Controller
    auto_create_topics_enable = Setting[bool]()
    auto_leader_rebalance_enable = Setting[bool]()
    broker_heartbeat_interval_ms = Setting[int]()
    broker_session_timeout_ms = Setting[int]()
    controller_quota_window_num = Setting[int]()
    controller_quota_window_size_seconds = Setting[int]()
    controlled_shutdown_enable = Setting[bool]()
    default_replication_factor = Setting[int]()
    delegation_token_expiry_check_interval_ms = Setting[int]()
    delegation_token_expiry_time_ms = Setting[int]()
    delegation_token_max_lifetime_ms = Setting[int]()
    delegation_token_secret_key = Setting[str | None]()
    delete_topic_enable = Setting[bool]()
    leader_imbalance_check_interval_seconds = Setting[int]()
    min_insync_replicas = Setting[int]()
    num_partitions = Setting[int]()
    unclean_leader_election_interval_ms = Setting[int]()

    # Metrics
    conclave_metrics_host = Setting[str]()
    conclave_metrics_port = Setting[int | None]()

    # Sockets and requests
    connections_max_idle_ms = Setting[int]()
    fetch_max_bytes = Setting[int]()
    max_connection_creation_rate = Setting[int]()
    max_connections = Setting[int]()
    max_connections_per_ip = Setting[int]()
    max_connections_per_ip_overrides = Setting[str]()
    max_request_partition_size_limit = Setting[int]()
    queued_max_request_bytes = Setting[int]()
    request_timeout_ms = Setting[int]()
    socket_request_max_bytes = Setting[int]()

    # Replication
    replica_fetch_wait_max_ms = Setting[int]()
    replica_lag_time_max_ms = Setting[int]()
    replica_socket_timeout_ms = Setting[int]()

    # Logs of the broker
    log_cleaner_backoff_ms = Setting[int]()
    log_dir_failure_timeout_ms = Setting[int]()
    log_cleaner_enable = Setting[bool]()
    log_flush_scheduler_interval_ms = Setting[int]()
    log_flush_offset_checkpoint_interval_ms = Setting[int]()
    log_retention_check_interval_ms = Setting[int]()
    producer_id_expiration_ms = Setting[int]()

    # Groups, offsets and transactions
    group_initial_rebalance_delay_ms = Setting[int]()
    group_max_session_timeout_ms = Setting[int]()
    group_max_size = Setting[int]()
    group_min_session_timeout_ms = Setting[int]()
    offset_metadata_max_bytes = Setting[int]()
    offsets_retention_minutes = Setting[int]()
    offsets_topic_num_partitions = Setting[int]()
    offsets_topic_replication_factor = Setting[int]()
    offsets_topic_segment_bytes = Setting[int]()
