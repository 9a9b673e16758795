"""What the page of reassignments says before a plan begins."""

from app.pages.moves import _to_mind, fenced_targets
from tests.app.reports.clusters import broker, image, partition

SHOWN = image(
    [broker(1, None), broker(2, None), broker(3, None, fenced=True), broker(4, None, fenced=True)],
    {"orders": [partition("1"), partition("1 3", isr="1")]},
)


def test_a_fenced_broker_that_gets_a_replica_is_named_and_one_that_has_it_is_not() -> None:
    assert fenced_targets(SHOWN, {("orders", 0): (1, 3)}) == [3]
    assert fenced_targets(SHOWN, {("orders", 1): (3, 1)}) == []
    assert fenced_targets(SHOWN, {("orders", 0): (4, 3, 2), ("absent", 0): (9,)}) == [3, 4]


def test_what_is_to_be_minded_is_said_before_a_plan_begins() -> None:
    one = _to_mind(SHOWN, {("orders", 0): (1, 3)}, refused=1)
    assert one == [
        "1 replica is copied anew, as fast as the brokers' throttles let them.",
        "Broker 3 is fenced: what moves there is done only once it is back.",
        "1 partition refused: nothing changes there, the rest of the plan begins.",
        "A reassignment can be cancelled as long as it runs.",
    ]
    assert "Brokers 3, 4 are fenced: what moves there is done only once they are back." in _to_mind(
        SHOWN, {("orders", 0): (3, 4)}, refused=0
    )
