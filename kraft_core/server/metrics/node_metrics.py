"""A node's metrics for Prometheus, under the names that a JMX exporter gives to Kafka's.

Nothing is measured on the way of a request but a few counters of the listener and of the controller; all else is read
from the node when somebody asks. The names are those of the rules that Strimzi ships for the JMX exporter, so existing dashboards fit; the
page docs/operations.md lists each with its MBean. Source: KafkaRaftMetrics, QuorumControllerMetrics,
ControllerMetadataMetrics, BrokerRegistrationState, MetadataLoaderMetrics, SnapshotEmitterMetrics, SocketServer of
Kafka 4.3.1.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from kraft_core.controller.quorum_controller_metrics import Histogram
from kraft_core.protocol.api_keys import ApiKey
from kraft_core.protocol.metadata_version import KRAFT_VERSION, METADATA_VERSION
from kraft_core.server.controller_server import ControllerServer
from kraft_core.server.metrics.metrics_http import Gauge
from kraft_core.server.metrics.partition_counts import PartitionCounter, PartitionCounts
from kraft_core.server.network.socket_server import SocketServer

RAFT: Final = "kafka_server_raftmetrics_"
CONTROLLER: Final = "kafka_controller_kafkacontroller_"
EVENTS: Final = "kafka_controller_controllereventmanager_"
STATS: Final = "kafka_controller_controllerstats_"
LOADER: Final = "kafka_server_metadataloader_"
EMITTER: Final = "kafka_server_snapshotemitter_"
SOCKETS: Final = "kafka_server_socket_server_metrics_"
REQUESTS: Final = "kafka_network_requestmetrics_requests"

_FENCED, _IN_SHUTDOWN, _ACTIVE = 10, 20, 30
_COUNTERS: Final = (
    ("connection_creation", "connections accepted", "connections_opened"),
    ("connection_close", "connections closed", "connections_closed"),
    ("incoming_byte", "bytes received", "incoming_bytes"),
    ("outgoing_byte", "bytes sent as answers", "outgoing_bytes"),
)


class NodeMetrics(Collector):
    """Makes the page. `controller` is None on a node that is only a broker; `listeners` and `gauges` give those of the moment."""

    def __init__(
        self,
        controller: ControllerServer | None,
        listeners: Callable[[], Iterable[SocketServer]],
        gauges: Callable[[], Iterable[Gauge]],
    ) -> None:
        self._controller = controller
        self._listeners = listeners
        self._gauges = gauges
        self._counter = PartitionCounter()
        self._counts = PartitionCounts()
        self._counting = asyncio.Lock()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    async def page(self) -> bytes:
        """Return the page. Partitions are counted off the node's loop; the rest takes it less than a millisecond."""
        if self._controller is not None:
            async with self._counting:
                self._counts = await asyncio.to_thread(self._counter.count, self._controller.image)
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Yield everything. Called by the registry, on the node's loop."""
        if self._controller is not None:
            of_raft = self._controller.node.raft.metrics(self._controller.now_ms())
            yield from self._of_raft(of_raft)
            yield from self._of_controller(self._controller)
            yield from _of_work(self._controller, of_raft)
            yield from _of_brokers(self._controller)
            yield from _of_features(self._controller)
            yield from _of_snapshots(self._controller)
        yield from self._of_listeners(tuple(self._listeners()))
        for name, text, value in self._gauges():
            yield GaugeMetricFamily(name, text, value=float(value))

    def _of_raft(self, metrics: Mapping[str, float | str]) -> Iterable[Metric]:
        for name, value in sorted(metrics.items()):
            family = RAFT + name.replace("-", "_")
            text = f"raft-metrics {name}"
            if isinstance(value, str):  # as the exporter has it: the text is a label, the value 1
                label = name.replace("-", "_")
                gauge = GaugeMetricFamily(family, text, labels=(label,))
                gauge.add_metric((value,), 1.0)
                yield gauge
            else:
                yield GaugeMetricFamily(family, text, value=float(value))

    def _of_controller(self, controller: ControllerServer) -> Iterable[Metric]:
        node, brokers = controller.node, controller.image.cluster.brokers.values()
        fenced = sum(broker.fenced for broker in brokers)
        leaving = sum(broker.in_controlled_shutdown for broker in brokers)
        counts, applied_ms = self._counts, node.last_applied_timestamp_ms
        applied = node.raft.log_end_offset if node.is_active else node.applied_offset  # the active one applies first
        lag_ms = 0 if node.is_active else max(0, controller.now_ms() - applied_ms)
        numbers = (
            ("ActiveControllerCount", "1 on the active controller", node.is_active),
            ("ActiveBrokerCount", "registered brokers that are not fenced", len(brokers) - fenced),
            ("FencedBrokerCount", "registered brokers that are fenced", fenced),
            ("ControlledShutdownBrokerCount", "brokers in controlled shutdown", leaving),
            ("GlobalTopicCount", "topics", counts.topics),
            ("GlobalPartitionCount", "partitions", counts.partitions),
            ("OfflinePartitionsCount", "partitions without a leader", counts.offline),
            ("PreferredReplicaImbalanceCount", "partitions not led by their preferred replica", counts.imbalanced),
            ("LastAppliedRecordOffset", "last offset in this controller's memory", applied - 1),
            ("LastAppliedRecordTimestamp", "when the last applied batch was written", applied_ms),
            ("LastAppliedRecordLagMs", "its age; 0 on the active controller", lag_ms),
            ("LastCommittedRecordOffset", "last offset known to be committed", max(-1, controller.high_watermark - 1)),
        )
        for name, text, value in numbers:
            yield GaugeMetricFamily(CONTROLLER + name.lower(), text, value=float(value))

    def _of_listeners(self, listeners: tuple[SocketServer, ...]) -> Iterable[Metric]:
        labels = ("listener",)
        count = GaugeMetricFamily(f"{SOCKETS}connection_count", "connections open now", labels=labels)
        for listener in listeners:
            count.add_metric((listener.listener_name,), listener.connection_count)
        yield count
        for name, text, attribute in _COUNTERS:
            family = CounterMetricFamily(SOCKETS + name, text, labels=labels)
            for listener in listeners:
                family.add_metric((listener.listener_name,), getattr(listener.counters, attribute))
            yield family
        requests = CounterMetricFamily(REQUESTS, "requests taken in", labels=("listener", "request"))
        for listener in listeners:
            for api_key, number in sorted(listener.counters.requests.items()):
                requests.add_metric((listener.listener_name, _api_name(api_key)), number)
        yield requests


