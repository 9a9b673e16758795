"""What raft measures. Expected numbers follow from the rules of Kafka's stats; docstrings name Kafka's own tests."""

from math import isnan

import pytest

from kraft_core.protocol.uuids import uuid_to_text
from kraft_core.raft.internals.kafka_raft_metrics import SampledStat, TimeRatio
from kraft_core.raft.voter_set import VoterSet
from tests.raft.internals.test_reconfiguration import add_request
from tests.raft.memory_raft_log import MemoryRaftLog
from tests.raft.one_node import T0, OneNode, batch, fetch_request, fetch_response, key, vote_request

ZERO = "A" * 22


def measured(node: OneNode) -> dict[str, object]:
    return dict(node.client.metrics(node.now))


def state_of(node: OneNode) -> tuple[object, ...]:
    """State, leader, vote, vote's directory and epoch."""
    values = measured(node)
    names = ("current-state", "current-leader", "current-vote", "current-vote-directory-id", "current-epoch")
    return tuple(values[name] for name in names)


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_a_voters_states_have_kafkas_names(kraft_version: int) -> None:
    """shouldRecordVoterQuorumState."""
    node = OneNode(kraft_version=kraft_version)
    assert state_of(node) == ("unattached", -1, -1, ZERO, 0)
    node.become_prospective()
    assert state_of(node) == ("prospective", -1, -1, ZERO, 0)
    node.grant_votes()
    own = uuid_to_text(key(0).directory_id)
    assert state_of(node) == ("candidate", -1, 0, own, 1)
    node.grant_votes()
    assert state_of(node) == ("leader", 0, 0, own, 1)
    node.client.resign(1)
    node.pass_time(0)
    node.client.take_effects(node.now)
    assert state_of(node)[0] == "unattached", "Kafka has no name for resigned"
    node.follow(2, 3)
    assert state_of(node) == ("follower", 2, -1, ZERO, 3)
    node.request(vote_request(1, 4, 3, 100), 2)
    voted = uuid_to_text(key(1).directory_id)
    assert state_of(node) == ("unattached-voted", -1, 1, voted, 4)
    while node.client.state_name != "prospective":
        node.pass_time(100)
    assert state_of(node) == ("prospective-voted", -1, 1, voted, 4)


def test_an_observers_state_is_observer() -> None:
    """shouldRecordNonVoterQuorumState."""
    node = OneNode((1, 2, 3))
    assert state_of(node) == ("unattached", -1, -1, ZERO, 0)
    node.follow(1, 2)
    assert state_of(node) == ("observer", 1, -1, ZERO, 2)
    assert measured(node)["is-observer"] == 1
    assert measured(OneNode())["is-observer"] == 0


def test_log_and_high_watermark_are_those_of_now() -> None:
    """shouldRecordLogEnd."""
    node = OneNode()
    values = measured(node)
    assert (values["log-end-offset"], values["log-end-epoch"], values["high-watermark"]) == (0, 0, -1)
    node.become_leader()
    node.commit_epoch()
    values = measured(node)
    assert (values["log-end-offset"], values["log-end-epoch"], values["high-watermark"]) == (3, 1, 3)


def test_metrics_of_a_leader_are_absent_on_other_nodes() -> None:
    """LeaderState adds number-of-observers and uncommitted-voter-change, and removes them when it ends."""
    node = OneNode()
    assert "number-of-observers" not in measured(node)
    node.become_leader()
    node.commit_epoch()
    assert measured(node)["number-of-observers"] == 0
    assert measured(node)["uncommitted-voter-change"] == 0
    node.request(fetch_request(9, 1, node.log.end_offset, 1, max_wait_ms=0))
    node.request(add_request(9), 1)
    assert measured(node)["number-of-observers"] == 1
    assert measured(node)["uncommitted-voter-change"] == 1
    node.follow(1, 2)
    assert "uncommitted-voter-change" not in measured(node)


@pytest.mark.parametrize(("kraft_version", "static", "ignored"), [(0, True, 0), (1, False, 0), (1, True, 1)])
def test_static_voters_are_ignored_once_the_log_has_voters(kraft_version: int, static: bool, ignored: int) -> None:
    """KRaftControlRecordStateMachineTest: setIgnoredStaticVoters."""
    static_voters = OneNode(kraft_version=0).config.static_voters if static else VoterSet()
    values = measured(OneNode(kraft_version=kraft_version, static_voters=static_voters))
    assert values["ignored-static-voters"] == ignored
    assert values["number-of-voters"] == 3
    assert values["number-unknown-voter-connections"] == 0


def test_commit_latency_is_that_of_a_batch_per_record() -> None:
    """shouldRecordLatency; KafkaRaftClient.appendBatch divides by the batch's records."""
    node = OneNode()
    assert isnan(measured(node)["commit-latency-avg"])  # type: ignore[arg-type]  # a float
    node.become_leader()
    node.pass_time(10)
    node.commit_epoch()
    assert measured(node)["commit-latency-max"] == 10 / 3
    node.append([b"a", b"b"])
    node.pass_time(40)
    node.commit_epoch()
    assert measured(node)["commit-latency-max"] == 40 / 2
    assert measured(node)["commit-latency-avg"] == pytest.approx((10 / 3 + 20) / 2)


