"""`conclave topics`: the topics of a cluster, through any of its brokers. Source: TopicCommand, Kafka 4.3.1."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from app.cli.client_options import (
    AnyAdmin,
    ClientOptions,
    confirm,
    error_json,
    pairs,
    print_json,
    print_table,
    report_failures,
    with_admin,
)
from kraft_core.clients.admin.configs import ConfigEntry, ConfigResource, ConfigResourceType
from kraft_core.clients.admin.topics import CreatedTopic, NewPartitions, NewTopic, TopicDescription
from kraft_core.configs.effective_config import ConfigSource
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.uuids import uuid_to_text


@dataclass(frozen=True, slots=True)
class NewTopics:
    """The topics to create; -1 leaves a number to the brokers, `configs` are NAME=VALUE."""

    names: Collection[str]
    partitions: int
    replication_factor: int
    configs: Collection[str]
    if_not_exists: bool


def list_topics(options: ClientOptions, *, internal: bool) -> int:
    """Print all topics, and return the exit code. Raises KafkaError."""

    async def work(admin: AnyAdmin) -> int:
        names = await admin.list_topics(list_internal=internal)
        described = await admin.describe_topics(names)
        topics = [_summary(topic) for topic in described.succeeded.values()]
        if options.as_json:
            print_json(topics)
        else:
            print_table(
                ("TOPIC", "PARTITIONS", "REPLICAS", "UNDER-REPLICATED", "LEADERLESS", "ID"),
                [[topic[key] for key in _COLUMNS] for topic in topics],
            )
        return report_failures("topic", described.failed)

    return with_admin(options, work)


_COLUMNS = ("name", "partitions", "replicationFactor", "underReplicated", "leaderless", "id")


def _summary(topic: TopicDescription) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": uuid_to_text(topic.topic_id),
        "isInternal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replicationFactor": max((len(each.replicas) for each in topic.partitions), default=0),
        "underReplicated": sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
        "leaderless": sum(each.leader < 0 for each in topic.partitions),
    }


def describe_topics(options: ClientOptions, names: Collection[str]) -> int:
    """Print topics, all if none is named, with partitions and the configs that are set, and return the exit code."""

    async def work(admin: AnyAdmin) -> int:
        described = await admin.describe_topics(names or await admin.list_topics())
        resources = {name: ConfigResource(ConfigResourceType.TOPIC, name) for name in described.succeeded}
        configs = await admin.describe_configs(resources.values())
        topics = [(topic, _set_configs(configs[resources[name]])) for name, topic in described.succeeded.items()]
        if options.as_json:
            print_json([_state(topic, set_configs) for topic, set_configs in topics])
        else:
            for topic, set_configs in topics:
                _print_topic(topic, set_configs)
        refused = {resource.name: error for resource, error in configs.failed.items()}
        return report_failures("topic", described.failed) | report_failures("configs of topic", refused)

    return with_admin(options, work)


def _set_configs(found: Mapping[str, ConfigEntry] | KafkaError) -> dict[str, str | None]:
    """Return the configs that the topic itself has."""
    if isinstance(found, KafkaError):
        return {}
    return {name: entry.value for name, entry in found.items() if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}


def _state(topic: TopicDescription, configs: Mapping[str, str | None]) -> dict[str, Any]:
    return {
        **_summary(topic),
        "configs": configs,
        "partitions": [
            {
                "partition": each.partition,
                "leader": each.leader,
                "leaderEpoch": each.leader_epoch,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "offlineReplicas": list(each.offline_replicas),
                "elr": None if each.elr is None else list(each.elr),
            }
            for each in topic.partitions
        ],
    }


def _print_topic(topic: TopicDescription, configs: Mapping[str, str | None]) -> None:
    summary = _summary(topic)
    shown = ", ".join(f"{name}={value}" for name, value in configs.items()) or "none set"
    print(
        f"Topic {topic.name}, id {summary['id']}, partitions {summary['partitions']}, "
        f"replication factor {summary['replicationFactor']}, configs: {shown}"
    )
    print_table(
        ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "OFFLINE", "ELR"),
        [
            (
                each.partition,
                each.leader if each.leader >= 0 else None,
                each.leader_epoch,
                *(",".join(map(str, ids)) or None for ids in (each.replicas, each.isr, each.offline_replicas)),
                ",".join(map(str, each.elr)) if each.elr else None,
            )
            for each in topic.partitions
        ],
    )


def create_topics(options: ClientOptions, new: NewTopics) -> int:
    """Create topics, or check whether they could be created, and return the exit code."""
    configs = pairs("--config", new.configs)

    async def work(admin: AnyAdmin) -> int:
        wanted = [
            NewTopic(
                name=name, num_partitions=new.partitions, replication_factor=new.replication_factor, configs=configs
            )
            for name in new.names
        ]
        results = await admin.create_topics(wanted, validate_only=options.dry_run)
        failed = {
            name: error
            for name, error in results.failed.items()
            if not (new.if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS)
        }
        if options.as_json:
            print_json({name: _created(result) for name, result in results.items()})
            return 1 if failed else 0
        verb = "Would create" if options.dry_run else "Created"
        for name, result in results.items():
            if isinstance(result, KafkaError):
                if name not in failed:
                    print(f"Topic {name} exists already.")
            else:
                print(f"{verb} topic {name}: {_sizes(result)}")
        return report_failures("topic", failed)

    return with_admin(options, work)


def _sizes(topic: CreatedTopic) -> str:
    if topic.num_partitions < 0:
        return "the broker does not say with how many partitions"
    return f"{topic.num_partitions} partitions, replication factor {topic.replication_factor}"


def _created(result: CreatedTopic | KafkaError) -> dict[str, Any]:
    if isinstance(result, KafkaError):
        return error_json(result)
    return {
        "id": uuid_to_text(result.topic_id),
        "partitions": result.num_partitions,
        "replicationFactor": result.replication_factor,
    }


def add_partitions(options: ClientOptions, names: Collection[str], count: int) -> int:
    """Raise the partition count of topics, or check whether that can be done, and return the exit code."""

    async def work(admin: AnyAdmin) -> int:
        described = await admin.describe_topics(names)
        before = {name: len(topic.partitions) for name, topic in described.succeeded.items()}
        results = await admin.create_partitions(
            {name: NewPartitions(total_count=count) for name in before}, validate_only=options.dry_run
        )
        failed = {**described.failed, **results.failed}
        if options.as_json:
            changed = {name: {"partitionsBefore": before[name], "partitions": count} for name in results.succeeded}
            print_json({**changed, **{name: error_json(error) for name, error in failed.items()}})
            return 1 if failed else 0
        verb = "Would change" if options.dry_run else "Changed"
        for name in results.succeeded:
            print(f"{verb} topic {name}: {before[name]} -> {count} partitions")
        return report_failures("topic", failed)

    return with_admin(options, work)


def delete_topics(options: ClientOptions, names: Collection[str], *, yes: bool) -> int:
    """Delete topics after a confirmation, or show what would be deleted, and return the exit code."""

    async def work(admin: AnyAdmin) -> int:
        described = await admin.describe_topics(names)
        topics = described.succeeded
        if not options.as_json:
            verb = "Would delete" if options.dry_run else "To be deleted:"
            for name, topic in topics.items():
                print(f"{verb} topic {name}, {len(topic.partitions)} partitions")
        failed = dict(described.failed)
        deleted: list[str] = []
        if topics and not options.dry_run:
            confirm(f"Delete {len(topics)} topic(s) and all their records?", yes=yes)
            results = await admin.delete_topics(tuple(topics))
            deleted = [str(name) for name in results.succeeded]
            failed |= {str(name): error for name, error in results.failed.items()}
        if options.as_json:
            done = {name: {"deleted": name in deleted} for name in topics}
            print_json({**done, **{name: error_json(error) for name, error in failed.items()}})
            return 1 if failed else 0
        for name in deleted:
            print(f"Deleted topic {name}")
        return report_failures("topic", failed)

    return with_admin(options, work)