def _of_work(controller: ControllerServer, of_raft: Mapping[str, float | str]) -> Iterable[Metric]:
    counts, elections = controller.node.controller.metrics, controller.elections
    gauges = (
        ("EventQueueOperationsStartedCount", "events taken up", counts.operations_started),
        ("EventQueueOperationsTimedOutCount", "requests that were too late", counts.operations_timed_out),
        ("TimedOutBrokerHeartbeatCount", "heartbeats among these", counts.timed_out_heartbeats),
        ("NewActiveControllersCount", "changes of the active controller seen", counts.new_active_controllers),
        ("MetadataErrorCount", "faults of listeners, snapshots and events", controller.metadata_errors),
        ("IgnoredStaticVoters", "1 if the settings' voters are not used", of_raft["ignored-static-voters"]),
    )
    for name, text, value in gauges:
        yield GaugeMetricFamily(CONTROLLER + name.lower(), text, value=float(value))
    idle = float(of_raft["poll-idle-ratio-avg"])  # one loop does the work of both
    yield GaugeMetricFamily(f"{EVENTS}avgidleratio", "share of idle time", value=idle)
    yield _histogram("EventQueueTimeMs", "time until a request was begun", counts.event_queue_time)
    yield _histogram("EventQueueProcessingTimeMs", "time from then to its end", counts.event_queue_processing_time)
    for name, text, value in (
        ("uncleanleaderelections", "leaders elected that may lack records", elections.unclean),
        ("electionfromeligibleleaderreplicas", "leaders elected from the ELR", elections.from_elr),
    ):
        yield CounterMetricFamily(STATS + name, text, value=float(value))


