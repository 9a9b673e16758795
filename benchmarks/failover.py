"""Failover: the time until a topic can be created after the leader of three nodes is killed or paused."""

import itertools
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from benchmarks.figures import Figure
from benchmarks.frames import CREATE_TOPICS_VERSION, create_topics_frame
from benchmarks.load import connected, read_answer
from benchmarks.plan import Plan
from benchmarks.sides import OURS, PLAIN, Cluster, running
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.framing import decode_response

TIMES = 5
OUR_KILLS = 30
"""Kills of our leader. Each takes a second; many are needed to show the one in ten with a split vote."""
PAUSE_S = 0.002
WAIT_S = 30.0
_names = itertools.count()


class _Attempts:
    """Per surviving node a thread, connected before the failure, that tries to create topics until one exists."""

    def __init__(self, ports: list[int]) -> None:
        self._created = threading.Event()
        self._moment = 0.0
        self._go = threading.Event()
        self._stack = ExitStack()
        connections = [self._stack.enter_context(connected(port, 5)) for port in ports]
        self._threads = [threading.Thread(target=self._try, args=(each,), daemon=True) for each in connections]
        for thread in self._threads:
            thread.start()

    def begin(self) -> None:
        """Start the attempts."""
        self._go.set()

    def wait(self) -> float:
        """Return the time (perf_counter) of the first success. Raises TimeoutError without one in WAIT_S."""
        with self._stack:
            try:
                if not self._created.wait(WAIT_S):
                    raise TimeoutError(f"no topic could be created for {WAIT_S} s")
            finally:
                self._created.set()
                for thread in self._threads:
                    thread.join()
        return self._moment

    def _try(self, connection: socket.socket) -> None:
        self._go.wait()
        while not self._created.is_set():
            if self._created_one(connection):
                self._moment = self._moment or time.perf_counter()
                self._created.set()
            else:
                time.sleep(PAUSE_S)

    def _created_one(self, connection: socket.socket) -> bool:
        try:
            connection.sendall(create_topics_frame([f"again-{next(_names)}"], 3))
            answer = decode_response(19, CREATE_TOPICS_VERSION, read_answer(connection))[1]
        except TimeoutError:
            return False
        return answer.topics[0].error_code == ErrorCode.NONE  # type: ignore[attr-defined,no-any-return]  # a CreateTopicsResponse


def _one(cluster: Cluster, strike: Callable[[], None]) -> float:
    """Return the milliseconds from the failure of the leader to the first topic created on another node."""
    survivors = [cluster.quorum.port_of(each) for each in cluster.quorum.node_ids if each != cluster.leader_id]
    attempts = _Attempts(survivors)
    struck = time.perf_counter()
    strike()
    attempts.begin()
    return (attempts.wait() - struck) * 1000


def _killed(cluster: Cluster) -> float:
    process = cluster.leader_process
    took = _one(cluster, process.popen.kill)
    process.popen.wait(20)
    cluster.start_node(cluster.leader_id)
    return took


def _frozen(cluster: Cluster) -> float:
    frozen_id, process = cluster.leader_id, cluster.leader_process
    try:
        took = _one(cluster, lambda: process.send(signal.SIGSTOP))
    finally:
        process.send(signal.SIGCONT)
    deadline = time.monotonic() + WAIT_S
    while cluster.wait_for_leader() == frozen_id and time.monotonic() < deadline:
        time.sleep(PAUSE_S)  # the resumed node still claims to lead its old epoch
    return took


def failover(plan: Plan) -> list[Figure]:
    """Measure SIGKILL and SIGSTOP of the leader, five times each, but 30 kills of ours."""
    figures = []
    for what, strike, p50_ms, max_ms in (("SIGKILL", _killed, 250, 600), ("SIGSTOP", _frozen, 1_000, 1_500)):
        p50 = Figure(f"failover after {what}, p50", "ms", p50_ms)
        worst = Figure(f"failover after {what}, worst", "ms", max_ms)
        for _, side in plan.once().turns(PLAIN):
            with running(side, 3) as cluster:
                times = OUR_KILLS if strike is _killed and side is OURS else TIMES
                for _ in range(plan.count(times, 2)):
                    cluster.wait_until_caught_up()
                    p50.add(side, strike(cluster))
            worst.add(side, max(p50.values[side.name]))
        figures += [p50, worst]
    return figures
