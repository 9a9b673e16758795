"""`conclave groups`: consumer groups with their lag. Source: ConsumerGroupCommand, Kafka 4.3.1."""

from collections.abc import Collection
from typing import Any

import typer

from app.cli.client_options import (
    AnyAdmin,
    ClientOptions,
    confirm,
    error_json,
    print_json,
    print_table,
    report_failures,
    with_admin,
)
from kraft_core.clients.admin.group_lag import PartitionLag, group_lags
from kraft_core.clients.admin.groups import GroupDescription, MemberDescription
from kraft_core.clients.admin.kafka_admin_client import Admin
from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.protocol.errors import KafkaError


def list_groups(options: ClientOptions, states: Collection[str], types: Collection[str]) -> int:
    """Print the groups of all brokers, and return the exit code. Raises typer.BadParameter, KafkaError."""

    async def work(admin: AnyAdmin) -> int:
        try:
            found = await admin.list_groups(states=states, types=types)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--state, --type") from None
        groups = sorted(
            ((group, broker) for broker, groups in found.succeeded.items() for group in groups),
            key=lambda each: each[0].group_id,
        )
        if options.as_json:
            print_json(
                [
                    {
                        "groupId": group.group_id,
                        "type": group.type,
                        "protocol": group.protocol,
                        "state": group.state,
                        "coordinator": broker,
                    }
                    for group, broker in groups
                ]
            )
        else:
            print_table(
                ("GROUP", "TYPE", "PROTOCOL", "STATE", "COORDINATOR"),
                [
                    (group.group_id, group.type or None, group.protocol or None, group.state or None, broker)
                    for group, broker in groups
                ],
            )
        return report_failures("groups of broker", found.failed)

    return with_admin(options, work)


def describe_groups(options: ClientOptions, ids: Collection[str], *, members: bool) -> int:
    """Print groups, all if none is named, with offsets and lags, or with members, and return the exit code."""

    async def work(admin: AnyAdmin) -> int:
        listed = await admin.list_groups() if not ids else {}
        all_ids = [group.group_id for groups in listed.values() if isinstance(groups, tuple) for group in groups]
        described = await admin.describe_consumer_groups(ids or sorted(all_ids))
        groups = list(described.succeeded.values())
        lags = await (group_lags(admin, groups) if isinstance(admin, Admin) else admin.group_lags(groups))
        failed = {
            **described.failed,
            **{group_id: lag for group_id, lag in lags.items() if isinstance(lag, KafkaError)},
        }
        partitions = {group_id: () if isinstance(lag, KafkaError) else lag for group_id, lag in lags.items()}
        if options.as_json:
            print_json([_state(group, partitions[group.group_id]) for group in groups])
            return report_failures("group", failed)
        for group in groups:
            _print_group(group)
            if members:
                _print_members(group)
            else:
                _print_lags(partitions[group.group_id])
        unread = {
            _text(each.partition): each.error for lag in partitions.values() for each in lag if each.error is not None
        }
        unlisted = {broker: error for broker, error in listed.items() if isinstance(error, KafkaError)}
        return (
            report_failures("group", failed)
            | report_failures("partition", unread)
            | report_failures("groups of broker", unlisted)
        )

    return with_admin(options, work)


def _text(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _print_group(group: GroupDescription) -> None:
    epochs = "" if group.epoch is None else f", epoch {group.epoch}, assignment epoch {group.assignment_epoch}"
    where = f"{group.coordinator.host}:{group.coordinator.port} (id {group.coordinator.id})"
    assignor = f", assignor {group.partition_assignor}" if group.partition_assignor else ""
    print(
        f"Group {group.group_id}, {group.type.lower()}, {group.state}{assignor}{epochs}, "
        f"{len(group.members)} members, coordinator {where}"
    )


def _print_lags(lags: Collection[PartitionLag]) -> None:
    print_table(
        ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"),
        [
            (
                each.partition.topic,
                each.partition.partition,
                None if each.committed is None else each.committed.offset,
                each.log_end_offset,
                each.lag,
                *((each.member.member_id, each.member.host, each.member.client_id) if each.member else (None,) * 3),
            )
            for each in lags
        ],
    )


def _assigned(partitions: Collection[TopicPartition] | None) -> str | None:
    return ", ".join(map(_text, sorted(partitions))) if partitions else None


def _print_members(group: GroupDescription) -> None:
    print_table(
        ("CONSUMER-ID", "INSTANCE-ID", "HOST", "CLIENT-ID", "PARTITIONS", "ASSIGNMENT", "TARGET"),
        [
            (
                each.member_id,
                each.group_instance_id,
                each.host,
                each.client_id,
                len(each.assignment),
                _assigned(each.assignment),
                _assigned(each.target_assignment),
            )
            for each in group.members
        ],
    )


def _state(group: GroupDescription, lags: Collection[PartitionLag]) -> dict[str, Any]:
    return {
        "groupId": group.group_id,
        "type": group.type,
        "protocol": group.protocol,
        "state": group.state,
        "assignor": group.partition_assignor,
        "coordinator": group.coordinator.id,
        "epoch": group.epoch,
        "members": [_member(each) for each in group.members],
        "partitions": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "currentOffset": None if each.committed is None else each.committed.offset,
                "logEndOffset": each.log_end_offset,
                "lag": each.lag,
                "memberId": None if each.member is None else each.member.member_id,
                "error": None if each.error is None else error_json(each.error),
            }
            for each in lags
        ],
    }


def _member(member: MemberDescription) -> dict[str, Any]:
    return {
        "memberId": member.member_id,
        "instanceId": member.group_instance_id,
        "clientId": member.client_id,
        "host": member.host,
        "assignment": [{"topic": topic, "partition": index} for topic, index in sorted(member.assignment)],
    }


def delete_groups(options: ClientOptions, ids: Collection[str], *, yes: bool) -> int:
    """Delete groups after a confirmation, or show what would be deleted, and return the exit code."""

    async def work(admin: AnyAdmin) -> int:
        described = await admin.describe_consumer_groups(ids)
        groups = described.succeeded
        if not options.as_json:
            verb = "Would delete" if options.dry_run else "To be deleted:"
            for group in groups.values():
                print(f"{verb} group {group.group_id}, {group.state}, {len(group.members)} members")
        failed = dict(described.failed)
        deleted: list[str] = []
        if groups and not options.dry_run:
            confirm(f"Delete {len(groups)} group(s) and all their committed offsets?", yes=yes)
            results = await admin.delete_consumer_groups(tuple(groups))
            deleted = list(results.succeeded)
            failed |= results.failed
        if options.as_json:
            done = {group_id: {"deleted": group_id in deleted} for group_id in groups}
            print_json({**done, **{group_id: error_json(error) for group_id, error in failed.items()}})
            return 1 if failed else 0
        for group_id in deleted:
            print(f"Deleted group {group_id}")
        return report_failures("group", failed)

    return with_admin(options, work)
