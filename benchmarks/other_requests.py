"""Config changes pipelined on one connection, heartbeats on four, and reading the metadata log as an observer."""

import time
from uuid import uuid4

from benchmarks.figures import Figure
from benchmarks.frames import (
    alter_config_frames,
    check_configs_altered,
    check_heartbeats,
    check_topics_created,
    create_topics_frame,
    heartbeat_frame,
)
from benchmarks.load import many_at_once, one_at_a_time, percentile
from benchmarks.log_reader import fetch_log
from benchmarks.plan import Plan
from benchmarks.sides import BROKERS, PLAIN, WITH_LINGER, Cluster, running

PIPELINED = 200


def config_changes(plan: Plan) -> list[Figure]:
    """Measure repeated changes of one topic config on one connection: up to 200 in flight, and one at a time."""
    figure = Figure("config changes pipelined on one connection", "per s", 3_000, more_is_better=True)
    alone = Figure("config change, one at a time, p50", "ms")
    for _, side in plan.turns(WITH_LINGER):
        with running(side, 1) as cluster:
            check_topics_created(one_at_a_time(cluster.leader_port, [create_topics_frame(["one"], 3)]).answers)
            waits = (
                side.is_apache and side.linger_ms is None
            )  # its linger limits the rate, so that it needs no longer warm-up
            for count in (plan.count(100 if waits else 1_000, 5), plan.count(400 if waits else 4_000, 10)):
                outcome = many_at_once(cluster.leader_port, [alter_config_frames("one", count)], PIPELINED)
                check_configs_altered(outcome.answers)
            figure.add(side, outcome.per_second)
            outcome = one_at_a_time(cluster.leader_port, alter_config_frames("one", plan.count(400, 5)))
            check_configs_altered(outcome.answers)
            alone.add(side, percentile(outcome.latencies_ms, 0.5))
    return [figure, alone]


def heartbeats(plan: Plan) -> list[Figure]:
    """Measure heartbeats of unfenced brokers on four connections with eight in flight each."""
    figure = Figure("heartbeats, 4 connections", "per s", more_is_better=True)
    for _, side in plan.turns(PLAIN):
        with running(side, 1) as cluster:
            frames = [heartbeat_frame(cluster, broker_id) for broker_id in (*BROKERS, BROKERS[0])]
            for count in (plan.count(2_000, 5), plan.count(6_000, 10)):
                outcome = many_at_once(cluster.leader_port, [[frame] * count for frame in frames], 8)
            check_heartbeats(outcome.answers)
            figure.add(side, outcome.per_second)
    return [figure]


def _read_log(cluster: Cluster) -> tuple[int, float]:
    """Read the log. Return (bytes of records, seconds)."""
    began = time.perf_counter()
    size = sum(map(len, fetch_log(cluster)))
    return size, time.perf_counter() - began


def log_read(plan: Plan) -> list[Figure]:
    """Measure repeated reads of a log of about 20 MB as an observer. That is more than ours keeps in memory."""
    figure = Figure("observer reads the log", "MB/s", 100, more_is_better=True)
    for _, side in plan.turns(PLAIN):
        with running(side, 1) as cluster:
            frames = [create_topics_frame([f"{number}-{uuid4()}"], 1_000) for number in range(plan.count(200, 2))]
            check_topics_created(one_at_a_time(cluster.leader_port, frames).answers)
            _read_log(cluster)
            passes = [_read_log(cluster) for _ in range(plan.count(8, 2))]
            figure.add(side, sum(size for size, _ in passes) / sum(seconds for _, seconds in passes) / 1e6)
    return [figure]
