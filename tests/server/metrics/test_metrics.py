"""The metrics of a node: format, names, values of a real node, and misbehaving clients."""

import asyncio
import re
import socket
import urllib.error
import urllib.request
from pathlib import Path
from uuid import UUID

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rpds import HashTrieMap

from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration, TopicImage, TopicsImage
from kraft_core.server.metrics.metrics_http import HEAD_BYTES_MAX, READERS_MAX, TIMEOUT_SECONDS, MetricsHttpServer
from kraft_core.server.metrics.partition_counts import PartitionCounter, PartitionCounts
from tests.interop import conclave, kafka


def partition(leader: int, *replicas: int) -> PartitionRegistration:
    return PartitionRegistration(replicas=replicas, leader=leader)


def image(**topics: list[PartitionRegistration]) -> MetadataImage:
    made = {
        UUID(int=index): TopicImage(name, UUID(int=index), HashTrieMap(enumerate(partitions)))
        for index, (name, partitions) in enumerate(topics.items())
    }
    by_name = HashTrieMap({topic.name: topic_id for topic_id, topic in made.items()})
    return MetadataImage(topics=TopicsImage(by_id=HashTrieMap(made), by_name=by_name))


def test_partitions_are_counted_as_kafka_counts_them() -> None:
    counter = PartitionCounter()
    first = image(a=[partition(1, 1, 2), partition(2, 1, 2)], b=[partition(-1, 3)])
    assert counter.count(first) == PartitionCounts(topics=2, partitions=3, offline=1, imbalanced=2)
    assert counter.count(image()) == PartitionCounts()
    assert counter.count(first) == PartitionCounts(topics=2, partitions=3, offline=1, imbalanced=2)


def test_only_changed_topics_are_recounted() -> None:
    counter = PartitionCounter()
    first = image(a=[partition(1, 1)], b=[partition(1, 1)])
    counter.count(first)
    changed = TopicImage("b", UUID(int=1), HashTrieMap({0: partition(-1, 1)}))
    second = MetadataImage(topics=TopicsImage(by_id=first.topics.by_id.insert(UUID(int=1), changed)))
    assert counter.count(second).offline == 1
    assert counter._known[UUID(int=0)][0] is first.topics.by_id[UUID(int=0)]


# a page of its own


async def page() -> bytes:
    return b"up 1\n"


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        async with asyncio.timeout(kafka.PATIENCE_S):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_head", "answer"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", rb"HTTP/1.1 200 OK\r\n.*\r\n\r\nup 1\n"),
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", rb"HTTP/1.1 200 OK\r\n.*\r\n\r\nup 1\n"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", rb"HTTP/1.1 200 OK\r\n.*Content-Length: 5\r\n.*\r\n\r\n"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", rb"HTTP/1.1 405 .*Allow: GET, HEAD\r\n.*\r\n\r\n"),
        (b"GET / HTTP/1.1\r\n\r\n", rb"HTTP/1.1 404 .*\r\n\r\n"),
        (b"GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n", rb"HTTP/1.1 404 .*\r\n\r\n"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", rb"HTTP/1.1 400 .*\r\n\r\n"),
        (b"GET /metrics\r\n\r\n", rb"HTTP/1.1 400 .*\r\n\r\n"),
        (b"GET /" + b"a" * (HEAD_BYTES_MAX * 2), rb""),
    ],
)
def test_only_one_path_is_served(request_head: bytes, answer: bytes) -> None:
    async def run() -> bytes:
        server = MetricsHttpServer("127.0.0.1", 0, page)
        await server.start()
        try:
            return await ask(server.port, request_head)
        finally:
            await server.stop()

    assert re.fullmatch(answer, asyncio.run(run()), re.DOTALL)


def test_silent_clients_are_limited_and_do_not_delay_the_stop() -> None:
    async def run() -> tuple[int, bytes]:
        server = MetricsHttpServer("127.0.0.1", 0, page)
        await server.start()
        silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(READERS_MAX + 4)]
        while len(server._readers) < READERS_MAX:
            await asyncio.sleep(0.01)
        refused = await ask(server.port, b"GET /metrics HTTP/1.1\r\n\r\n")
        served = len(server._readers)
        async with asyncio.timeout(TIMEOUT_SECONDS / 2):
            await server.stop()
        for _, writer in silent:
            writer.close()
        return served, refused

    assert asyncio.run(run()) == (READERS_MAX, b"")


