"""Cluster: brokers and controllers of this project as processes on free ports of 127.0.0.1.

The nodes are those of `conclave node`, so a test sees the real protocol, real files and real deaths. Their broker
keeps one replica of each partition: topics of a cluster with several brokers have one replica too.
"""

import asyncio
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast

from conclave.testing.blocking_request import ask
from conclave.testing.cluster_node import POLL_S, READY_S, ClusterError, ClusterNode, ProcessGroup
from conclave.testing.free_ports import free_ports
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
    CreateTopicsResponse,
    MetadataRequest,
    MetadataRequestMetadataRequestTopic,
    MetadataResponse,
)
from kraft_core.protocol.uuids import random_uuid, uuid_to_text
from kraft_core.raft.voter_set import VoterSet
from kraft_core.storage.format import FormatRequest, format_storage, parse_initial_controllers

NODES_MAX: Final = 99
FIRST_CONTROLLER_ID: Final = 101
COMBINED_VOTERS_MAX: Final = 3
CREATE_TOPICS_VERSION: Final = 7
METADATA_VERSION: Final = 12
_LISTENER: Final = "CONTROLLER"
_SET_BY_CLUSTER: Final = frozenset(
    {
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "process.roles",
    }
)
_DEFAULTS: Final = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # a killed broker can register again only when its old session has expired
    "broker.heartbeat.interval.ms": "250",
    "broker.session.timeout.ms": "2000",
}


