"""`conclave quorum …`: what kafka-metadata-quorum does, against any controllers, ours or Apache's."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, TypeVar

from app.config import parse_host_port
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import METADATA_PARTITION, METADATA_TOPIC
from kraft_core.protocol.messages import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    AddRaftVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponseReplicaState,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from kraft_core.protocol.uuids import uuid_from_text, uuid_to_text
from kraft_core.protocol.wire import Message
from kraft_core.server.config import ConfigError, KafkaConfig
from kraft_core.server.kafka_client import ControllerClient
from kraft_core.storage.files import StorageError
from kraft_core.storage.meta_properties import read_meta_properties

TIMEOUT_MS = 5_000
WATCH_SECONDS = 1.0

Response = TypeVar("Response", bound=Message)


def _ask(bootstrap: str, message: Message, answer_type: type[Response], *, idempotent: bool = False) -> Response:
    """Send one request to the active controller. Raises ConfigError, ConnectionError, KafkaError."""
    try:
        servers = [parse_host_port(part.strip()) for part in bootstrap.split(",") if part.strip()]
    except ValueError as error:
        raise ConfigError(f"--bootstrap-controller: {error}") from error

    async def ask() -> Message:
        client = ControllerClient(servers)
        try:
            return await client.request(message, TIMEOUT_MS, idempotent=idempotent)
        finally:
            client.close()

    answer = asyncio.run(ask())
    assert isinstance(answer, answer_type), type(answer)
    return answer


def _raise_for(error_code: int, message: str | None) -> None:
    if error_code:
        code = ErrorCode(error_code)
        raise KafkaError(code, f"{code.name}: {message or code.default_message}")


def describe(bootstrap: str, *, watch: bool, as_json: bool) -> None:
    """Print the state of the quorum, again and again with `watch`."""
    is_screen = sys.stdout.isatty()
    while True:
        state = quorum_state(bootstrap)
        if as_json:
            print(json.dumps(state), flush=True)
        else:
            if watch and is_screen:
                print("\x1b[2J\x1b[H", end="")  # clear the screen, go to its top
            _print_state(state)
        if not watch:
            return
        time.sleep(WATCH_SECONDS)


def quorum_state(bootstrap: str) -> dict[str, Any]:
    """Ask for the quorum as one JSON-ready object; offsets and lags in records, times in ms."""
    topic = DescribeQuorumRequestTopicData(
        topic_name=METADATA_TOPIC, partitions=(DescribeQuorumRequestPartitionData(partition_index=METADATA_PARTITION),)
    )
    answer = _ask(bootstrap, DescribeQuorumRequest(topics=(topic,)), DescribeQuorumResponse, idempotent=True)
    _raise_for(answer.error_code, answer.error_message)
    partition = answer.topics[0].partitions[0]
    _raise_for(partition.error_code, partition.error_message)
    leader_end = max((each.log_end_offset for each in partition.current_voters), default=-1)
    for voter in partition.current_voters:
        if voter.replica_id == partition.leader_id:
            leader_end = voter.log_end_offset
    endpoints = {
        each.node_id: [f"{listener.name}://{listener.host}:{listener.port}" for listener in each.listeners]
        for each in answer.nodes
    }

    def replica(each: DescribeQuorumResponseReplicaState, status: str) -> dict[str, Any]:
        return {
            "nodeId": each.replica_id,
            "directoryId": uuid_to_text(each.replica_directory_id),
            "status": "Leader" if each.replica_id == partition.leader_id else status,
            "logEndOffset": each.log_end_offset,
            "lag": max(0, leader_end - each.log_end_offset) if each.log_end_offset >= 0 else None,
            "lastFetchTimestamp": each.last_fetch_timestamp,
            "lastCaughtUpTimestamp": each.last_caught_up_timestamp,
            "endpoints": endpoints.get(each.replica_id, []),
        }

    return {
        "leaderId": partition.leader_id,
        "leaderEpoch": partition.leader_epoch,
        "highWatermark": partition.high_watermark,
        "voters": [replica(each, "Follower") for each in partition.current_voters],
        "observers": [replica(each, "Observer") for each in partition.observers],
    }


def _print_state(state: dict[str, Any]) -> None:
    """Print the state in columns; nothing is ever shortened, so that ids can be copied."""
    print(f"Leader {state['leaderId']}, epoch {state['leaderEpoch']}, high watermark {state['highWatermark']}")
    rows: list[tuple[str, ...]] = [("NODE", "DIRECTORY", "STATUS", "LOG END OFFSET", "LAG", "ENDPOINTS")]
    for each in [*state["voters"], *state["observers"]]:
        lag = "unknown" if each["lag"] is None else each["lag"]
        cells = (each["nodeId"], each["directoryId"], each["status"], each["logEndOffset"], lag)
        rows.append((*map(str, cells), ",".join(each["endpoints"])))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def add_voter(bootstrap: str, config_path: Path) -> None:
    """Add the controller that a server.properties describes. Source: MetadataQuorumCommand.handleAddController."""
    config = KafkaConfig.load(config_path)
    if not config.is_controller:
        raise ConfigError(f"process.roles in {config_path} does not contain controller.")
    properties = read_meta_properties(config.metadata_log_dir)
    if properties is None or properties.directory_id is None:
        raise StorageError(f"No readable meta.properties with a directory.id in {config.metadata_log_dir}.")
    listeners = tuple(
        AddRaftVoterRequestListener(name=each.name, host=each.host or "localhost", port=each.port)
        for each in config.advertised_controller_listeners
    )
    request = AddRaftVoterRequest(
        cluster_id=properties.cluster_id,
        timeout_ms=TIMEOUT_MS,
        voter_id=config.node_id,
        voter_directory_id=properties.directory_id,
        listeners=listeners,
    )
    answer = _ask(bootstrap, request, AddRaftVoterResponse)
    _raise_for(answer.error_code, answer.error_message)
    shown = ", ".join(f"{each.name}://{each.host}:{each.port}" for each in listeners)
    print(f"Added controller {config.node_id} with directory id {uuid_to_text(properties.directory_id)} ({shown})")


def remove_voter(bootstrap: str, node_id: int, directory_id: str) -> None:
    """Remove a voter by its key."""
    try:
        voter_directory_id = uuid_from_text(directory_id)
    except ValueError as error:
        raise ConfigError(f"--controller-directory-id: {error}") from error
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=voter_directory_id)
    answer = _ask(bootstrap, request, RemoveRaftVoterResponse)
    _raise_for(answer.error_code, answer.error_message)
    print(f"Removed controller {node_id} with directory id {directory_id}")
