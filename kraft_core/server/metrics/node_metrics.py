"""A node's metrics for Prometheus, with the names that the JMX exporter gives to Kafka's.

Requests only increment a few counters of the listener and the controller; all other metrics are read from the node on
demand. The names follow the rules that Strimzi ships for the JMX exporter, so that existing dashboards work;
docs/operations.md lists each with its MBean. Source: KafkaRaftMetrics, QuorumControllerMetrics,
ControllerMetadataMetrics, BrokerRegistrationState, MetadataLoaderMetrics, SnapshotEmitterMetrics and SocketServer,
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
    """Collects a node's metrics. `controller` is None on a node that is only a broker.

    `listeners` and `gauges` return the current ones.
    """

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
        """Return the metrics as text. Partitions are counted on a thread; the rest takes less than 1 ms on the loop."""
        if self._controller is not None:
            async with self._counting:
                self._counts = await asyncio.to_thread(self._counter.count, self._controller.image)
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics. Called by the registry, on the node's loop."""
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
            if isinstance(value, str):  # as the exporter does: the text is a label, the value 1
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
        applied = (
            node.raft.log_end_offset if node.is_active else node.applied_offset
        )  # the active controller applies records before the commit
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
            ("LastAppliedRecordTimestamp", "time at which the last applied batch was written", applied_ms),
            ("LastAppliedRecordLagMs", "age of the last applied batch; 0 on the active controller", lag_ms),
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
        requests = CounterMetricFamily(REQUESTS, "requests received", labels=("listener", "request"))
        for listener in listeners:
            for api_key, number in sorted(listener.counters.requests.items()):
                requests.add_metric((listener.listener_name, _api_name(api_key)), number)
        yield requests


def _of_work(controller: ControllerServer, of_raft: Mapping[str, float | str]) -> Iterable[Metric]:
    counts, elections = controller.node.controller.metrics, controller.elections
    gauges = (
        ("EventQueueOperationsStartedCount", "events started", counts.operations_started),
        ("EventQueueOperationsTimedOutCount", "requests that timed out", counts.operations_timed_out),
        ("TimedOutBrokerHeartbeatCount", "heartbeats that timed out", counts.timed_out_heartbeats),
        ("NewActiveControllersCount", "changes of the active controller", counts.new_active_controllers),
        (
            "MetadataErrorCount",
            "failures of metadata listeners, snapshots and controller events",
            controller.metadata_errors,
        ),
        ("IgnoredStaticVoters", "1 if controller.quorum.voters is ignored", of_raft["ignored-static-voters"]),
    )
    for name, text, value in gauges:
        yield GaugeMetricFamily(CONTROLLER + name.lower(), text, value=float(value))
    idle = float(of_raft["poll-idle-ratio-avg"])  # one loop runs both raft and the controller
    yield GaugeMetricFamily(f"{EVENTS}avgidleratio", "share of idle time", value=idle)
    yield _histogram("EventQueueTimeMs", "time of an event in the queue", counts.event_queue_time)
    yield _histogram("EventQueueProcessingTimeMs", "time to process an event", counts.event_queue_processing_time)
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
    """Yield the registration state of each broker, and on the active controller the time since its last heartbeat."""
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
        yield GaugeMetricFamily(LOADER + "currentmetadataversion", "finalized metadata.version", value=float(version))
    yield GaugeMetricFamily(
        LOADER + "currentcontrollerid", "id of the active controller, or -1", value=float(controller.node.leader_id)
    )
    levels = GaugeMetricFamily(LOADER + "finalizedlevel", "finalized level of a feature", labels=("featureName",))
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
        (f"{EMITTER}latestsnapshotgeneratedbytes", "size of the last snapshot", emitter.latest_generated_bytes),
        (
            f"{EMITTER}latestsnapshotgeneratedagems",
            "age of the last snapshot; time since the start if there is none",
            age_ms,
        ),
    ):
        yield GaugeMetricFamily(name, text, value=float(value))


def _camel(name: str) -> str:
    """Return Kafka's label of a feature: eligibleLeaderReplicasVersion for eligible.leader.replicas.version."""
    first, *rest = name.split(".")
    return first + "".join(part.capitalize() for part in rest)


def _api_name(api_key: int) -> str:
    """Return Kafka's name of a request: BrokerHeartbeat for BROKER_HEARTBEAT."""
    try:
        return "".join(part.capitalize() for part in ApiKey(api_key).name.split("_"))
    except ValueError:
        return str(api_key)