class Cluster:
    """A cluster that lives in a `with` or `async with` block.

    `brokers` nodes have the ids 1, 2, … Without `controllers`, the first of them are controllers too: three if there
    are as many, else one. With `controllers`, that many nodes with the ids 101, 102, … are the quorum. `configs` are
    settings of server.properties for all nodes; they replace the kit's defaults.

    `folder` receives one folder per node and is kept. Without it, a temporary folder is used, which is removed at the
    end unless the block raised; the exception then has a note with its path. All nodes are killed at the end of the
    block, at the end of the interpreter, and when this process dies by whatever signal.

    Raises ClusterError for numbers of nodes and configs that are not allowed.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        controllers: int = 0,
        configs: Mapping[str, object] | None = None,
        folder: Path | None = None,
    ) -> None:
        if not 1 <= brokers <= NODES_MAX:
            raise ClusterError(f"Invalid number of brokers {brokers}: it must be 1 to {NODES_MAX}.")
        if not 0 <= controllers <= NODES_MAX:
            raise ClusterError(f"Invalid number of controllers {controllers}: it must be 0 to {NODES_MAX}.")
        refused = sorted(_SET_BY_CLUSTER.intersection(configs or ()))
        if refused:
            raise ClusterError(f"The cluster itself sets {', '.join(refused)}: remove it from configs.")
        self.cluster_id: Final = uuid_to_text(random_uuid())
        self.broker_ids: Final = tuple(range(1, brokers + 1))
        self.controller_ids: Final = (
            tuple(range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + controllers))
            if controllers
            else self.broker_ids[: COMBINED_VOTERS_MAX if brokers >= COMBINED_VOTERS_MAX else 1]
        )
        self._configs = {name: _config_value(value) for name, value in (configs or {}).items()}
        self._wanted_folder = folder
        self._folder: Path | None = None
        self._nodes: dict[int, ClusterNode] = {}
        self._group: ProcessGroup | None = None
        self._end: weakref.finalize[[ProcessGroup, Path | None], Cluster] | None = None

    # Life

    def start(self) -> None:
        """Start all nodes and wait until every broker knows all brokers. Raises ClusterError; then nothing runs."""
        if self._folder is not None:
            raise ClusterError("A cluster starts once; create another one.")
        own = self._wanted_folder
        self._folder = Path(tempfile.mkdtemp(prefix="conclave-cluster-")) if own is None else own.resolve()
        self._group = ProcessGroup()
        self._end = weakref.finalize(self, _end, self._group, self._folder if own is None else None)
        try:
            self._format()
            for node in self._nodes.values():
                node.spawn(self._group)
            for node in self._nodes.values():
                node.wait_until_ready()
            self._wait_for_brokers()
        except BaseException:
            self.close(keep_folder=True)
            raise

    def close(self, *, keep_folder: bool = False) -> None:
        """Kill all nodes and remove the temporary folder, unless it is to be kept. Repeated calls do nothing."""
        if self._end is not None and self._group is not None and self._end.detach() is not None:
            _end(self._group, None if keep_folder or self._wanted_folder is not None else self._folder)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(keep_folder=exc is not None)
        if exc is not None:
            exc.add_note(f"Logs and data of the cluster: {self.folder}")

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(ClusterError):
                await starting
            self.close()
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(exc_type, exc, traceback)

    # What it is

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every broker, separated by commas: the config bootstrap.servers of clients."""
        return ",".join(f"127.0.0.1:{self._node(node_id).broker_port}" for node_id in self.broker_ids)

    @property
    def bootstrap_controllers(self) -> str:
        """host:port of every controller, separated by commas."""
        return ",".join(f"127.0.0.1:{self._node(node_id).controller_port}" for node_id in self.controller_ids)

    @property
    def folder(self) -> Path:
        """The folder with one folder per node. Raises ClusterError before the start."""
        if self._folder is None:
            raise ClusterError("The cluster is not started: use it in a with block.")
        return self._folder

    def log_file(self, node_id: int) -> Path:
        """Return the file with the output of a node."""
        return self._node(node_id).log_file

    def is_running(self, node_id: int) -> bool:
        """Return whether the process of a node exists; that of a paused node does."""
        return self._node(node_id).is_running

    # Faults

    def kill(self, node_id: int) -> None:
        """End a node by SIGKILL. Its files remain. Nothing happens if it does not run."""
        self._node(node_id).kill()

    def stop(self, node_id: int) -> None:
        """End a node by SIGTERM, in an orderly way. Raises ClusterError if it fails or takes longer than 60 s."""
        self._node(node_id).stop()

    def restart(self, node_id: int) -> None:
        """Start a node again on its files and ports, after an orderly stop if it runs, and wait until it serves.

        A broker that was killed waits for the end of its session first (broker.session.timeout.ms, 2 s in the kit).
        Raises ClusterError.
        """
        node = self._node(node_id)
        node.stop()
        assert self._group is not None, "there are nodes"
        node.spawn(self._group)
        node.wait_until_ready()

    def pause(self, node_id: int) -> None:
        """Stop a node with SIGSTOP: it is silent but keeps its connections. Raises ClusterError if it does not run."""
        self._node(node_id).pause()

    def resume(self, node_id: int) -> None:
        """Let a paused node continue. Raises ClusterError if it does not run."""
        self._node(node_id).resume()

    # Topics

    def create_topic(
        self, name: str, partitions: int = 1, replication_factor: int = 1, configs: Mapping[str, object] | None = None
    ) -> None:
        """Create a topic and wait until every running broker knows a leader of all its partitions.

        Raises KafkaError if the controller refuses it, such as TOPIC_ALREADY_EXISTS, ClusterError when no broker runs.
        """
        topic = CreateTopicsRequestCreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=tuple(
                CreateTopicsRequestCreatableTopicConfig(name=key, value=_config_value(value))
                for key, value in (configs or {}).items()
            ),
        )
        ports = self._broker_ports()
        if not ports:
            raise ClusterError(f"Topic '{name}' cannot be created: no broker of the cluster runs.")
        response = cast(
            "CreateTopicsResponse", ask(ports[0], CreateTopicsRequest(topics=(topic,)), CREATE_TOPICS_VERSION, READY_S)
        )
        (result,) = response.topics
        if result.error_code:
            raise KafkaError(ErrorCode(result.error_code), result.error_message)

        def is_known(metadata: MetadataResponse) -> bool:
            (found,) = metadata.topics
            return len(found.partitions) == partitions and all(each.leader_id >= 0 for each in found.partitions)

        request = MetadataRequest(
            topics=(MetadataRequestMetadataRequestTopic(name=name),), allow_auto_topic_creation=False
        )
        self._wait_for_metadata(ports, request, is_known, f"the leaders of topic '{name}'")

    # Inside

    def _node(self, node_id: int) -> ClusterNode:
        node = self._nodes.get(node_id)
        if node is None:
            allowed = ", ".join(map(str, self._nodes)) or "none before the start"
            raise ClusterError(f"The cluster has no node {node_id!r}; its nodes are {allowed}.")
        return node

    def _broker_ports(self) -> list[int]:
        brokers = (self._nodes[node_id] for node_id in self.broker_ids)
        return [each.broker_port for each in brokers if each.is_running and not each.is_paused and each.broker_port]

    def _format(self) -> None:
        """Give every node its ports, server.properties and formatted log directory."""
        ports = dict(zip(self.controller_ids, free_ports(len(self.controller_ids)), strict=True))
        directory_ids = {node_id: uuid_to_text(random_uuid()) for node_id in ports}
        voters = ",".join(f"{node_id}@127.0.0.1:{port}:{directory_ids[node_id]}" for node_id, port in ports.items())
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports.values())
        voter_set = parse_initial_controllers(voters, _LISTENER)
        for node_id in sorted({*self.broker_ids, *self.controller_ids}):
            broker_port = free_ports(1)[0] if node_id in self.broker_ids else None
            controller_port = ports.get(node_id)
            folder = self.folder / f"node-{node_id}"
            settings = _settings(node_id, folder / "data", broker_port, controller_port, bootstrap)
            node = ClusterNode(node_id, folder, {**settings, **self._configs}, broker_port, controller_port)
            node.write_settings()
            self._nodes[node_id] = node
            _format_node(node, self.cluster_id, voter_set if controller_port is not None else None)

    def _wait_for_brokers(self) -> None:
        """Wait until every broker knows all brokers, so that a client may ask any of them."""
        if len(self.broker_ids) == 1:
            return
        wanted = set(self.broker_ids)

        def are_known(metadata: MetadataResponse) -> bool:
            return {broker.node_id for broker in metadata.brokers} == wanted

        self._wait_for_metadata(self._broker_ports(), MetadataRequest(topics=()), are_known, "all brokers")

    def _wait_for_metadata(
        self, ports: Sequence[int], request: MetadataRequest, is_met: Callable[[MetadataResponse], bool], what: str
    ) -> None:
        """Ask each broker until its response meets the condition. Raises ClusterError after a minute."""
        deadline = time.monotonic() + READY_S
        for port in ports:
            while not is_met(cast("MetadataResponse", ask(port, request, METADATA_VERSION, READY_S))):
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"127.0.0.1:{port} did not know {what} within {READY_S:.0f} s; see {self.folder}"
                    )
                time.sleep(POLL_S)


