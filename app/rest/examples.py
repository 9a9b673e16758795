"""An example of the body of every operation that takes one, by operation id. The tests send each of them."""

from typing import Any, Final

_ACL: Final = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:alice",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
_ORDERS_0: Final = {"topic_name": "orders", "partition_id": 0}


def _altered(name: str, value: str) -> dict[str, Any]:
    return {"data": [{"name": name, "value": value}]}


EXAMPLES: Final[dict[str, Any]] = {
    "create_user": {"name": "ann", "role": "editor", "password": "correct horse battery"},
    "update_user": {"role": "viewer"},
    "create_token": {"name": "ci", "role": "editor", "scopes": ["read", "topics"], "expires_in_days": 90},
    "put_grant": {"cluster": "", "topic_prefix": "pay.", "role": "editor"},
    "put_cluster_connection": {
        "name": "Staging",
        "bootstrap_controllers": ["localhost:19093", "localhost:19094"],
        "color": "green",
    },
    "create_topic": {
        "topic_name": "orders",
        "partitions_count": 3,
        "replication_factor": 1,
        "configs": [{"name": "cleanup.policy", "value": "compact"}],
    },
    "grow_topic": {"partitions_count": 6},
    "delete_topics": {"data": [{"topic_name": "orders"}, {"topic_name": "payments"}]},
    "alter_all_topic_configs": {
        "data": [{"topic_name": "orders", "configs": [{"name": "retention.ms", "value": "86400000"}]}]
    },
    "set_topic_config": {"value": "86400000"},
    "alter_topic_configs": {
        "data": [{"name": "retention.ms", "value": "86400000"}, {"name": "cleanup.policy", "operation": "DELETE"}]
    },
    "set_broker_config": {"value": "2"},
    "alter_broker_configs": _altered("log.cleaner.threads", "2"),
    "set_cluster_config": {"value": "2"},
    "alter_cluster_configs": _altered("log.cleaner.threads", "2"),
    "set_group_config": {"value": "50000"},
    "alter_group_configs": _altered("consumer.session.timeout.ms", "50000"),
    "set_client_metrics_config": {"value": "60000"},
    "alter_client_metrics_configs": _altered("interval.ms", "60000"),
    "unregister_broker": {"force": False},
    "reassign": {"data": [{**_ORDERS_0, "replica_ids": [1]}], "allow_replication_factor_change": False},
    "cancel_reassignments": {"data": [_ORDERS_0]},
    "elect_leader": {"election_type": "PREFERRED"},
    "elect_leaders": {"election_type": "PREFERRED", "topic_names": ["orders"]},
    "reset_offsets": {"to": "EARLIEST", "topics": [{"topic_name": "orders", "partition_ids": [0]}]},
    "delete_groups": {"data": [{"consumer_group_id": "billing"}]},
    "abort_transaction": {"start_offset": 42},
    "produce": {
        "key": {"type": "STRING", "data": "order-7"},
        "value": {"type": "JSON", "data": {"total": 12.5}},
        "headers": [{"name": "source", "value": "c2hlbGw="}],
    },
    "produce_batch": {
        "entries": [
            {"id": "1", "value": {"type": "JSON", "data": {"total": 12.5}}},
            {"id": "2", "partition_id": 0, "value": {"type": "STRING", "data": "paid"}},
        ]
    },
    "create_plan": {
        "reassignment": {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]},
        "throttle_bytes_per_second": 50_000_000,
        "moves_per_broker": 5,
    },
    "change_plan": {"throttle_bytes_per_second": None, "moves_per_broker": 10},
    "cancel_plan": {"begun": "undo"},
    "update_features": {"data": [{"feature_name": "metadata.version", "level": 30, "upgrade_type": "UPGRADE"}]},
    "add_voter": {
        "voter_id": 4,
        "directory_id": "nBQDfFT6Q2WVyEPPkqGzPg",
        "endpoints": [{"name": "CONTROLLER", "host": "controller-4", "port": 9093}],
    },
    "create_acl": _ACL,
    "create_acls": {"data": [_ACL]},
    "create_application_acls": {
        "preset": "consumer",
        "principal": "User:billing",
        "read_topics": ["orders", "payments"],
        "group": "billing",
    },
    "import_acls": {"data": [_ACL], "remove_others": True},
    "delete_exact_acls": {"data": [_ACL]},
    "put_scram_user": {"password": "correct horse battery", "iterations": 8192},
    "alter_client_quota": {
        "entity": [{"entity_type": "user", "entity_name": "alice"}],
        "data": [{"key": "producer_byte_rate", "value": 1_048_576}],
    },
    "create_delegation_token": {"renewers": ["User:alice"], "max_lifetime_ms": 86_400_000},
    "renew_delegation_token": {"hmac": "AAAA", "renew_period_ms": 3_600_000},
    "expire_delegation_token": {"hmac": "AAAA", "expiry_period_ms": 0},
    "put_report_schedule": {
        "cron": "0 6 * * mon",
        "time_zone": "Europe/Berlin",
        "topic_prefix": "pay.",
        "on_change": True,
    },
    "run_report": {"topic_prefix": "pay."},
}
