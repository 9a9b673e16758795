"""The numbers of a report in plain Python: worked by hand, and compared with brute force for random clusters."""

from decimal import Decimal
from itertools import combinations
from math import comb
from typing import Any

import pytest

from app.reports.broker_state import broker_state
from app.reports.live import live_report
from kraft_core.image.metadata_image import MetadataImage
from tests.app.reports.clusters import broker, directory, image, partition, random_image
from tests.app.reports.oracle import Oracle
from tests.app.reports.test_report import three_racks

SEEDS = 1_000
Body = dict[str, Any]


def decimal(numerator: int, denominator: int) -> str:
    return f"{(Decimal(numerator) / denominator).quantize(Decimal('1e-12')):f}"


def check_brokers(body: Body, oracle: Oracle) -> None:
    targets = [oracle.target(each) for _, _, each in oracle.partitions]
    for row in body["brokers"]:
        broker_id = row["broker_id"]
        holding = [each for _, _, each in oracle.partitions if broker_id in each.replicas]
        assert row["replicas"] == sum(broker_id in target for target in targets)
        assert row["preferred"] == sum(target[:1] == [broker_id] for target in targets)
        assert row["leaders"] == sum(each.leader == broker_id for _, _, each in oracle.partitions)
        assert row["offline_replicas"] == sum(not oracle.online(each, broker_id) for each in holding)
        assert row["adding"] == sum(broker_id in each.adding_replicas for each in holding)
        assert row["removing"] == sum(broker_id in each.removing_replicas for each in holding)
        assert row["scatter_width"] == oracle.scatter_width(broker_id)
        assert row["state"] == broker_state(oracle.image.cluster.brokers.get(broker_id))
        loss = oracle.loss({broker_id})
        assert (row["if_lost_refused"], row["if_lost_down"]) == (loss["newly_refused"], loss["newly_down"])


def check_losses(body: Body, oracle: Oracle) -> None:
    assert body["what_if"]["now"] == oracle.verdicts(set())
    assert [row["domain"] for row in body["what_if"]["racks"]] == oracle.racks
    dead = [{row["domain"]} for row in body["what_if"]["brokers"]]
    dead += [oracle.in_rack(rack) for rack in oracle.racks]
    for row, lost in zip([*body["what_if"]["brokers"], *body["what_if"]["racks"]], dead, strict=True):
        assert {key: row[key] for key in row if key not in {"domain", "partitions"}} == oracle.loss(lost)
        assert row["partitions"] == oracle.harmed(lost)[:10]


def check_pairs(body: Body, oracle: Oracle) -> None:
    ids = [row["broker_id"] for row in body["brokers"]]
    losses = {pair: oracle.loss(set(pair)) for pair in combinations(ids, 2)}
    risk = body["risk"]
    edges = oracle.edges()
    assert risk["pairs_sharing"] == len(edges)
    matrix = {"brokers": ids, "shared": [[oracle.shared({one}, {other}) for other in ids] for one in ids]}
    assert risk["pair_matrix"] == matrix
    racks = [oracle.in_rack(rack) for rack in oracle.racks]
    shared = [[oracle.shared(one, other, 1 + (one is other)) for other in racks] for one in racks]
    assert risk["rack_matrix"] == ({"racks": oracle.racks, "shared": shared} if racks else None)
    if not losses:
        return
    assert risk["loss_probability"] == decimal(sum(row["newly_lost"] > 0 for row in losses.values()), len(losses))
    stopped = sum(row["newly_refused"] > 0 for row in losses.values())
    assert risk["write_stop_probability"] == decimal(stopped, len(losses))
    worst = sorted((row["newly_down"], row["newly_refused"], row["newly_lost"]) for row in losses.values())[::-1]
    listed = [(row["down"], row["refused"], row["lost"]) for row in risk["worst_pairs"]]
    assert listed == [effect for effect in worst[:20] if any(effect)]
    for row in risk["worst_pairs"]:
        loss = losses[row["brokers"][0], row["brokers"][1]]
        assert (row["down"], row["refused"]) == (loss["newly_down"], loss["newly_refused"])
        assert (row["shared"] > 0) == (tuple(row["brokers"]) in edges)


