"""A raft-only server with a load generator: `python -m benchmarks.raft_server --config FILE`.

It is the counterpart of Apache's kafka.tools.TestRaftServer, with the same options, load (see raft_load) and output, so
that both can be compared. It uses the product's socket server, channels, log, quorum-state and KafkaRaftClient, without
a controller and an image. The voters are those of controller.quorum.voters; formatting is not needed.
"""

import argparse
import asyncio
import gc
import signal
import sys
from functools import partial
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

from benchmarks.raft_load import Workload
from kraft_core.clients.channel_manager import ChannelConfig, ChannelManager, Result
from kraft_core.kafka_raft_server import GC_THRESHOLDS, LOOP_FACTORY, SWITCH_INTERVAL_S
from kraft_core.node import NodeEvent
from kraft_core.protocol.metadata_version import FEATURES
from kraft_core.protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text
from kraft_core.raft.effects import Effect, Flush, Respond, SendRequest, Stopped, StoreElection
from kraft_core.raft.events import (
    Event,
    FailureReason,
    Flushed,
    PeerDisconnected,
    RequestFailed,
    ResponseReceived,
    Shutdown,
    Timer,
)
from kraft_core.raft.kafka_raft_client import KafkaRaftClient
from kraft_core.server.api_versions import ApiVersionsAnswers, controller_versions
from kraft_core.server.clock import Clock
from kraft_core.server.config.kafka_config import KafkaConfig
from kraft_core.server.controller_apis import RAFT_APIS, ControllerApis
from kraft_core.server.io_thread import IoThread
from kraft_core.server.log_format import configure_logging
from kraft_core.server.network.socket_server import SocketServer
from kraft_core.server.node_config import advertised_endpoints, raft_config, socket_limits
from kraft_core.server.runtime_logger_manager import RuntimeLoggerManager
from kraft_core.server.wakeup import Wakeup
from kraft_core.storage.kafka_raft_log import KafkaRaftLog
from kraft_core.storage.quorum_state_store import QuorumStateStore

CLUSTER_ID: Final = uuid_to_text(ZERO_UUID)
SHUTDOWN_TIMEOUT_MS: Final = 2_000


class RaftServer:
    """One node, from `start` to `stop`. `ended` is set when it stops or fails."""

    def __init__(self, config: KafkaConfig, directory_id: UUID, per_second: int, record_size: int) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._clock = Clock()
        self._log = KafkaRaftLog.open(config.metadata_log_dir)
        self._store = QuorumStateStore(config.metadata_log_dir)
        random = Random()
        settings = raft_config(config, CLUSTER_ID, directory_id, advertised_endpoints(config))
        self._raft = KafkaRaftClient(settings, self._log, self._store.read(), random, self._clock.now_ms())
        answers = ApiVersionsAnswers(
            {key: served for key, served in controller_versions().items() if key in RAFT_APIS or key == 18},
            FEATURES,
            lambda: (-1, {}),
        )
        loggers = RuntimeLoggerManager(config.node_id)
        self._apis = ControllerApis(self, answers, config.broker_heartbeat_interval_ms, loggers)
        self._socket_servers = [
            SocketServer(each.host, each.port, self._apis.handle, socket_limits(config), listener_name=each.name)
            for each in config.controller_listeners
        ]
        self._channels = ChannelManager(ChannelConfig(client_id=f"raft-client-{config.node_id}"), random, self._lost)
        self._flusher = IoThread("flush")
        self._events: list[NodeEvent] = []
        self._scheduled = False
        self._wakeup = Wakeup(loop, lambda: self.post(Timer()))
        self._workload = Workload(self._raft, config.node_id, per_second, record_size)
        self._raft.register(self._workload)
        self._next_append: asyncio.Handle | None = None
        self.ended = asyncio.Event()

    async def start(self) -> None:
        """Bind the listeners, start raft, then accept connections."""
        for server in self._socket_servers:
            await server.bind()
        self._raft.start(self._clock.now_ms())
        self.post(Timer())
        for server in self._socket_servers:
            await server.start()

    async def stop(self) -> None:
        """Resign the leadership and close."""
        self.ended.clear()
        self.post(Shutdown(SHUTDOWN_TIMEOUT_MS))
        await asyncio.wait_for(self.ended.wait(), SHUTDOWN_TIMEOUT_MS / 1000 + 1)
        if self._next_append is not None:
            self._next_append.cancel()
        self._wakeup.cancel()
        self._channels.close()
        for server in self._socket_servers:
            await server.stop()
        self._flusher.close()
        self._log.close()

    # -- the owner loop

    def now_ms(self) -> int:
        """Return the node's time."""
        return self._clock.now_ms()

    def post(self, event: NodeEvent) -> None:
        """Queue an event for raft; all events of one turn of the loop are handled together."""
        self._events.append(event)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        events, self._events = self._events, []
        now_ms = self._clock.now_ms()
        for event in events:
            assert isinstance(event, Event)
            self._raft.handle(event, now_ms)
        self._carry_on(now_ms)

    def _carry_on(self, now_ms: int) -> None:
        for effect in self._raft.take_effects(now_ms):
            self._carry_out(effect)
        self._wakeup.after((self._raft.next_deadline_ms() - self._clock.now_ms()) / 1000)
        if self._next_append is None and self._workload.is_claimed:
            self._next_append = self._loop.call_soon(self._append)

    def _append(self) -> None:
        self._next_append = None
        if self._workload.is_claimed:
            wait_s = self._workload.run()
            self._next_append = self._loop.call_later(wait_s, self._append)
            self._carry_on(self._clock.now_ms())

    # -- effects

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Respond():
                self._apis.answered(effect.request_id, effect.message)
            case SendRequest():
                self._channels.request(
                    effect.destination,
                    effect.message,
                    effect.timeout_ms,
                    partial(self._request_done, effect.correlation),
                    min_version=effect.min_version,
                )
            case Flush():
                self._flusher.submit(self._log.flush, lambda offset: self.post(Flushed(offset)), self._failed)
            case StoreElection():
                self._store.write(effect.election, effect.kraft_version)
            case Stopped():
                self.ended.set()

    def _request_done(self, correlation: int, result: Result) -> None:
        if isinstance(result, FailureReason):
            self.post(RequestFailed(correlation, result))
        else:
            self.post(ResponseReceived(correlation, result))

    def _lost(self, node_id: int) -> None:
        if node_id >= 0:
            self.post(PeerDisconnected(node_id))

    def _failed(self, error: Exception) -> None:
        print(f"failed: {error}", file=sys.stderr)
        self.ended.set()


async def _serve(config: KafkaConfig, directory_id: UUID, per_second: int, record_size: int) -> None:
    server = RaftServer(config, directory_id, per_second, record_size)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.ended.set)
    await server.start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    await server.ended.wait()
    await server.stop()


def main(arguments: list[str]) -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.raft_server")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--throughput", type=int, default=5_000, help="records a second")
    parser.add_argument("--record-size", type=int, default=256, help="bytes")
    parser.add_argument("--replica-directory-id", type=uuid_from_text, required=True)
    options = parser.parse_args(arguments)
    configure_logging()
    config = KafkaConfig.load(options.config)
    config.metadata_log_dir.mkdir(parents=True, exist_ok=True)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=LOOP_FACTORY) as runner:
        runner.run(_serve(config, options.replica_directory_id, options.throughput, options.record_size))


if __name__ == "__main__":
    main(sys.argv[1:])
