"""Leaders by epoch, on a live quorum: observed, kept over a restart, and read from behind a snapshot."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.live import LiveWeb, running_web
from tests.interop import conclave, kafka

SETTINGS = {
    "metadata_log_max_record_bytes_between_snapshots": 2_000,
    "controller_quorum_fetch_timeout_ms": 5_000,
}
WATCHED = ("leader_epoch", "leader_id", "start_offset", "timestamp", "end_offset", "last_timestamp")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[conclave.Quorum]:
    """Three voters that snapshot every few kilobytes, and hold no election because of a short delay."""
    folder = tmp_path_factory.mktemp("epochs")
    with conclave.running_quorum(folder, 3, **SETTINGS) as running:
        yield running


def epochs(web: LiveWeb) -> list[dict[str, Any]]:
    return list(web.client.get(f"{web.cluster}/quorum/epochs").json()["data"])


def quorum(web: LiveWeb) -> dict[str, Any]:
    found: dict[str, Any] = web.client.get(f"{web.cluster}/quorum").json()
    return found


def change_leader(nodes: conclave.Quorum, web: LiveWeb) -> int:
    """Kill the leader, wait for another, restart the first, and return the new epoch as the web process lists it."""
    gone = nodes.wait_for_leader(60)
    nodes.processes[gone].kill()
    del nodes.processes[gone]
    now = nodes.wait_for_leader(60, other_than=gone)
    nodes.start(gone)

    def is_listed() -> bool:
        found = epochs(web)
        return bool(found) and found[0]["leader_id"] == now and found[0]["previous_leader_id"] == gone

    kafka.wait_until(is_listed, 60, "the new leader is listed", 0.05)
    return int(epochs(web)[0]["leader_epoch"])


def test_epochs_are_observed_kept_over_a_restart_and_read_behind_a_snapshot(
    nodes: conclave.Quorum, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with running_web(first, nodes.bootstrap) as web:
        web.wait_ready()
        for _ in range(2):
            change_leader(nodes, web)
        watched = epochs(web)
        assert [each["end_reason"] for each in watched[:2]] == ["leads", "connection-closed"]
        assert watched[0]["leaderless_ms"] > 0
        assert watched[1]["end_offset"] == watched[0]["start_offset"]
        number = watched[1]["leader_epoch"]
        assert web.client.get(f"{web.cluster}/quorum/epochs/{number}").json() == watched[1]
        assert web.client.get(f"{web.cluster}/quorum/epochs/{watched[0]['leader_epoch'] + 7}").status_code == 404
        wait_for_snapshot(web)
    with running_web(first, nodes.bootstrap) as web:
        web.wait_ready()
        kafka.wait_until(
            lambda: observed_ends(web) >= 1, 60, "the end of the first epoch is read from the database", 0.05
        )
        again = {each["leader_epoch"]: each for each in epochs(web)}
        for each in watched[1:]:
            kept = again[each["leader_epoch"]]
            assert {**kept, "metadata": None} == {**each, "metadata": None}
    with running_web(second, nodes.bootstrap) as web:  # another process, which has observed none of it
        web.wait_ready()
        assert web.services.cluster.history.snapshots_loaded >= 1
        assert quorum(web)["latest_snapshot"]["size_bytes"] > 0
        kafka.wait_until(lambda: len(epochs(web)) >= 2, 60, "older epochs are read", 0.05)
        read = {each["leader_epoch"]: [each[name] for name in WATCHED] for each in epochs(web)[1:]}
        assert read
        known = {each["leader_epoch"]: [each[name] for name in WATCHED] for each in watched}
        assert read == {number: known[number] for number in read}


def observed_ends(web: LiveWeb) -> int:
    """Return how many epochs have the end that a process observed. The log alone does not have it."""
    return sum(each["end_reason"] == "connection-closed" for each in epochs(web))


def wait_for_snapshot(web: LiveWeb) -> None:
    """Write until the leader has a snapshot from an epoch that has older epochs before it in the log."""
    names = iter(range(1_000))

    def is_made() -> bool:
        topic = {"topic_name": f"filler-{next(names)}", "partitions_count": 20, "replication_factor": 1}
        web.client.post(
            f"{web.cluster}/topics", json=topic
        )  # without a broker it is refused, but a no-op record is written
        return quorum(web)["latest_snapshot"] is not None

    kafka.wait_until(is_made, 120, "a snapshot", 0.2)
