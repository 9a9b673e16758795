"""`conclave quorum describe`: what kafka-metadata-quorum tells, of any controllers, ours or Apache's, in one screen."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import typer

from app.cluster.quorum import Quorum, Replica, describe_quorum, quorum_of
from app.config import parse_host_port
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.messages import ApiVersionsResponse
from kraft_core.protocol.software import api_versions_request
from kraft_core.protocol.uuids import uuid_to_text
from kraft_core.security.client_properties import load_client_security
from kraft_core.security.properties import SecurityConfigError
from kraft_core.server.kafka_client import ControllerClient

TIMEOUT_MS = 5_000
WATCH_SECONDS = 1.0
KRAFT_VERSION = "kraft.version"

T = TypeVar("T")


def with_client(bootstrap: str, work: Callable[[ControllerClient], Awaitable[T]], command_config: Path | None) -> T:
    """Run `work` with a client of the active controller, that connects as the properties in `command_config` say.

    Raises typer.BadParameter for what is not HOST:PORT,… and for properties that cannot be used, and ConnectionError or KafkaError from the work.
    """
    try:
        servers = [parse_host_port(part.strip()) for part in bootstrap.split(",") if part.strip()]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--bootstrap-controller") from None
    if not servers:
        raise typer.BadParameter("names no controller", param_hint="--bootstrap-controller")
    try:
        security = load_client_security(command_config)
    except SecurityConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--command-config") from None

    async def run() -> T:
        client = ControllerClient(servers, security=security)
        try:
            return await work(client)
        finally:
            client.close()

    return asyncio.run(run())


async def ask_quorum(client: ControllerClient) -> Quorum:
    """Ask for the quorum and its kraft.version, which the leader tells among its finalized features."""
    answer = await describe_quorum(client, TIMEOUT_MS)
    versions = cast("ApiVersionsResponse", await client.request(api_versions_request(), TIMEOUT_MS, idempotent=True))
    level = next((each.max_version_level for each in versions.finalized_features if each.name == KRAFT_VERSION), 0)
    return quorum_of(answer, asked_at_ms=int(time.time() * 1000), kraft_version=level)


def describe(bootstrap: str, command_config: Path | None, *, watch: bool, as_json: bool) -> None:
    """Print the state of the quorum, again and again with `watch`, also through times without a leader."""
    with_client(bootstrap, lambda client: _describe(client, watch=watch, as_json=as_json), command_config)


async def _describe(client: ControllerClient, *, watch: bool, as_json: bool) -> None:
    is_screen = sys.stdout.isatty() and not as_json
    while True:
        try:
            quorum = await ask_quorum(client)
            text = json.dumps(quorum_state(quorum)) if as_json else "\n".join(state_lines(quorum))
        except (ConnectionError, KafkaError) as cause:
            if not watch:
                raise
            text = json.dumps({"error": str(cause)}) if as_json else f"No answer: {cause}"
        if watch and is_screen:
            print("\x1b[2J\x1b[H", end="")  # clear the screen, go to its top
        print(text, flush=True)
        if not watch:
            return
        await asyncio.sleep(WATCH_SECONDS)


def quorum_state(quorum: Quorum) -> dict[str, Any]:
    """The quorum as one JSON-ready object; offsets and lags in records, times in ms by the leader's clock."""

    def replica(each: Replica, status: str) -> dict[str, Any]:
        return {
            "nodeId": each.id,
            "directoryId": uuid_to_text(each.directory_id),
            "status": "Leader" if each.is_leader else status,
            "logEndOffset": each.log_end_offset,
            "lag": each.lag,
            "lagTimeMs": each.lag_ms,
            "lastFetchTimestamp": each.last_fetch_timestamp,
            "lastCaughtUpTimestamp": each.last_caught_up_timestamp,
            "isCaughtUp": each.is_caught_up,
            "endpoints": [f"{name}://{host}:{port}" for name, host, port in each.endpoints],
        }

    return {
        "leaderId": -1 if quorum.leader_id is None else quorum.leader_id,
        "leaderEpoch": quorum.leader_epoch,
        "highWatermark": quorum.high_watermark,
        "kraftVersion": quorum.kraft_version,
        "maxFollowerLag": quorum.max_follower_lag,
        "maxFollowerLagTimeMs": quorum.max_follower_lag_ms,
        "majority": quorum.majority,
        "failuresTolerated": quorum.failures_tolerated,
        "voters": [replica(each, "Follower") for each in quorum.voters],
        "observers": [replica(each, "Observer") for each in quorum.observers],
    }


def state_lines(quorum: Quorum) -> list[str]:
    """The quorum in columns; nothing is ever shortened, so that ids can be copied."""
    leader = quorum.leader
    now_ms = leader.last_caught_up_timestamp if leader is not None else quorum.asked_at_ms
    state = quorum_state(quorum)
    rows: list[tuple[str, ...]] = [
        ("NODE", "DIRECTORY", "STATUS", "LOG END OFFSET", "LAG", "LAG TIME", "LAST FETCH", "ENDPOINTS")
    ]
    for each in [*state["voters"], *state["observers"]]:
        fetched = each["lastFetchTimestamp"]
        is_leader = each["status"] == "Leader"
        rows.append(
            (
                str(each["nodeId"]),
                each["directoryId"],
                each["status"],
                str(each["logEndOffset"]),
                "unknown" if each["lag"] is None else str(each["lag"]),
                "unknown" if each["lagTimeMs"] is None else f"{each['lagTimeMs']} ms",
                "-" if is_leader else "never" if fetched < 0 else f"{max(0, now_ms - fetched)} ms ago",
                ",".join(each["endpoints"]) or "-",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kind = "dynamic voters" if quorum.kraft_version else "static voters"
    return [
        f"Leader {state['leaderId']}, epoch {quorum.leader_epoch}, high watermark {quorum.high_watermark}",
        f"{KRAFT_VERSION} {quorum.kraft_version} ({kind})",
        f"A decision needs {quorum.majority} of {len(quorum.voters)}, failures until no quorum: {quorum.failures_tolerated}",
        *("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows),
    ]
