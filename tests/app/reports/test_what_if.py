"""Any set of brokers and racks lost at once: from the file of the placement and from the cube, against brute force."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from app.reports.aggregates import Aggregates, Brokers
from app.reports.columns_engine import complete
from app.reports.export import export_image
from app.reports.live import image_brokers, image_topics, live_report
from app.reports.placement_file import FILE
from app.reports.plain import aggregate, shapes_of
from app.reports.what_if import NoPlacementError, UnknownDomainError, lost_brokers, what_if
from kraft_core.image.metadata_image import MetadataImage
from tests.app.reports.clusters import CLUSTER_ID, broker, image, large_random_image, partition, random_image
from tests.app.reports.oracle import Oracle

FEW_RACKS: list[str | None] = ["a", "b", "c", None]


def completed(shown: MetadataImage, folder: Path) -> tuple[Brokers, Aggregates, Aggregates]:
    """Return the brokers, the aggregates of plain Python, and these with the driver's part by columns."""
    export_image(shown, CLUSTER_ID, folder / "snapshot")
    (folder / "out").mkdir()
    brokers, elr = image_brokers(shown), shown.features.elr_enabled
    plain = aggregate(shapes_of(image_topics(shown, brokers), elr=elr), brokers)
    files = sorted(path.name for path in (folder / "snapshot").glob("partitions-*"))
    rest = Aggregates(states=plain.states)
    return brokers, plain, complete(rest, folder / "snapshot", files, folder / "out", brokers, elr=elr)


def check(shown: MetadataImage, out: Path, body: dict[str, Any], rng: random.Random) -> None:
    oracle = Oracle(shown)
    ids, racks = [row["broker_id"] for row in body["brokers"]], [row["rack"] for row in body["racks"]]
    chosen, named = rng.sample(ids, rng.randint(1, len(ids))), rng.sample(racks, rng.randint(0, len(racks)))
    answer = what_if(out, body, lost_brokers(body, ",".join(map(str, chosen)), ",".join(named)))
    dead = set(chosen).union(*map(oracle.in_rack, named))
    assert set(answer["brokers"]) == dead
    assert {key: answer[key] for key in oracle.loss(dead)} == oracle.loss(dead)
    assert answer["partitions"] == oracle.harmed(dead)[:100]


def test_the_columns_agree_with_plain_python(tmp_path: Path) -> None:
    images = [random_image(seed) for seed in range(60)] + [large_random_image(2, FEW_RACKS)]
    for number, shown in enumerate(images):
        _, plain, columns = completed(shown, tmp_path / str(number))
        assert columns.hottest_without_broker == plain.hottest_without_broker
        assert columns.hottest_without_rack == plain.hottest_without_rack
        assert columns.leaders.maximum == plain.leaders.maximum
        listed = [row for row in plain.topics if row.excess or row.leader_skew or row.rf1 or row.rf_is_min_isr]
        assert columns.topics == listed
        assert columns.broker_examples == {key: rows for key, rows in plain.broker_examples.items() if rows}
        assert columns.rack_examples == {key: rows for key, rows in plain.rack_examples.items() if rows}


def test_any_set_of_brokers_and_racks_is_answered_as_by_brute_force(tmp_path: Path) -> None:
    rng = random.Random(3)
    for seed in range(60):
        shown = large_random_image(4, FEW_RACKS) if seed == 0 else random_image(seed)
        completed(shown, tmp_path / str(seed))
        body = live_report(shown)
        for _ in range(5):
            check(shown, tmp_path / str(seed) / "out", body, rng)


def test_sets_of_racks_are_answered_from_the_cube_when_the_files_are_gone(tmp_path: Path) -> None:
    for seed in (1, 2, 3, 4, 5, 6):
        shown = large_random_image(seed, FEW_RACKS)
        oracle, body = Oracle(shown), json.loads(json.dumps(live_report(shown)))
        for racks in ("a", "b,c", "a,b,c"):
            answer = what_if(tmp_path, body, lost_brokers(body, "", racks))
            loss = oracle.loss(set().union(*(oracle.in_rack(rack) for rack in racks.split(","))))
            assert answer["source"] == "cube"
            assert {**loss, "hottest_leaders": None} == {key: answer[key] for key in loss}


def test_brokers_cannot_be_answered_when_the_files_are_gone(tmp_path: Path) -> None:
    body = live_report(large_random_image(1, FEW_RACKS))
    with pytest.raises(NoPlacementError, match="no longer exist"):
        what_if(tmp_path, body, lost_brokers(body, "1", "a"))


@pytest.mark.parametrize(
    ("brokers", "racks", "message"),
    [
        ("1,7", "", "broker '7' is not in the report"),
        ("one", "", "broker 'one' is not in the report"),
        ("", "z", "rack 'z' is not in the report; it has a, b"),
        ("", " , ", "'brokers' or 'racks' must name what is lost"),
    ],
)
def test_an_unknown_broker_or_rack_is_refused(brokers: str, racks: str, message: str) -> None:
    body = live_report(image([broker(1, "a"), broker(2, "b")], {"t": [partition("1 2")]}))
    with pytest.raises(UnknownDomainError, match=message):
        lost_brokers(body, brokers, racks)


def test_a_rack_with_a_comma_in_its_name_is_found_alone() -> None:
    body = live_report(image([broker(1, "row 1, left"), broker(2, "b")], {}))
    assert lost_brokers(body, "", "row 1, left").brokers == (1,)


def test_replication_factors_above_eight_are_counted(tmp_path: Path) -> None:
    """The codes of more than eight replicas need a second number."""
    ids = " ".join(map(str, range(1, 13)))
    brokers = [broker(number, None) for number in range(1, 13)]
    topics = {"t": [partition(ids), partition(ids, isr="1 12"), partition("1"), partition(ids, isr="12", leader=12)]}
    shown = image(brokers, topics, {"": {"min.insync.replicas": "2"}})
    completed(shown, tmp_path)
    check(shown, tmp_path / "out", live_report(shown), random.Random(1))
    assert (tmp_path / "out" / FILE).exists()