def check_leaders(body: Body, oracle: Oracle) -> None:
    leaders = body["leaders"]
    assert leaders["leader_optimum"] == oracle.leader_optimum()
    proof = leaders["leader_certificate"]
    assert proof["bound"] == leaders["leader_optimum"]
    if proof["bound"]:
        assert -(-oracle.only(proof["brokers"]) // len(proof["brokers"])) == proof["bound"]


def check_rest(body: Body, oracle: Oracle) -> None:
    verdicts = [oracle.rack_verdict(each) for _, _, each in oracle.partitions]
    expected = {name: verdicts.count(name) for name in ("ok", "violated", "unknown")} if oracle.racks else None
    assert body["verdict"]["rack_rule"] == expected
    assert body["verdict"]["rack_moves_needed"] == sum(oracle.rack_moves(each) for _, _, each in oracle.partitions)
    reasons = [reason for _, _, reason in oracle.violations()]
    assert body["violations"]["by_reason"] == {reason: reasons.count(reason) for reason in sorted(set(reasons))}
    copysets = {row["replicas"]: row["copysets"] for row in body["risk"]["copysets_by_replicas"]}
    assert copysets == oracle.copysets()
    for row in body["topics"]:
        assert {key: row[key] for key in oracle.topic(row["topic"])} == oracle.topic(row["topic"])
    ranked = ("excess", "leader_skew", "rf1", "rf_is_min_isr")
    named = {topic for topic, _, _ in oracle.partitions}
    assert {row["topic"] for row in body["topics"]} == {
        name for name in named if any(oracle.topic(name)[ranking] for ranking in ranked)
    }


def test_plain_python_agrees_with_brute_force() -> None:
    for seed in range(SEEDS):
        oracle = Oracle(random_image(seed))
        body = live_report(oracle.image)
        check_brokers(body, oracle)
        check_losses(body, oracle)
        check_rest(body, oracle)
        check_leaders(body, oracle)
        if seed % 5 == 0:
            check_pairs(body, oracle)


def test_the_leaders_of_three_racks_can_be_even_without_moving_data() -> None:
    leaders = live_report(three_racks())["leaders"]
    # 1 leads orders-0, -2 and -3; 3 can take -2 and 5 can take -3; logs-0 stays on 6, logs-1 counts for 4
    assert leaders == {
        "leaders_max": 3,
        "leader_optimum": 1,
        "leader_changes": 2,
        "leader_certificate": {"brokers": [1, 2, 3, 4, 5, 6], "bound": 1},
    }


def test_partitions_with_one_replica_prove_the_leader_optimum() -> None:
    """Broker 1 holds five partitions alone, so it leads five, however even the others are."""
    shown = image([broker(each, None) for each in (1, 2, 3)], {"t": [partition("1")] * 5 + [partition("1 2 3")] * 4})
    assert live_report(shown)["leaders"] == {
        "leaders_max": 9,
        "leader_optimum": 5,
        "leader_changes": 4,
        "leader_certificate": {"brokers": [1], "bound": 5},
    }


def test_two_brokers_of_a_full_mesh_stop_writes_and_lose_nothing() -> None:
    """Four brokers, every set of three holds a partition with min ISR 2: any two brokers share one."""
    sets = [" ".join(map(str, each)) for each in combinations((1, 2, 3, 4), 3)]
    brokers = [broker(each, None) for each in (1, 2, 3, 4)]
    risk = live_report(image(brokers, {"t": [partition(each) for each in sets]}, {"": {"min.insync.replicas": "2"}}))[
        "risk"
    ]
    assert (risk["copysets"], risk["pairs_sharing"], risk["pairs_possible"]) == (4, 6, 6)
    assert risk["copysets_by_replicas"] == [{"replicas": 3, "copysets": 4, "loss_probability": decimal(4, comb(4, 3))}]
    assert risk["write_stop_probability"] == "1.000000000000"
    assert risk["loss_probability"] == "0.000000000000"
    assert risk["scatter_width"] == {"min": 3, "median": 3, "max": 3}
    assert risk["worst_pairs"][0] == {"brokers": [1, 2], "shared": 2, "down": 0, "refused": 2, "lost": 0}


def test_a_copyset_layout_stops_writes_for_few_pairs() -> None:
    """Nine brokers in three groups of three: 3 * binom(3, 2) of binom(9, 2) pairs share a partition."""
    brokers = [broker(each, None) for each in range(9)]
    groups = [partition(each) for each in ("0 1 2", "3 4 5", "6 7 8")]
    risk = live_report(image(brokers, {"t": groups * 4}, {"": {"min.insync.replicas": "2"}}))["risk"]
    assert (risk["copysets"], risk["pairs_sharing"], risk["pairs_possible"]) == (3, 9, 36)
    assert risk["write_stop_probability"] == "0.250000000000"


def test_the_ratios_compare_the_fullest_broker_with_its_band_and_with_the_mean() -> None:
    """Broker 1 holds four of six replicas; even would be two each."""
    topics = {"t": [partition("1"), partition("1"), partition("1 2"), partition("1 3")]}
    verdict = live_report(image([broker(each, None) for each in (1, 2, 3)], topics))["verdict"]
    assert verdict["achievable_ratio"] == "2.000000000000"
    assert verdict["max_over_mean"] == "2.000000000000"
    assert verdict["moves_from_balanced"] == 2


def test_an_eligible_leader_replica_leads_when_no_replica_is_in_sync() -> None:
    """KIP-966: broker 2 is not in sync and is eligible, so it leads where ELR is enabled, after the loss of 1."""
    topics = {"t": [partition("1 2", isr="1", elr="2")]}
    brokers = [broker(1, None), broker(2, None)]
    for elr, verdict, moved in ((True, "under_min", 1), (False, "offline", 0)):
        row = live_report(image(brokers, topics, elr=elr))["what_if"]["brokers"][0]
        assert row["verdicts"][verdict] == 1
        assert row["leaders_moved"] == moved
        assert row["partitions"] == [{"topic": "t", "partition": 0, "verdict": verdict}]


def test_an_eligible_leader_replica_that_is_offline_does_not_lead() -> None:
    topics = {"t": [partition("1 2", isr="1", elr="2")]}
    for dead in (broker(2, None, fenced=True), broker(2, None, directories=(directory(2, 5),))):
        row = live_report(image([broker(1, None), dead], topics, elr=True))["what_if"]["brokers"][0]
        assert row["verdicts"]["offline"] == 1


@pytest.mark.parametrize(
    ("racks", "status"),
    [(["a", "b"], "configured"), (["a", None], "partly configured"), ([None, None], "none"), ([], "none")],
)
def test_the_rack_status_says_how_many_brokers_have_racks(racks: list[str | None], status: str) -> None:
    body = live_report(image([broker(number, rack) for number, rack in enumerate(racks)], {}))
    assert body["verdict"]["rack_status"] == status


def test_the_margins_tell_partitions_without_leader_apart() -> None:
    topics = {"t": [partition("1 2", leader=-1), partition("1 2")]}
    margins = live_report(image([broker(1, None), broker(2, None)], topics))["margins"]
    assert margins["histogram"] == [{"margin": 1, "partitions": 2, "leaderless": 1}]


def test_the_worst_rack_is_the_one_whose_loss_harms_most() -> None:
    """Both racks take one partition down; b also loses its data, so it is worse although a comes first."""
    topics = {"t": [partition("1 2", isr="1")], "u": [partition("2")]}
    verdict = live_report(image([broker(1, "a"), broker(2, "b")], topics))["verdict"]
    assert verdict["worst_rack"] == {"rack": "b", "if_lost_down": 1, "if_lost_refused": 1}


def test_equal_racks_are_told_apart_by_name() -> None:
    topics = {"t": [partition("1"), partition("2")]}
    assert live_report(image([broker(1, "a"), broker(2, "b")], topics))["verdict"]["worst_rack"]["rack"] == "a"


def test_replicas_in_flight_are_counted_by_broker() -> None:
    moving = partition("3 1 2", isr="1 2", leader=1, adding="3", removing="1")
    body = live_report(image([broker(each, None) for each in (1, 2, 3)], {"t": [moving]}))
    assert [(row["replicas"], row["adding"], row["removing"]) for row in body["brokers"]] == [
        (0, 0, 1),
        (1, 0, 0),
        (1, 1, 0),
    ]
    assert (body["verdict"]["adding"], body["verdict"]["removing"]) == (1, 1)
    assert body["refused"] == ["1 partition being reassigned: no plan moves such partitions."]


def test_growing_a_replication_factor_breaks_no_rack_rule() -> None:
    """Four replicas over three racks are even as 2, 1, 1, also while the fourth is being added."""
    brokers = [broker(number, rack) for number, rack in enumerate(("a", "a", "b", "c"))]
    verdict = live_report(image(brokers, {"t": [partition("0 1 2 3", isr="0 2 3", adding="1")]}))["verdict"]
    assert verdict["rack_rule"] == {"ok": 1, "violated": 0, "unknown": 0}


def test_a_plan_is_refused_with_the_reason() -> None:
    def refused(shown: MetadataImage) -> list[str]:
        reasons: list[str] = live_report(shown)["refused"]
        return reasons

    assert refused(three_racks()) == []
    assert refused(image([broker(1, None)], {})) == ["There is no partition."]
    cordoned = broker(1, None, cordoned_directories=(directory(1),))
    assert refused(image([cordoned], {"t": [partition("1")]})) == [
        "No broker may take replicas: each is fenced, shutting down, or has no uncordoned log directory."
    ]
    assert refused(image([broker(1, None)], {"t": [partition("1", isr="", leader=-1)]})) == [
        "1 partition without a leader: no plan moves such partitions."
    ]
