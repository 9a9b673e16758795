"""Config changes pipelined on one connection, heartbeats on four, and reading the metadata log as an observer."""

import struct
import time
from typing import cast
from uuid import uuid4

from benchmarks.figures import Figure
from benchmarks.frames import (
    ALTER_CONFIGS_VERSION,
    HEARTBEAT_VERSION,
    alter_config_frames,
    create_topics_frame,
    heartbeat_frame,
    must_succeed,
    topics_must_be_created,
)
from benchmarks.load import connected, many_at_once, one_at_a_time, read_answer
from benchmarks.plan import Plan
from benchmarks.sides import BROKERS, PLAIN, WITH_LINGER, Cluster, running
from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.messages import FetchResponse
from kraft_core.server.quorum_fetch import ObserverIdentity, fetch_partition, fetch_request

PIPELINED = 200
FETCH_VERSION = 17
FETCH_BYTES = 8 * 1024 * 1024
_BATCH_START = struct.Struct(">qii")


def config_changes(plan: Plan) -> list[Figure]:
    """Change one topic's config again and again over one connection, up to 200 requests in flight."""
    figure = Figure("config changes pipelined on one connection", "per s", 3_000, more_is_better=True)
    for _, side in plan.turns(WITH_LINGER):
        with running(side, 1) as cluster:
            topics_must_be_created(one_at_a_time(cluster.leader_port, [create_topics_frame(["one"], 3)]).answers)
            waits = side.is_apache and side.linger_ms is None  # its linger bounds it, however warm it is
            for count in (plan.count(100 if waits else 1_000, 5), plan.count(400 if waits else 4_000, 10)):
                outcome = many_at_once(cluster.leader_port, [alter_config_frames("one", count)], PIPELINED)
                must_succeed(
                    outcome.answers,
                    44,
                    ALTER_CONFIGS_VERSION,
                    lambda answer: [each.error_code for each in answer.responses],  # type: ignore[attr-defined]  # an IncrementalAlterConfigsResponse
                )
            figure.add(side, outcome.per_second)
    return [figure]


def heartbeats(plan: Plan) -> list[Figure]:
    """Heartbeats of unfenced brokers on four connections, eight in flight on each."""
    figure = Figure("heartbeats, 4 connections", "per s", more_is_better=True)
    for _, side in plan.turns(PLAIN):
        with running(side, 1) as cluster:
            frames = [heartbeat_frame(cluster, broker_id) for broker_id in (*BROKERS, BROKERS[0])]
            for count in (plan.count(2_000, 5), plan.count(6_000, 10)):
                outcome = many_at_once(cluster.leader_port, [[frame] * count for frame in frames], 8)
            must_succeed(outcome.answers, 63, HEARTBEAT_VERSION, lambda answer: [answer.error_code])  # type: ignore[attr-defined]  # a BrokerHeartbeatResponse
            figure.add(side, outcome.per_second)
    return [figure]


def read_log(cluster: Cluster) -> tuple[int, float]:
    """Fetch the whole log from offset 0 -> (bytes of records, seconds). Batch headers lead to the next fetch."""
    identity = ObserverIdentity(cluster_id=cluster.quorum.cluster_id)
    total, offset, epoch = 0, 0, 0
    leader_epoch = cluster.leader_epoch()
    with connected(cluster.leader_port) as connection:
        began = time.perf_counter()
        while True:
            request = fetch_request(
                identity,
                leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=epoch,
                high_watermark=-1,
                max_wait_ms=0,
                max_bytes=FETCH_BYTES,
            )
            connection.sendall(encode_request(request, FETCH_VERSION, 1, "bench"))
            answer = cast("FetchResponse", decode_response(1, FETCH_VERSION, read_answer(connection))[1])
            partition = fetch_partition(answer)
            assert partition is not None, answer
            assert (answer.error_code, partition.error_code) == (0, 0), partition
            records = partition.records or b""
            if not records:
                break
            total += len(records)
            position = 0
            while position < len(records):
                base, length, epoch = _BATCH_START.unpack_from(records, position)
                offset = base + int.from_bytes(records[position + 23 : position + 27]) + 1
                position += 12 + length
        return total, time.perf_counter() - began


def log_read(plan: Plan) -> list[Figure]:
    """Read a log of some 20 MB as an observer, again and again: more than ours keeps in memory."""
    figure = Figure("observer reads the log", "MB/s", 100, more_is_better=True)
    for _, side in plan.turns(PLAIN):
        with running(side, 1) as cluster:
            frames = [create_topics_frame([f"{number}-{uuid4()}"], 1_000) for number in range(plan.count(200, 2))]
            topics_must_be_created(one_at_a_time(cluster.leader_port, frames).answers)
            read_log(cluster)
            passes = [read_log(cluster) for _ in range(plan.count(8, 2))]
            figure.add(side, sum(size for size, _ in passes) / sum(seconds for _, seconds in passes) / 1e6)
    return [figure]