def test_a_failing_metric_does_not_stop_the_server() -> None:
    pages = iter([page(), page()])

    async def sometimes() -> bytes:
        made = await next(pages, None)  # type: ignore[misc]  # awaiting None raises, as intended
        assert isinstance(made, bytes)
        return made

    async def run() -> list[bytes]:
        server = MetricsHttpServer("127.0.0.1", 0, sometimes)
        await server.start()
        try:
            return [(await ask(server.port, b"GET /metrics HTTP/1.1\r\n\r\n"))[:12] for _ in range(3)]
        finally:
            await server.stop()

    assert asyncio.run(run()) == [b"HTTP/1.1 200", b"HTTP/1.1 200", b""]


# real nodes

Page = dict[str, dict[tuple[str, ...], float]]


def documented() -> set[str]:
    """Return the names in docs/operations.md; those of raft are written there without their prefix."""
    text = (Path(__file__).parents[3] / "docs/operations.md").read_text()
    table = text.partition("## Metrics of a node")[2].partition("\n## ")[0]
    words = set(re.findall(r"`(\w+)`", table))
    return words | {f"kafka_server_raftmetrics_{word}" for word in words}


def scrape(port: int) -> Page:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=kafka.PATIENCE_S) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = answer.read().decode()
    return {
        sample.name: {tuple(each.labels.values()): each.value for each in family.samples if each.name == sample.name}
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def register_one_of_two(nodes: conclave.Quorum) -> None:
    """Register brokers 11 and 12; unfence 11."""
    client = conclave.controller_client(nodes.bootstrap)
    try:
        await conclave.RawBroker(11, nodes.cluster_id, client).register()
        await conclave.RawBroker(12, nodes.cluster_id, client).register(until_unfenced=False)
    finally:
        client.close()


def brokers_are_reported(found: Page) -> bool:
    """Check the active controller's metrics of the two brokers; return False for an inactive controller."""
    silent = found.get("kafka_controller_kafkacontroller_timesincelastheartbeatreceivedms", {})
    states = found.get("kafka_controller_kafkacontroller_brokerregistrationstate", {})
    if len(states) < 2 or not found["kafka_controller_kafkacontroller_activecontrollercount"][()]:
        return False
    assert states == {("11",): 30, ("12",): 10}
    assert set(silent) == set(states)
    assert 0 <= silent["11",] <= silent["12",] == 9000, "without any heartbeat it is the session timeout"
    assert found["kafka_server_metadataloader_finalizedlevel"]["transactionVersion",] == 2
    assert found["kafka_server_metadataloader_finalizedlevel"]["metadataVersion",] == 30
    assert found["kafka_server_metadataloader_currentmetadataversion"][()] == 30
    assert found["kafka_controller_kafkacontroller_newactivecontrollerscount"][()] >= 1
    assert found["kafka_controller_kafkacontroller_eventqueueoperationsstartedcount"][()] > 3
    assert found["kafka_controller_kafkacontroller_metadataerrorcount"][()] == 0
    for name in ("eventqueuetimems", "eventqueueprocessingtimems"):
        buckets = found[f"kafka_controller_controllereventmanager_{name}_bucket"]
        assert list(buckets.values()) == sorted(buckets.values())
        assert buckets["+Inf",] == found[f"kafka_controller_controllereventmanager_{name}_count"][()] > 3
    assert found["kafka_controller_controllereventmanager_eventqueueprocessingtimems_sum"][()] > 0
    return True


def snapshots_each(interval_ms: int) -> str:
    return f"metadata.log.max.snapshot.interval.ms={interval_ms}\n"


def leader_of(found: list[Page]) -> int:
    """Return the leader in all nodes' metrics; 0 if they differ or a node has no committed record."""
    known = {int(each["kafka_server_raftmetrics_current_leader"][()]) for each in found}
    committed = min(each["kafka_controller_kafkacontroller_lastcommittedrecordoffset"][()] for each in found)
    assert committed >= -1
    return known.pop() if len(known) == 1 and committed >= 0 else 0


def snapshots_are_reported(found: Page) -> bool:
    """Return whether a snapshot of more than header and footer was generated and none was loaded."""
    size_bytes = found["kafka_server_snapshotemitter_latestsnapshotgeneratedbytes"][()]
    if size_bytes < 300:
        return False
    assert 0 <= found["kafka_server_snapshotemitter_latestsnapshotgeneratedagems"][()] < 1000 * kafka.PATIENCE_S
    assert found["kafka_server_metadataloader_handleloadsnapshotcount"][()] == 0
    return True


def test_the_nodes_of_a_quorum_report_its_state(tmp_path: Path) -> None:
    ports = kafka.free_ports(3)
    with conclave.quorum(tmp_path, 3) as nodes:
        for node_id in nodes.node_ids:
            nodes.format(node_id)
            path = nodes.config_of(node_id)
            path.write_text(path.read_text() + f"\nconclave.metrics.port={ports[node_id - 1]}\n{snapshots_each(2_000)}")
            nodes.start(node_id)

        def all_follow() -> list[Page] | None:
            try:
                found = [scrape(port) for port in ports]
            except OSError:  # not all have started
                return None
            states = [next(iter(each["kafka_server_raftmetrics_current_state"])) for each in found]
            return found if leader_of(found) and sorted(states) == [("follower",), ("follower",), ("leader",)] else None

        pages = kafka.wait_until(all_follow, kafka.PATIENCE_S, "all follow")
        leader = leader_of(pages)
        active = [each["kafka_controller_kafkacontroller_activecontrollercount"][()] for each in pages]
        assert [number for number in range(3) if active[number]] == [leader - 1]
        for each in pages:
            assert each["kafka_server_raftmetrics_number_of_voters"][()] == 3
            assert each["kafka_controller_kafkacontroller_lastappliedrecordlagms"][()] < 1000 * kafka.PATIENCE_S
            assert each["kafka_controller_kafkacontroller_globaltopiccount"][()] == 0
        assert {name for each in pages for name in each if name.startswith("kafka_")} - documented() == set()
        at_leader = pages[leader - 1]
        assert at_leader["kafka_network_requestmetrics_requests_total"]["CONTROLLER", "Fetch"] > 0
        assert at_leader["kafka_server_socket_server_metrics_connection_count"]["CONTROLLER",] >= 2
        assert at_leader["kafka_server_socket_server_metrics_incoming_byte_total"]["CONTROLLER",] > 100
        asyncio.run(register_one_of_two(nodes))
        kafka.wait_until(
            lambda: any(brokers_are_reported(scrape(port)) for port in ports),
            kafka.PATIENCE_S,
            "the brokers are reported",
        )
        for port in ports:
            kafka.wait_until(
                lambda port=port: snapshots_are_reported(scrape(port)), kafka.PATIENCE_S, "snapshots are reported"
            )
        at_follower = next(
            each
            for each in map(scrape, ports)
            if not each["kafka_controller_kafkacontroller_activecontrollercount"][()]
        )
        assert at_follower.get("kafka_controller_kafkacontroller_timesincelastheartbeatreceivedms", {}) == {}
        for port in ports:
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=kafka.PATIENCE_S)


