"""`conclave quorum describe`: the state of a quorum, ours or Apache's, as kafka-metadata-quorum shows it."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import typer

from app.cluster.leaderless_quorum import describe_without_leader
from app.cluster.quorum import Quorum, Replica, describe_quorum, quorum_of
from app.cluster.quorum_text import endpoint_texts, state_text
from kraft_core.clients.kafka_client import ControllerClient, NoActiveController
from kraft_core.protocol.errors import KafkaError
from kraft_core.protocol.host_port import parse_host_port
from kraft_core.protocol.messages import ApiVersionsResponse
from kraft_core.protocol.software import api_versions_request
from kraft_core.protocol.uuids import uuid_to_text
from kraft_core.security.client_properties import load_client_security
from kraft_core.security.properties import SecurityConfigError

TIMEOUT_MS = 5_000
WATCH_SECONDS = 1.0
KRAFT_VERSION = "kraft.version"

T = TypeVar("T")


def with_client(bootstrap: str, work: Callable[[ControllerClient], Awaitable[T]], command_config: Path | None) -> T:
    """Run `work` with a client of the active controller that uses the properties in `command_config`.

    Raises typer.BadParameter for text that is not HOST:PORT,… and for invalid properties, and ConnectionError or
    KafkaError from `work`.
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
    """Return the quorum with its kraft.version, which is among the leader's finalized features."""
    answer = await describe_quorum(client, TIMEOUT_MS)
    versions = cast("ApiVersionsResponse", await client.request(api_versions_request(), TIMEOUT_MS, idempotent=True))
    level = next((each.max_version_level for each in versions.finalized_features if each.name == KRAFT_VERSION), 0)
    return quorum_of(answer, asked_at_ms=int(time.time() * 1000), kraft_version=level)


def describe(bootstrap: str, command_config: Path | None, *, watch: bool, as_json: bool) -> None:
    """Print the state of the quorum, repeatedly with `watch`, even while there is no leader.

    Without a leader it prints which controllers answer, and raises NoActiveController with the same in one sentence.
    Raises KafkaError when the leader refuses.
    """
    with_client(bootstrap, lambda client: _describe(client, watch=watch, as_json=as_json), command_config)


async def _describe(client: ControllerClient, *, watch: bool, as_json: bool) -> None:
    is_screen = sys.stdout.isatty() and not as_json
    while True:
        text, failure = await _look(client, as_json=as_json)
        if watch and is_screen:
            print("\x1b[2J\x1b[H", end="")  # clear the screen, move to its top
        if watch or not isinstance(failure, KafkaError):
            print(text, flush=True)
        if watch:
            await asyncio.sleep(WATCH_SECONDS)
        elif failure is not None:
            raise failure
        else:
            return


async def _look(client: ControllerClient, *, as_json: bool) -> tuple[str, KafkaError | ConnectionError | None]:
    """Return the text to print, and the error if the leader gave no description."""
    try:
        quorum = await ask_quorum(client)
    except KafkaError as refused:
        return json.dumps({"error": str(refused)}) if as_json else f"No answer: {refused}", refused
    except ConnectionError as cause:
        quorum = await describe_without_leader(client.bootstrap, client.security, str(cause))
        said = str(cause) if quorum.standing == "unknown" else state_text(quorum, "controller")
        state = {**quorum_state(quorum), "error": said}
        return json.dumps(state) if as_json else "\n".join(missing_lines(quorum)), NoActiveController(said)
    return json.dumps(quorum_state(quorum)) if as_json else "\n".join(state_lines(quorum)), None


def quorum_state(quorum: Quorum) -> dict[str, Any]:
    """Return the quorum as a JSON-ready object. Offsets and lags are in records, times in ms by the leader's clock."""

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
            "answers": None if each.reach is None else each.reach.answers,
            "endpoints": endpoint_texts(each.endpoints),
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


def missing_lines(quorum: Quorum) -> list[str]:
    """Return which controllers answer when there is no leader: a line for each, with the reason when it does not."""
    reached = [(f"node {each.id}", each.reach) for each in quorum.voters if each.reach is not None]
    reached += [("controller", each) for each in quorum.asked]
    return [
        f"Leader -1, epoch {quorum.leader_epoch}",
        *(
            f"{name} at {reach.host}:{reach.port}: {'answers' if reach.answers else f'does not answer: {reach.cause}'}"
            for name, reach in reached
        ),
    ]


def state_lines(quorum: Quorum) -> list[str]:
    """Return the quorum as a table. Nothing is truncated, so that ids can be copied."""
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
        f"Majority {quorum.majority} of {len(quorum.voters)}, tolerated failures {quorum.failures_tolerated}",
        *("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows),
    ]