def test_election_latency_is_from_the_last_candidacy_to_a_leader() -> None:
    """shouldRecordLatency, KafkaRaftClientTest.testElectionLatency: pre-vote's time does not count once it is won."""
    node = OneNode()
    node.become_prospective()
    node.pass_time(20)
    node.grant_votes()
    node.pass_time(30)
    assert isnan(measured(node)["election-latency-avg"])  # type: ignore[arg-type]  # a float
    node.grant_votes()
    assert measured(node)["election-latency-avg"] == 30
    assert measured(node)["election-latency-max"] == 30


def test_a_single_voter_has_no_election_latency() -> None:
    node = OneNode((0,))
    while not node.client.is_leader:
        node.pass_time(10)
    assert isnan(measured(node)["election-latency-avg"])  # type: ignore[arg-type]  # a float


def test_records_appended_and_fetched_are_counted_on_their_sides() -> None:
    """shouldRecordRate."""
    node = OneNode()
    node.become_leader()
    before = measured(node)["append-records-rate"]
    assert before == pytest.approx(3 / 30), "the epoch's first batch, over one window at least"
    node.append([b"x"] * 27)
    assert measured(node)["append-records-rate"] == pytest.approx(1)
    assert measured(node)["fetch-records-rate"] == 0
    follower = OneNode()
    follower.follow(1, 3)
    follower.answer(follower.fetch_out(), fetch_response(1, 3, batch(0, 3, *[b"x"] * 60)))
    assert measured(follower)["fetch-records-rate"] == pytest.approx(2)
    assert measured(follower)["append-records-rate"] == 0


def test_records_from_the_start_or_a_snapshot_are_not_counted() -> None:
    log = MemoryRaftLog()
    log.append(batch(0, 1, *[b"x"] * 50))
    log.flush()
    node = OneNode(log=log)
    node.follow(1, 3)
    assert measured(node)["fetch-records-rate"] == 0


def test_the_idle_ratio_covers_the_time_since_the_last_measurement() -> None:
    """shouldRecordPollIdleRatio, with its numbers."""
    node = OneNode((1, 2, 3))
    ratio = "poll-idle-ratio-avg"
    assert measured(node)[ratio] == 1.0
    now = T0
    node.client.record_idle(now, 0)
    for idle_ms, busy_ms in ((100, 100), (200, 0)):
        now += idle_ms
        node.client.record_idle(now, idle_ms)
        now += busy_ms
    assert measured(node)[ratio] == 0.75
    now += 100
    for idle_ms in (75, 25, 0):
        now += idle_ms
        node.client.record_idle(now, idle_ms)
    assert measured(node)[ratio] == 0.5
    node.client.record_idle(now + 40, 0)
    assert measured(node)[ratio] == 0.0


# --- the stats --------------------------------------------------------------------------------------------------------


def test_values_expire_window_by_window() -> None:
    """SampledStatTest: three samples of 30 s at most, and none whose last event is 60 s old."""
    stat = SampledStat()
    stat.record(10, 0)
    stat.record(20, 29_999)
    stat.record(60, 30_000)
    assert (stat.average(30_000), stat.maximum(30_000)) == (30, 60)
    assert stat.average(89_998) == 30
    assert stat.average(89_999) == 60, "the first window's last event was 60 s ago"
    assert isnan(stat.maximum(90_000))
    stat.record(5, 100_000)
    assert (stat.average(100_000), stat.maximum(100_000)) == (5, 5)


def test_the_fourth_window_replaces_the_oldest_of_three() -> None:
    stat = SampledStat()
    for number, at_ms in enumerate((0, 30_000, 60_000, 90_000), start=1):
        stat.record(number, at_ms)
        stat.record(number, at_ms + 29_999)
    assert stat.average(119_999 - 30_001) == pytest.approx(3), "windows 2, 3 and 4"


def test_a_rate_is_over_a_whole_window_at_least() -> None:
    """RateTest: testRateWithNoPriorAvailableSamples, testRateIsConsistentAfterTheFirstWindow."""
    stat = SampledStat()
    assert stat.rate(0) == 0.0
    stat.record(60, 0)
    assert stat.rate(0) == pytest.approx(60 / 30)
    assert stat.rate(10_000) == pytest.approx(60 / 40)
    stat.record(60, 30_000)
    assert stat.rate(40_000) == pytest.approx(120 / 40)
    assert stat.rate(200_000) == 0.0


def test_negative_numbers_have_a_maximum_too() -> None:
    stat = SampledStat()
    stat.record(-3, 0)
    assert stat.maximum(0) == -3


def test_a_time_ratio_is_never_above_one() -> None:
    """TimeRatioTest.testRatioIsOneWhenRecordedMoreThanElapsed."""
    ratio = TimeRatio()
    ratio.record(0, 0)
    ratio.record(500, 100)
    assert ratio.measure() == 1.0
    assert ratio.measure() == 1.0, "no time has passed: the default"
