"""The test kit's clusters: their nodes as clients see them, their deaths, and what they leave behind."""

import asyncio
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from conclave.testing import Cluster, ClusterError
from kraft_core.protocol.errors import KafkaError

PATIENCE_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(configs={"log.retention.ms": 3_600_000}) as started:
        yield started


def produce(cluster: Cluster, topic: str, values: list[bytes]) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []


def consume(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "kit"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        messages = consumer.consume(count, PATIENCE_S)
    finally:
        consumer.close()
    assert [message.error() for message in messages] == [None] * count
    return [message.value() for message in messages]


def ends(pid: int) -> bool:
    """Whether a process ends soon: it is gone, or nobody has collected it yet."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.02)
    return False


def started_by(script: str, tmp_path: Path) -> tuple[subprocess.Popen[str], Path, list[int]]:
    """Run a script that starts a cluster; return its process, the cluster's folder and the ids of its nodes."""
    prelude = """
        import sys, time
        from conclave.testing import Cluster
        def show(cluster):
            print(cluster.folder, *(node.process.pid for node in cluster._nodes.values()), flush=True)
    """
    text = textwrap.dedent(prelude) + textwrap.dedent(script)
    process = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, env={"TMPDIR": str(tmp_path)}
    )
    assert process.stdout is not None
    folder, *pids = process.stdout.readline().split()
    return process, Path(folder), [int(pid) for pid in pids]


def test_librdkafka_reads_what_it_wrote(cluster: Cluster) -> None:
    cluster.create_topic("plain")
    produce(cluster, "plain", [b"a", b"b"])
    assert consume(cluster, "plain", 2) == [b"a", b"b"]


def test_a_killed_node_restarts_with_its_records(cluster: Cluster) -> None:
    cluster.create_topic("kept")
    produce(cluster, "kept", [b"%d" % number for number in range(100)])
    cluster.kill(1)
    assert not cluster.is_running(1)
    cluster.restart(1)
    assert consume(cluster, "kept", 100) == [b"%d" % number for number in range(100)]


def test_a_paused_node_is_silent_until_it_resumes(cluster: Cluster) -> None:
    cluster.create_topic("silent")
    cluster.pause(1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    producer.produce("silent", b"late")
    assert producer.flush(0.3) == 1
    cluster.resume(1)
    assert producer.flush(PATIENCE_S) == 0


def test_the_controller_s_refusal_of_a_topic_is_raised(cluster: Cluster) -> None:
    cluster.create_topic("twice", partitions=3, configs={"cleanup.policy": "compact", "preallocate": False})
    with pytest.raises(KafkaError, match="twice"):
        cluster.create_topic("twice")
    with pytest.raises(KafkaError, match="replication factor"):
        cluster.create_topic("copied", replication_factor=2)


def test_configs_of_the_caller_reach_the_nodes(cluster: Cluster) -> None:
    assert "log.retention.ms=3600000" in (cluster.folder / "node-1" / "server.properties").read_text()


def test_two_clusters_run_at_once(cluster: Cluster) -> None:
    cluster.create_topic("where")
    with Cluster() as other:
        assert other.cluster_id != cluster.cluster_id
        other.create_topic("where")
        produce(cluster, "where", [b"here"])
        produce(other, "where", [b"there"])
        assert consume(cluster, "where", 1) == [b"here"]
        assert consume(other, "where", 1) == [b"there"]
        folder = other.folder
    assert not folder.exists()


def test_three_brokers_survive_the_loss_of_one_controller(tmp_path: Path) -> None:
    with Cluster(brokers=3, folder=tmp_path) as three:
        assert three.controller_ids == (1, 2, 3)
        assert three.bootstrap_servers.count(",") == 2
        three.kill(2)
        three.create_topic("survives", partitions=1)
    assert (tmp_path / "node-2" / "node.log").exists()


def test_controllers_may_be_nodes_of_their_own() -> None:
    async def story() -> Path:
        async with Cluster(controllers=1) as apart:
            assert apart.broker_ids == (1,)
            assert apart.controller_ids == (101,)
            assert apart.bootstrap_controllers != apart.bootstrap_servers
            await asyncio.to_thread(apart.create_topic, "apart")
            return apart.folder

    assert not asyncio.run(story()).exists()


def test_an_exception_keeps_the_folder_and_names_it() -> None:
    with pytest.raises(ZeroDivisionError) as raised, Cluster() as failing:
        _ = 1 / 0
    assert raised.value.__notes__ == [f"Logs and data of the cluster: {failing.folder}"]
    assert failing.log_file(1).exists()
    assert not failing.is_running(1)
    with pytest.raises(ClusterError, match="starts once"):
        failing.start()
    shutil.rmtree(failing.folder)


def test_a_cancelled_start_leaves_nothing_running() -> None:
    async def story() -> Cluster:
        starting = Cluster()
        task = asyncio.ensure_future(starting.__aenter__())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return starting

    cancelled = asyncio.run(story())
    assert not cancelled.folder.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("is_paused", [True, False])
def test_no_node_outlives_a_killed_process(number: signal.Signals, tmp_path: Path, *, is_paused: bool) -> None:
    script = f"""
        with Cluster(controllers=1) as cluster:
            if {is_paused}:
                cluster.pause(1)
            show(cluster)
            time.sleep(60)
    """
    process, folder, nodes = started_by(script, tmp_path)
    assert len(nodes) == 2
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert [pid for pid in nodes if not ends(pid)] == []
    assert folder.exists()


def test_the_end_of_the_interpreter_ends_the_nodes_and_removes_the_folder(tmp_path: Path) -> None:
    process, folder, nodes = started_by("cluster = Cluster(); cluster.start(); show(cluster)", tmp_path)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert [pid for pid in nodes if not ends(pid)] == []
    assert not folder.exists()


def test_a_forked_child_that_ends_leaves_the_cluster_alone(tmp_path: Path) -> None:
    script = """
        import os
        with Cluster() as cluster:
            if os.fork() == 0:
                sys.exit(0)
            os.wait()
            cluster.create_topic("still-there")
            show(cluster)
    """
    process, folder, _ = started_by(script, tmp_path)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert not folder.exists()


def test_a_node_that_cannot_start_is_an_error_with_its_log(tmp_path: Path) -> None:
    refused = Cluster(configs={"num.partitions": "many"}, folder=tmp_path)
    with pytest.raises(ClusterError, match=r"(?s)Node 1 ended with exit code 1 before it was ready; .*num.partitions"):
        refused.start()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"brokers": 0}, "Invalid number of brokers 0: it must be 1 to 99."),
        ({"controllers": -1}, "Invalid number of controllers -1: it must be 0 to 99."),
        ({"configs": {"node.id": 7}}, "The cluster itself sets node.id: remove it from configs."),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ClusterError, match=f"^{words}$"):
        Cluster(**arguments)  # type: ignore[arg-type]  # among them wrong values


def test_an_unknown_node_is_named(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="no node 7; its nodes are 1"):
        cluster.kill(7)
    with pytest.raises(ClusterError, match="none before the start"):
        Cluster().kill(1)
