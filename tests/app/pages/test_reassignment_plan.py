"""The warnings of the preview of a reassignment plan."""

from app.pages.reassignment_plan import fenced_targets, plan_warnings
from tests.app.reports.clusters import broker, image, partition

SHOWN = image(
    [broker(1, None), broker(2, None), broker(3, None, fenced=True), broker(4, None, fenced=True)],
    {"orders": [partition("1"), partition("1 3", isr="1")]},
)


def test_a_fenced_broker_that_gets_a_replica_is_named_and_one_that_has_it_is_not() -> None:
    assert fenced_targets(SHOWN, {("orders", 0): (1, 3)}) == [3]
    assert fenced_targets(SHOWN, {("orders", 1): (3, 1)}) == []
    assert fenced_targets(SHOWN, {("orders", 0): (4, 3, 2), ("absent", 0): (9,)}) == [3, 4]


def test_the_preview_warns_of_copies_fenced_brokers_and_refused_partitions() -> None:
    one = plan_warnings(SHOWN, {("orders", 0): (1, 3)}, refused=1)
    assert one == [
        "1 replica is copied, within the brokers' throttles.",
        "Broker 3 is fenced: replicas there are copied once it is back.",
        "1 partition refused and left as is. The rest of the plan starts.",
        "A reassignment can be cancelled while it is in progress.",
    ]
    assert "Brokers 3, 4 are fenced: replicas there are copied once they are back." in plan_warnings(
        SHOWN, {("orders", 0): (3, 4)}, refused=0
    )