def _histogram(name: str, text: str, values: Histogram) -> Metric:
    at_most = [*map(str, map(float, values.BOUNDS_MS)), "+Inf"]
    counts = list(zip(at_most, itertools.accumulate(values.counts), strict=True))
    return HistogramMetricFamily(EVENTS + name.lower(), text, buckets=counts, sum_value=values.sum_ms)


def _of_brokers(controller: ControllerServer) -> Iterable[Metric]:
    """Tell where each broker stands, and on the active controller when it was last heard of."""
    node = controller.node
    session_ms = node.config.controller.session_timeout_ms
    state = GaugeMetricFamily(
        CONTROLLER + "brokerregistrationstate", "10 fenced, 20 controlled shutdown, 30 active", labels=("broker",)
    )
    silent = GaugeMetricFamily(
        CONTROLLER + "timesincelastheartbeatreceivedms", "at most the session timeout", labels=("broker",)
    )
    for broker_id, broker in sorted(controller.image.cluster.brokers.items(), key=lambda item: item[0]):
        number = _FENCED if broker.fenced else _IN_SHUTDOWN if broker.in_controlled_shutdown else _ACTIVE
        state.add_metric((str(broker_id),), number)
        if node.is_active:
            contact_ms = node.controller.last_contact_ms(broker_id)
            silent_ms = session_ms if contact_ms is None else min(session_ms, controller.now_ms() - contact_ms)
            silent.add_metric((str(broker_id),), silent_ms)
    yield state
    yield silent


def _of_features(controller: ControllerServer) -> Iterable[Metric]:
    features = controller.image.features
    version = features.metadata_version
    if version is not None:
        yield GaugeMetricFamily(LOADER + "currentmetadataversion", "metadata.version in force", value=float(version))
    yield GaugeMetricFamily(LOADER + "currentcontrollerid", "the leader, or -1", value=float(controller.node.leader_id))
    levels = GaugeMetricFamily(LOADER + "finalizedlevel", "level of a feature in force", labels=("featureName",))
    finalized = {**features.levels, KRAFT_VERSION: controller.node.kraft_version}
    if version is not None:
        finalized[METADATA_VERSION] = version
    for name, level in sorted(finalized.items()):
        levels.add_metric((_camel(name),), level)
    yield levels


def _of_snapshots(controller: ControllerServer) -> Iterable[Metric]:
    emitter = controller.snapshot_emitter
    age_ms = controller.now_ms() - emitter.latest_generated_time_ms
    for name, text, value in (
        (
            f"{LOADER}handleloadsnapshotcount",
            "snapshots loaded in place of records",
            controller.node.load_snapshot_count,
        ),
        (f"{EMITTER}latestsnapshotgeneratedbytes", "size of the last snapshot made", emitter.latest_generated_bytes),
        (f"{EMITTER}latestsnapshotgeneratedagems", "since it was made, or since the start", age_ms),
    ):
        yield GaugeMetricFamily(name, text, value=float(value))


def _camel(name: str) -> str:
    """Kafka's label of a feature: eligible.leader.replicas.version is eligibleLeaderReplicasVersion."""
    first, *rest = name.split(".")
    return first + "".join(part.capitalize() for part in rest)


def _api_name(api_key: int) -> str:
    """Kafka's name of a request: BROKER_HEARTBEAT is BrokerHeartbeat."""
    try:
        return "".join(part.capitalize() for part in ApiKey(api_key).name.split("_"))
    except ValueError:
        return str(api_key)
