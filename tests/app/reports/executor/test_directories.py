"""Plans that name log directories: read, checked, and made to drain one."""

from collections import Counter

import pytest

from app.cluster.log_dirs import LogDirs
from app.reports.executor.copied import with_sizes
from app.reports.executor.drafts import rollback_rows, rows_of_plan
from app.reports.executor.drains import check_drain, drained_rows, propose_again
from app.reports.executor.driver import DrainRefusedError
from app.reports.executor.plan import MOVED, PlanAgain, Row
from app.reports.executor.plan_text import PlanError, PlanText, read_plan
from app.reports.proposals.directories import place_within
from tests.app.reports.clusters import broker, image, partition
from tests.app.reports.executor.disks import log_dirs

KEY = ("orders", 0)
SHOWN = image([broker(each, None) for each in (1, 2, 3)], {"orders": [partition("1 2")] * 6})
DRAINED = ((1, "/a"),)


def answers(room: dict[str, int] | None = None, **more: tuple[str, ...]) -> dict[int, LogDirs]:
    """Broker 1 has orders-0 to -5 of 100 bytes to 600 in /a; /b and /c are empty."""
    held = {"/a": [("orders", index, 100 * (index + 1)) for index in range(6)], "/b": [], "/c": []}
    return {1: log_dirs(held, room=room, **more)}


def text(*paths: str) -> str:
    listed = ", ".join(f'"{each}"' for each in paths)
    return f'{{"partitions": [{{"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": [{listed}]}}]}}'


def test_a_plan_is_read_with_the_directories_that_it_names() -> None:
    assert read_plan(text("/b", "any")) == PlanText({KEY: [1, 2]}, {KEY: ("/b", "any")})
    assert read_plan(text("any", "any")).log_dirs == {}
    assert read_plan(text()).log_dirs == {}


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (("/b",), "In entry 1, log_dirs has 1 entries for 2 replicas."),
        (("b", "any"), "In entry 1, log directory 'b' is neither 'any' nor an absolute path."),
        (("/" * 2000, "any", "any"), "In entry 1, log_dirs has 3 entries for 2 replicas."),
    ],
)
def test_directories_that_cannot_be_meant_are_refused(paths: tuple[str, ...], message: str) -> None:
    with pytest.raises(PlanError) as raised:
        read_plan(text(*paths))
    assert str(raised.value) == message


def problem(found: dict[int, LogDirs], path: str = "/b") -> str:
    with pytest.raises(PlanError) as raised:
        rows_of_plan(SHOWN, PlanText({KEY: (1, 2)}, {KEY: (path, "any")}), found)
    return str(raised.value)


def test_a_directory_that_cannot_take_the_replica_is_refused_with_the_reason() -> None:
    assert problem({}) == "orders-0: Broker 1 has not told its log directories."
    assert problem(answers(), "/x") == "orders-0: Broker 1 has no log directory '/x'; it has /a, /b, /c."
    assert problem(answers(cordoned=("/b",))) == "orders-0: Log directory /b of broker 1 is cordoned."
    assert problem(answers(offline=("/b",))).startswith("orders-0: Log directory /b of broker 1 is offline")
    small = answers({"/a": 900, "/b": 99, "/c": 900})
    assert problem(small) == (
        "orders-0: Log directory /b of broker 1 is too small: 100 bytes are needed, and 99 may be used."
    )
    both = PlanText({KEY: (1, 2), ("orders", 1): (1, 2)}, {KEY: ("/b", "any"), ("orders", 1): ("/b", "any")})
    with pytest.raises(PlanError, match="300 bytes are needed, and 200 may be used"):
        rows_of_plan(SHOWN, both, answers({"/a": 900, "/b": 200, "/c": 900}))


def test_a_rollback_returns_replicas_to_their_directories() -> None:
    (row,) = with_sizes(rows_of_plan(SHOWN, PlanText({KEY: (1, 2)}, {KEY: ("/b", "any")}), answers()), SHOWN, answers())
    assert (row.original_log_dirs, row.copies, row.size_bytes) == (("/a", "any"), (1,), 100)
    moved = Row(**{name: getattr(row, name) for name in row.__slots__} | {"state": MOVED})
    held = {"/a": [], "/b": [(*KEY, 100)]}
    (back,) = rollback_rows(SHOWN, [moved], {1: log_dirs(held)})
    assert (back.proposed, back.log_dirs) == ((1, 2), ("/a", "any"))


def test_a_directorys_replicas_spread_over_the_others_of_the_broker_by_room() -> None:
    rows, numbers = drained_rows(SHOWN, (), DRAINED, answers({"/a": 10, "/b": 2_000, "/c": 1_500}))
    by_path: Counter[str] = Counter()
    for row in rows:
        assert row.proposed == row.original == (1, 2)
        by_path[row.log_dirs[0]] += 100 * (row.partition + 1)
    assert by_path == {"/b": 1_300, "/c": 800}
    assert (numbers["moves"], numbers["directory_moves"], numbers["unsolved"]) == (0, 6, [])


@pytest.mark.parametrize("more", [{"cordoned": ("/a", "/b")}, {"offline": ("/b",)}])
def test_no_replica_goes_to_a_directory_that_is_offline_or_cordoned(more: dict[str, tuple[str, ...]]) -> None:
    rows, _ = drained_rows(SHOWN, (), DRAINED, answers(**more))
    assert {row.log_dirs for row in rows} == {("/c", "any")}


def test_what_fits_into_no_directory_of_the_broker_goes_to_another_broker() -> None:
    rows, numbers = drained_rows(SHOWN, (), DRAINED, answers({"/a": 10, "/b": 550, "/c": 0}))
    placed = {row.partition: (row.proposed, row.log_dirs) for row in rows}
    assert placed[4] == ((1, 2), ("/b", "any"))
    assert {index: each for index, each in placed.items() if index != 4} == dict.fromkeys((0, 1, 2, 3, 5), ((3, 2), ()))
    assert (numbers["moves"], numbers["directory_moves"]) == (5, 1)


def test_partitions_in_flight_are_left_for_the_next_round() -> None:
    moving = partition("1 2 3", isr="1 2", adding="3")
    shown = image([broker(each, None) for each in (1, 2, 3)], {"orders": [moving]})
    rows, numbers = drained_rows(shown, (), DRAINED, answers())
    assert rows == []
    assert [(each["reason"], each["count"]) for each in numbers["unsolved"]] == [("in_flight", 1)]
    assert propose_again(shown, PlanAgain((), DRAINED), answers()) == {}


def test_a_directory_of_a_broker_that_does_not_answer_cannot_be_drained() -> None:
    with pytest.raises(PlanError, match=r"Broker 1 has not told its log directories\."):
        drained_rows(SHOWN, (), DRAINED, {})
    with pytest.raises(DrainRefusedError, match="has no log directory '/x'"):
        propose_again(SHOWN, PlanAgain((), ((1, "/x"),)), answers())
    with pytest.raises(PlanError, match="either brokers or log directories, not both"):
        check_drain(SHOWN, (1,), DRAINED)


def test_directories_of_unknown_room_take_part_evenly() -> None:
    replicas = {("t", index): 10 for index in range(8)}
    assert Counter(place_within(replicas, {"/b": None, "/c": None}).values()) == {"/b": 4, "/c": 4}
    assert place_within(replicas, {}) == {}