def _end(group: ProcessGroup, folder: Path | None) -> None:
    """Kill the nodes and remove the folder. In a forked child of the process that started them, nothing happens."""
    if group.kill() and folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _config_value(value: object) -> str:
    """Return a config's value as server.properties and requests have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings(
    node_id: int, log_dir: Path, broker_port: int | None, controller_port: int | None, bootstrap: str
) -> dict[str, str]:
    """Return the settings of a node, without those of the caller. A port of None leaves its role out."""
    roles = {"broker": broker_port, "controller": controller_port}
    listeners = {"PLAINTEXT": broker_port, _LISTENER: controller_port}
    return {
        **_DEFAULTS,
        "process.roles": ",".join(role for role, port in roles.items() if port is not None),
        "node.id": str(node_id),
        "controller.quorum.bootstrap.servers": bootstrap,
        "controller.listener.names": _LISTENER,
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items() if port is not None),
        "log.dirs": str(log_dir),
    }


def _format_node(node: ClusterNode, cluster_id: str, voters: VoterSet | None) -> None:
    """Format the log directory of a node; `voters` is None for a node that only follows the quorum."""
    log_dir = Path(node.settings["log.dirs"])
    request = FormatRequest(
        node_id=node.node_id,
        cluster_id=cluster_id,
        log_dirs=[log_dir],
        metadata_log_dir=log_dir,
        is_dynamic=True,
        has_broker_role=True,
        voters=voters,
    )
    format_storage(request, lambda _line: None)
