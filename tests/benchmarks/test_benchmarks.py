"""The benchmark programs with tiny counts against a real node of ours, and the contents of tables and files."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.broker_failure import broker_failure
from benchmarks.clients import CLIENTS, clients
from benchmarks.figures import Condition, Figure, table, write_json
from benchmarks.load import percentile, read_answer
from benchmarks.other_requests import config_changes, heartbeats, log_read
from benchmarks.plan import Plan
from benchmarks.raft import committed_per_second
from benchmarks.raft_load import Throttle, WriteStats
from benchmarks.report_image import synthetic_image
from benchmarks.sides import APACHE, APACHE_NO_LINGER, OURS, PLAIN, WITH_LINGER
from benchmarks.start_up import restart
from benchmarks.topic_creation import latency
from benchmarks.topic_deletion import deletion

TINY = Plan(rounds=1, scale=10_000, has_apache=False)


@pytest.mark.parametrize("measure", [latency, deletion, config_changes, heartbeats, log_read, restart])
def test_a_benchmark_measures_a_real_node_of_ours(measure: Callable[[Plan], list[Figure]]) -> None:
    figures = measure(TINY)
    assert figures
    assert all(len(figure.values[OURS.name]) == 1 and figure.values[OURS.name][0] > 0 for figure in figures)


def test_the_broker_failure_benchmark_fences_returns_and_shuts_down_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """One node suffices: it cannot lose its leadership while the machine is slow."""
    monkeypatch.setattr("benchmarks.broker_failure.NODES", 1)
    figures = broker_failure(TINY)
    assert [len(figure.values[OURS.name]) for figure in figures] == [1, 2, 3, 1]
    assert all(value > 0 for figure in figures for value in figure.values[OURS.name])


def test_the_clients_benchmark_runs_every_job_of_our_clients() -> None:
    figures = clients(TINY)
    assert len(figures) == 15
    assert all(len(figure.values[OURS.name]) == 1 for figure in figures)


def test_figures_of_other_sides_are_in_a_table_of_their_own() -> None:
    nodes, others = Figure("create topic", "ms"), Figure("produce", "records/s", more_is_better=True, sides=CLIENTS)
    nodes.add(OURS, 1.0)
    others.add(OURS, 30.0)
    others.add(CLIENTS[1], 20.0)
    first, second = table([nodes, others]).split("\n\n")
    assert "apache" in first
    assert [cell.strip() for cell in second.splitlines()[2].strip("|").split("|")] == [
        "produce", "records/s", "30.0", "20.0", "-", "-", "1.50x", "-", "-",
    ]  # fmt: skip


@pytest.mark.parametrize("part", [b"", b"\x00\x00", b"\x00\x00\x00\x05abc"])
def test_a_connection_that_ends_before_its_answer_is_an_error(part: bytes) -> None:
    here, there = socket.socketpair()
    with here:
        with there:
            there.sendall(part)
        with pytest.raises(ConnectionError, match="the connection ended"):
            read_answer(here)


def test_the_sides_take_turns() -> None:
    turns = [(number, side.name) for number, side in Plan(rounds=2).turns(PLAIN)]
    assert turns == [(0, "ours"), (0, "apache"), (1, "ours"), (1, "apache")]
    assert [side for _, side in Plan(rounds=1, has_apache=False).turns(WITH_LINGER)] == [OURS]


def test_a_ratio_above_one_means_that_ours_is_better() -> None:
    latency_ms = Figure("latency", "ms", 1.0)
    latency_ms.add(OURS, 2.0)
    latency_ms.add(APACHE, 30.0)
    rate = Figure("rate", "per s", 100.0, more_is_better=True)
    rate.add(OURS, 300.0)
    rate.add(APACHE, 100.0)
    rate.add(APACHE_NO_LINGER, 600.0)
    assert (latency_ms.ratio(APACHE), latency_ms.meets_budget) == (15.0, False)
    assert (rate.ratio(APACHE), rate.ratio(APACHE_NO_LINGER), rate.meets_budget) == (3.0, 0.5, True)
    assert latency_ms.ratio(APACHE_NO_LINGER) is None


def test_the_table_shows_medians_ratios_and_budgets() -> None:
    figure = Figure("create topic", "ms", 1.0)
    figure.add(OURS, 0.5, 0.4, 0.9)
    figure.add(APACHE, 25.0)
    cells = [cell.strip() for cell in table([figure]).splitlines()[2].strip("|").split("|")]
    assert cells == ["create topic", "ms", "0.50", "25.0", "-", "50.0x", "<= 1.00", "yes"]


def test_the_file_has_all_results(tmp_path: Path) -> None:
    figure = Figure("create topic", "ms", 1.0)
    figure.add(OURS, 3.0, 2.0)
    write_json(tmp_path / "figures.json", [figure], [Condition("latency", 0.5, 1.5, 3.0)], ["-Xmx1g"])
    written = json.loads((tmp_path / "figures.json").read_text())
    assert written["figures"][0]["values"] == {"ours": [3.0, 2.0]}
    assert written["figures"][0]["medians"] == {"ours": 2.5}
    assert written["conditions"] == [{"name": "latency", "load_before": 0.5, "load_after": 1.5, "seconds": 3.0}]
    assert written["machine"]["jvm_options"] == ["-Xmx1g"]
    assert written["figures"][0]["meets_budget"] is False


def test_percentiles_are_values_of_the_list() -> None:
    assert [percentile([4.0, 1.0, 3.0, 2.0], share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 3.0, 4.0, 4.0]


def test_the_synthetic_image_is_equal_in_every_run() -> None:
    image = synthetic_image(5, 4, 12)
    assert image.topics == synthetic_image(5, 4, 12).topics
    assert sum(len(topic.partitions) for topic in image.topics.by_id.values()) == 20
    assert len({broker.rack for broker in image.cluster.brokers.values()}) == 6


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["latency", "nonsense"])
    assert ended.value.code == 2
    assert "nonsense" in capsys.readouterr().err
    assert "latency" in BENCHMARKS


def test_a_raft_quorum_of_ours_commits_the_offered_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer timeouts keep its leader while the machine is slow."""
    monkeypatch.setattr("benchmarks.sides.Side.settings", {"controller.quorum.fetch.timeout.ms": 20_000})
    found = committed_per_second(OURS, 3, 500, TINY)
    assert found is not None
    assert found > 0  # the figure itself is a matter of what else the machine does


def test_records_are_due_at_the_times_of_apaches_test_server() -> None:
    throttle = Throttle(5_000)
    throttle.restart(10.0)
    # record n is due round(n / 5) ms after the start, so the second ms lets records 3 to 7 go
    assert [throttle.due(10.0 + ms / 1000 + 0.0001) for ms in (0, 1, 2, 100)] == [2, 7, 12, 502]
    throttle.sent = 7
    assert throttle.due(10.0011) == 0
    assert throttle.wait_s(10.0011) == pytest.approx(0.0009)


def test_the_latency_line_covers_at_most_two_windows() -> None:
    lines: list[str] = []
    stats = WriteStats(lines.append)
    stats.restart(0.0)
    stats.record([9_000] * 100, 25_600, 1.0)  # 90 ms
    for second in range(31, 66):
        stats.record([100] * 99 + [250], 25_600, float(second))
    assert lines[0].endswith("Latency (ms): 90.00 p75 90.00 p99 90.00 p999")
    assert lines[-1].endswith("Latency (ms): 1.00 p75 2.50 p99 2.50 p999")
