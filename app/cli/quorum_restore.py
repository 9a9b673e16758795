"""`conclave quorum restore`: restores the first controller of a quorum without controllers, from copies."""

import json
from pathlib import Path
from typing import Any

from app.cluster.quorum_text import endpoint_texts
from kraft_core.image.trie_items import items_of
from kraft_core.protocol.uuids import uuid_to_text
from kraft_core.server.config.kafka_config import KafkaConfig
from kraft_core.server.quorum_restore import LEADER_EPOCH_JUMP, MetadataCopy, RestorePlan, plan_restore, restore
from kraft_core.storage.recovery import PARTITION_DIRECTORY

BROKER_STEPS = (
    (
        "Stop every broker before this controller starts: a running one deletes the logs of partitions that the "
        "restored metadata does not have."
    ),
    f"A broker keeps its disks as they are, {PARTITION_DIRECTORY} included: nothing is deleted or copied.",
    (
        "When the controller leads, start every broker. It replaces its metadata with the restored metadata, registers "
        "and sets logs of topics that were not restored aside (-stray)."
    ),
)
CONTROLLER_STEPS = (
    "Never start a controller with its old disk: the old voters would elect a leader of the same cluster.",
    "Start this controller. It is the only voter.",
    (
        "Every other controller: empty its metadata directory, `conclave format --no-initial-controllers`, start it, "
        "then `conclave quorum add`."
    ),
)


def restore_quorum(config_path: Path, folders: list[Path], *, dry_run: bool, as_json: bool) -> None:
    """Print the plan and the next steps, and write it unless it is a dry run. Raises ConfigError, StorageError."""
    plan = plan_restore(KafkaConfig.load(config_path), folders)
    if not as_json:
        print("\n".join(plan_lines(plan)), flush=True)
    if not dry_run:
        restore(plan)
    if as_json:
        print(json.dumps({**plan_state(plan), "done": not dry_run}))
    else:
        print("Dry run: nothing was written." if dry_run else f"Restored into {plan.target}")


def plan_lines(plan: RestorePlan) -> list[str]:
    """Return the copies, the restored state, and the steps that follow."""
    newest = plan.copies[0]
    listeners = plan.voters.by_id[plan.node_id].endpoints
    endpoints = ", ".join(endpoint_texts((each.name, each.host, each.port) for each in listeners))
    lost = [f"Not restored, topics of older copies: {', '.join(plan.lost_topics)}"] if plan.lost_topics else []
    return [
        *(_copy_line(copy, is_used=copy is newest) for copy in plan.copies),
        f"Cluster {plan.cluster_id}: {_counts(newest)}",
        (
            f"Restarts at offset {plan.snapshot_id.offset}, epoch {plan.snapshot_id.epoch}; "
            f"leader epochs of partitions rise by {LEADER_EPOCH_JUMP}"
        ),
        f"Voter: {plan.node_id} with directory id {uuid_to_text(plan.directory_id)} ({endpoints})",
        *lost,
        "What every broker must do:",
        *(f"  {step}" for step in BROKER_STEPS),
        "What every controller must do:",
        *(f"  {step}" for step in CONTROLLER_STEPS),
    ]


def _copy_line(copy: MetadataCopy, *, is_used: bool) -> str:
    used = ", the newest: restored" if is_used else ""
    return (
        f"{copy.folder}: node {copy.properties.node_id}, up to offset {copy.end.offset}, epoch {copy.end.epoch}{used}"
    )


def _counts(copy: MetadataCopy) -> str:
    topics = copy.image.topics
    brokers = ", ".join(str(broker_id) for broker_id in _brokers(copy)) or "none"
    return f"{len(topics.by_id)} topics, {topics.partition_count()} partitions, brokers {brokers}"


def _brokers(copy: MetadataCopy) -> list[int]:
    return sorted(broker_id for broker_id, _ in items_of(copy.image.cluster.brokers))


def plan_state(plan: RestorePlan) -> dict[str, Any]:
    """Return the plan as a JSON-ready object."""
    newest = plan.copies[0]
    return {
        "clusterId": plan.cluster_id,
        "copies": [
            {
                "folder": str(copy.folder),
                "nodeId": copy.properties.node_id,
                "endOffset": copy.end.offset,
                "epoch": copy.end.epoch,
                "isRestored": copy is newest,
            }
            for copy in plan.copies
        ],
        "offset": plan.snapshot_id.offset,
        "epoch": plan.snapshot_id.epoch,
        "nodeId": plan.node_id,
        "directoryId": uuid_to_text(plan.directory_id),
        "topics": len(newest.image.topics.by_id),
        "partitions": newest.image.topics.partition_count(),
        "brokers": _brokers(newest),
        "lostTopics": list(plan.lost_topics),
        "brokerSteps": list(BROKER_STEPS),
        "controllerSteps": list(CONTROLLER_STEPS),
    }
