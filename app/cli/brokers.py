"""`conclave brokers`: the brokers of a cluster with their partitions, log directories and configs."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Final

from app.cli.client_options import (
    AnyAdmin,
    ClientOptions,
    error_json,
    error_text,
    print_json,
    print_table,
    report_failures,
    with_admin,
)
from kraft_core.clients.admin.cluster import ClusterDescription
from kraft_core.clients.admin.configs import ConfigEntry, ConfigResource, ConfigResourceType
from kraft_core.clients.admin.log_dirs import LogDirDescription
from kraft_core.configs.effective_config import ConfigSource
from kraft_core.protocol.errors import KafkaError, UnsupportedVersion

_DYNAMIC: Final = (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)


def list_brokers(options: ClientOptions) -> int:
    """Print the brokers, fenced ones too where the cluster says so, and return the exit code. Raises KafkaError."""

    async def work(admin: AnyAdmin) -> int:
        cluster = await _describe(admin)
        described = await admin.describe_topics(await admin.list_topics(list_internal=True))
        leaders: Counter[int] = Counter()
        replicas: Counter[int] = Counter()
        for topic in described.succeeded.values():
            leaders.update(each.leader for each in topic.partitions)
            replicas.update(replica for each in topic.partitions for replica in each.replicas)
        states = [
            {
                "id": node.id,
                "host": node.host,
                "port": node.port,
                "rack": node.rack,
                "isFenced": node.id in cluster.fenced,
                "leaders": leaders[node.id],
                "replicas": replicas[node.id],
            }
            for node in cluster.nodes
        ]
        if options.as_json:
            print_json({"clusterId": cluster.cluster_id, "brokers": states})
            return 1 if described.failed else 0
        print(f"Cluster {cluster.cluster_id}")
        print_table(
            ("ID", "ADDRESS", "RACK", "STATE", "LEADERS", "REPLICAS"),
            [
                (
                    each["id"],
                    f"{each['host']}:{each['port']}",
                    each["rack"],
                    "fenced" if each["isFenced"] else "active",
                    each["leaders"],
                    each["replicas"],
                )
                for each in states
            ],
        )
        return report_failures("topic", described.failed)

    return with_admin(options, work)


async def _describe(admin: AnyAdmin) -> ClusterDescription:
    try:
        return await admin.describe_cluster(include_fenced_brokers=True)
    except UnsupportedVersion:
        return await admin.describe_cluster()


def describe_brokers(options: ClientOptions, ids: Collection[int]) -> int:
    """Print the log directories and dynamic configs of brokers, and return the exit code."""

    async def work(admin: AnyAdmin) -> int:
        log_dirs = await admin.describe_log_dirs(ids)
        resources = {each: ConfigResource(ConfigResourceType.BROKER, str(each)) for each in ids}
        configs = await admin.describe_configs(resources.values())
        if options.as_json:
            print_json([_state(each, log_dirs[each], configs[resources[each]]) for each in ids])
        else:
            for each in ids:
                _print_broker(each, log_dirs[each], configs[resources[each]])
        refused = {resource.name: error for resource, error in configs.failed.items()}
        return report_failures("broker", log_dirs.failed) | report_failures("configs of broker", refused)

    return with_admin(options, work)


def _dynamic(configs: Mapping[str, ConfigEntry] | KafkaError) -> dict[str, str | None]:
    if isinstance(configs, KafkaError):
        return {}
    return {name: entry.value for name, entry in configs.items() if entry.source in _DYNAMIC}


def _state(
    broker_id: int,
    log_dirs: Mapping[str, LogDirDescription] | KafkaError,
    configs: Mapping[str, ConfigEntry] | KafkaError,
) -> dict[str, Any]:
    if isinstance(log_dirs, KafkaError):
        return {"id": broker_id, **error_json(log_dirs)}
    return {
        "id": broker_id,
        "configs": _dynamic(configs),
        "logDirs": [
            {
                "path": path,
                "replicas": len(each.replicas),
                "bytes": sum(replica.size for replica in each.replicas.values()),
                "totalBytes": each.total_bytes,
                "usableBytes": each.usable_bytes,
                "isCordoned": each.is_cordoned,
                "error": None if each.error is None else each.error.code.name,
            }
            for path, each in sorted(log_dirs.items())
        ],
    }


def _print_broker(
    broker_id: int,
    log_dirs: Mapping[str, LogDirDescription] | KafkaError,
    configs: Mapping[str, ConfigEntry] | KafkaError,
) -> None:
    if isinstance(log_dirs, KafkaError):
        return
    shown = ", ".join(f"{name}={value}" for name, value in _dynamic(configs).items()) or "none set"
    print(f"Broker {broker_id}, dynamic configs: {shown}")
    print_table(
        ("LOG DIRECTORY", "REPLICAS", "BYTES", "USABLE BYTES", "TOTAL BYTES", "STATE"),
        [
            (
                path,
                len(each.replicas),
                sum(replica.size for replica in each.replicas.values()),
                each.usable_bytes,
                each.total_bytes,
                error_text(each.error) if each.error else "cordoned" if each.is_cordoned else "online",
            )
            for path, each in sorted(log_dirs.items())
        ],
    )