def test_a_failed_snapshot_counts_as_an_error_and_is_retried(tmp_path: Path) -> None:
    """Source: the fault handler of SharedServer's SnapshotGenerator."""
    (port,) = kafka.free_ports(1)
    with conclave.quorum(tmp_path, 1) as nodes:
        nodes.format(1)
        path = nodes.config_of(1)
        path.write_text(path.read_text() + f"\nconclave.metrics.port={port}\n{snapshots_each(5_000)}")
        nodes.start(1)
        nodes.wait_for_leader()
        (folder,) = tmp_path.rglob("__cluster_metadata-0")
        in_the_way = [folder / f"{offset:020}-{1:010}.checkpoint.part" for offset in range(1, 500)]
        for each in in_the_way:
            each.mkdir()

        def has_failed() -> bool:
            return scrape(port)["kafka_controller_kafkacontroller_metadataerrorcount"][()] > 0

        kafka.wait_until(has_failed, kafka.PATIENCE_S, "a snapshot failed")
        assert scrape(port)["kafka_server_snapshotemitter_latestsnapshotgeneratedbytes"][()] == 0
        for each in in_the_way:
            each.rmdir()
        kafka.wait_until(lambda: snapshots_are_reported(scrape(port)), kafka.PATIENCE_S, "a snapshot was made")


def test_a_metrics_port_in_use_stops_the_node_with_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, conclave.quorum(tmp_path, 1) as nodes:
        nodes.format(1)
        path = nodes.config_of(1)
        path.write_text(path.read_text() + f"\nconclave.metrics.port={taken.getsockname()[1]}\n")
        process = nodes.start(1)
        kafka.wait_until(lambda: not process.alive, kafka.PATIENCE_S, "the node gave up")
        assert "Cannot serve metrics on 127.0.0.1:" in process.output
        assert "Traceback" not in process.output
