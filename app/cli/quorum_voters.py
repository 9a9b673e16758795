"""`conclave quorum add` and `remove`: kafka-metadata-quorum's add-controller and remove-controller, with preconditions.

The preconditions are printed first. If one does not hold, nothing is sent without `--force`. The leader may still
refuse. Source: MetadataQuorumCommand.handleAddController and handleRemoveController.
"""

import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import typer

from app.cli.quorum_describe import TIMEOUT_MS, ask_quorum, with_client
from app.cluster.quorum_text import endpoint_texts
from app.cluster.voter_changes import FaultTolerance, VoterChange, VoterChangeRefused, plan_add, plan_remove
from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from kraft_core.protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text
from kraft_core.server.config.kafka_config import ConfigError, KafkaConfig
from kraft_core.storage.files import StorageError
from kraft_core.storage.meta_properties import read_meta_properties


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """The options of a change: dry run, force, JSON output, and the client properties."""

    dry_run: bool = False
    force: bool = False
    as_json: bool = False
    command_config: Path | None = None


def add_voter(bootstrap: str, config_path: Path, options: ChangeOptions) -> int:
    """Add the controller of a server.properties file, and return the exit code.

    Raises ConfigError, StorageError, KafkaError.
    """
    config = KafkaConfig.load(config_path)
    if not config.is_controller:
        raise ConfigError(f"process.roles in {config_path} does not contain controller.")
    properties = read_meta_properties(config.metadata_log_dir)
    if properties is None or properties.directory_id is None:
        raise StorageError(f"No readable meta.properties with a directory.id in {config.metadata_log_dir}.")
    node_id, directory_id, cluster_id = config.node_id, properties.directory_id, properties.cluster_id
    endpoints = tuple(
        (each.name, each.host or "localhost", each.port) for each in config.advertised_controller_listeners
    )

    async def work(client: ControllerClient) -> int:
        plan = plan_add(await ask_quorum(client), None, node_id, directory_id, endpoints)
        request = AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=TIMEOUT_MS,
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=tuple(
                AddRaftVoterRequestListener(name=name, host=host, port=port) for name, host, port in endpoints
            ),
        )

        async def send() -> None:
            answer = cast("AddRaftVoterResponse", await client.request(request, TIMEOUT_MS))
            _raise_for(answer.error_code, answer.error_message)

        return await _apply(plan, send, options)

    return with_client(bootstrap, work, options.command_config)


def remove_voter(bootstrap: str, node_id: int, directory_id: str, options: ChangeOptions) -> int:
    """Remove a voter by its key, and return the exit code. Raises typer.BadParameter, KafkaError."""
    key = _directory_id(directory_id)

    async def work(client: ControllerClient) -> int:
        plan = plan_remove(await ask_quorum(client), node_id, key)
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=key)

        async def send() -> None:
            answer = cast("RemoveRaftVoterResponse", await client.request(request, TIMEOUT_MS))
            _raise_for(answer.error_code, answer.error_message)

        return await _apply(plan, send, options)

    return with_client(bootstrap, work, options.command_config)


def _directory_id(text: str) -> UUID:
    try:
        found = uuid_from_text(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--controller-directory-id") from None
    if found == ZERO_UUID:
        raise typer.BadParameter("the zero id is not the id of a voter", param_hint="--controller-directory-id")
    return found


async def _apply(plan: VoterChange, send: Callable[[], Awaitable[None]], options: ChangeOptions) -> int:
    """Print the plan, make the change unless it is a dry run or a precondition fails, and return the exit code."""
    if not options.as_json:
        print("\n".join(plan_lines(plan)), flush=True)
    may_send = not options.dry_run and (options.force or not plan.failed)
    if may_send:
        await send()
    if options.as_json:
        print(json.dumps({**plan_state(plan), "done": may_send}))
    elif may_send:
        done = "Added" if plan.operation == "ADD" else "Removed"
        shown = ", ".join(endpoint_texts(plan.endpoints))
        where = f" ({shown})" if shown and plan.operation == "ADD" else ""
        print(f"{done} controller {plan.voter_id} with directory id {uuid_to_text(plan.directory_id)}{where}")
    elif options.dry_run and not plan.failed:
        print("Dry run: nothing was sent.")
    if may_send or not plan.failed:
        return 0
    refused = VoterChangeRefused(plan)
    would_be = f"{refused.error.name}: " if refused.error is not None else ""
    print(f"conclave: {would_be}{refused} Nothing was sent; use --force to send the request.", file=sys.stderr)
    return 1


def _ids(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids)) or "none"


def plan_lines(plan: VoterChange) -> list[str]:
    """Return the effect, the preconditions and the warnings, a line for each."""
    before, after = plan.before, plan.after
    return [
        f"Voters: {_ids(before.voter_ids)} -> {_ids(after.voter_ids)}",
        f"Majority: {before.majority} of {len(before.voter_ids)} -> {after.majority} of {len(after.voter_ids)}",
        f"Failures tolerated when all are caught up: {before.failures_tolerated} -> {after.failures_tolerated}",
        f"Failures tolerated now: {before.failures_tolerated_now} -> {after.failures_tolerated_now}",
        *(f"  {'met    ' if check.is_met else 'NOT MET'}  {check.detail}" for check in plan.checks),
        *(f"  warning  {warning.replace('`', '')}" for warning in plan.warnings),
    ]


def plan_state(plan: VoterChange) -> dict[str, Any]:
    """Return the plan as a JSON-ready object."""

    def tolerance(each: FaultTolerance) -> dict[str, Any]:
        return {
            "voterIds": list(each.voter_ids),
            "behindVoterIds": list(each.behind),
            "majority": each.majority,
            "failuresTolerated": each.failures_tolerated,
            "failuresToleratedNow": each.failures_tolerated_now,
        }

    return {
        "operation": plan.operation,
        "nodeId": plan.voter_id,
        "directoryId": uuid_to_text(plan.directory_id),
        "endpoints": endpoint_texts(plan.endpoints),
        "before": tolerance(plan.before),
        "after": tolerance(plan.after),
        "checks": [{"name": each.name, "isMet": each.is_met, "detail": each.detail} for each in plan.checks],
        "warnings": list(plan.warnings),
    }


def _raise_for(error_code: int, message: str | None) -> None:
    if error_code:
        code = ErrorCode(error_code)
        raise KafkaError(code, f"{code.name}: {message or code.default_message}")
