"""Metrics for Prometheus: the quorum as this process sees it, and its own requests.

They name no topic, so they need no login.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from app.cluster.cluster import Cluster
from app.db.outage import OutageWatch
from app.reports.models import FINAL_STATES
from app.reports.upkeep import ReportStatus, ReportUpkeep

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS_BUCKETS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


Watched = Callable[[], Sequence[tuple[str, Cluster, ReportUpkeep]]]
"""Returns the clusters of the process with their keys. The cluster of the settings has the key "" and so no label."""


def _labelled(families: Iterable[tuple[str, Iterable[Metric]]]) -> Iterable[Metric]:
    """Yield each metric once, with the samples of all clusters, labelled with their keys."""
    found: dict[str, Metric] = {}
    for key, metrics in families:
        for metric in metrics:
            kept = found.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
            for sample in metric.samples:
                kept.add_sample(sample.name, {**sample.labels, "cluster": key} if key else sample.labels, sample.value)
    return found.values()


class _ClusterCollector(Collector):
    """Reads the images when Prometheus scrapes, so nothing is counted twice."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def collect(self) -> Iterable[Metric]:
        """Yield the gauges of all clusters."""
        return _labelled((key, self._gauges(cluster)) for key, cluster, _ in self._watched())

    def _gauges(self, cluster: Cluster) -> Iterable[Metric]:
        freshness = cluster.freshness
        image = cluster.image
        quorum = cluster.quorum
        brokers = image.cluster.brokers.values()
        table = cluster.topic_table
        totals = table.totals() if freshness.is_ready else None
        numbers = (
            ("up", "1 while the leader confirms the image", float(quorum.leader_id is not None and freshness.is_ready)),
            ("metadata_offset", "last offset of the metadata log in the image", freshness.offset),
            ("metadata_high_watermark", "high watermark of the metadata log", freshness.high_watermark),
            ("leader_epoch", "epoch of the quorum", quorum.leader_epoch),
            ("leader_id", "node id of the active controller, -1 without", _or_minus_one(quorum.leader_id)),
            ("voters", "voters of the quorum", len(quorum.voters)),
            ("voters_silent", "voters that do not answer", len(quorum.silent)),
            ("has_majority", "1 while a majority of the voters answers", float(quorum.has_majority)),
            ("image_age_seconds", "time since the leader confirmed the image", (freshness.age_ms or 0) / 1000),
            ("brokers", "registered brokers", len(image.cluster.brokers)),
            ("brokers_fenced", "registered brokers that are fenced", sum(broker.fenced for broker in brokers)),
            ("topics", "topics", len(image.topics.by_id)),
            ("partitions", "partitions", totals.partitions if totals else 0),
            ("partitions_offline", "partitions without a leader", totals.offline if totals else 0),
            (
                "partitions_under_min_isr",
                "partitions below their min.insync.replicas",
                totals.under_min if totals else 0,
            ),
            (
                "partitions_under_replicated",
                "partitions with replicas out of sync",
                totals.under_replicated if totals else 0,
            ),
        )
        for name, text, value in numbers:
            yield GaugeMetricFamily(f"conclave_cluster_{name}", text, value=float(value))


def _or_minus_one(node_id: int | None) -> int:
    return -1 if node_id is None else node_id


class _DatabaseCollector(Collector):
    """The outages of the database."""

    def __init__(self, outage: OutageWatch) -> None:
        self._outage = outage

    def collect(self) -> Iterable[Metric]:
        """Yield a gauge and two counters."""
        up = self._outage.trouble is None
        yield GaugeMetricFamily("conclave_database_up", "1 while the database can be read and written", value=float(up))
        yield CounterMetricFamily("conclave_database_outages", "outages of the database", value=self._outage.outages)
        yield CounterMetricFamily(
            "conclave_database_refused", "uses of the database that failed in an outage", value=self._outage.refused
        )


class _ReportCollector(Collector):
    """The last placement reports over all web processes, as this process has read them from the database."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def collect(self) -> Iterable[Metric]:
        """Yield the gauges. Before the first success, its time and duration are absent."""
        return _labelled((key, self._gauges(upkeep.status)) for key, _, upkeep in self._watched())

    @staticmethod
    def _gauges(status: ReportStatus) -> Iterable[Metric]:
        if status.succeeded_at is not None and status.duration_seconds is not None:
            yield GaugeMetricFamily(
                "conclave_report_last_success_timestamp_seconds",
                "end of the last successful placement report",
                value=status.succeeded_at.timestamp(),
            )
            yield GaugeMetricFamily(
                "conclave_report_last_success_duration_seconds",
                "duration of the last successful placement report",
                value=status.duration_seconds,
            )
        yield GaugeMetricFamily(
            "conclave_report_running", "1 while a placement report runs", value=float(status.is_running)
        )
        states = GaugeMetricFamily(
            "conclave_report_last_state", "1 for the state in which the last placement report ended", labels=["state"]
        )
        for state in FINAL_STATES:
            states.add_metric([state], float(state == status.last_state))
        yield states


class Metrics:
    """A registry per application, so that several can run in one process in tests."""

    def __init__(self, watched: Watched, outage: OutageWatch) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_ClusterCollector(watched))
        self.registry.register(_DatabaseCollector(outage))
        self.registry.register(_ReportCollector(watched))
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "conclave_http_requests", "answered requests", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "conclave_http_request_seconds",
            "time to the end of the answer",
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request. Labels are bounded: the template of a route, never a path."""
        known = method if method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.observe(seconds)

    def text(self) -> bytes:
        """Return the metrics in Prometheus's text format."""
        return generate_latest(self.registry)
