"""Work that waits for a number or a deadline. Names in docstrings are Kafka's own tests."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from kraft_core.protocol.deadlines import NEVER_MS
from kraft_core.raft.internals.threshold_purgatory import ThresholdPurgatory


def waiting(*thresholds: int, deadlines: Iterable[int] = ()) -> ThresholdPurgatory[str]:
    purgatory: ThresholdPurgatory[str] = ThresholdPurgatory()
    given_deadlines = list(deadlines)
    for index, threshold in enumerate(thresholds):
        deadline_ms = given_deadlines[index] if given_deadlines else NEVER_MS
        purgatory.wait(threshold, f"{threshold}@{index}", deadline_ms)
    return purgatory


def test_values_with_a_reached_threshold_leave_and_the_others_stay() -> None:
    """testThresholdCompletion."""
    purgatory = waiting(3, 1, 2)
    assert purgatory.complete(0) == []
    assert purgatory.complete(1) == ["1@1"]
    assert len(purgatory) == 2
    assert purgatory.complete(3) == ["2@2", "3@0"]
    assert len(purgatory) == 0


def test_equal_thresholds_leave_together_in_the_order_they_came() -> None:
    """testCompletionAfterTimeout's sibling: entries of one threshold do not displace one another."""
    assert waiting(1, 1, 1).complete(1) == ["1@0", "1@1", "1@2"]


def test_all_values_can_be_removed_to_complete_or_fail_them() -> None:
    """testCompleteAll, testCompleteAllExceptionally."""
    purgatory = waiting(2, 1, deadlines=[10, 20])
    assert purgatory.complete_all() == ["1@1", "2@0"]
    assert purgatory.complete_all() == []
    assert purgatory.expire(1_000) == []
    assert purgatory.next_deadline_ms() == NEVER_MS


def test_a_value_leaves_at_its_deadline() -> None:
    """testExpiration."""
    purgatory = waiting(5, 4, 6, deadlines=[30, 10, NEVER_MS])
    assert purgatory.next_deadline_ms() == 10
    assert purgatory.expire(9) == []
    assert purgatory.expire(10) == ["4@1"]
    assert purgatory.next_deadline_ms() == 30
    assert purgatory.expire(10_000) == ["5@0"]
    assert purgatory.complete(6) == ["6@2"]


def test_completed_values_do_not_expire() -> None:
    """testCompletionAfterTimeout."""
    purgatory = waiting(1, 2, deadlines=[10, 20])
    purgatory.complete(1)
    assert purgatory.next_deadline_ms() == 20
    assert purgatory.expire(15) == []


def test_a_ticket_removes_its_value_once() -> None:
    purgatory: ThresholdPurgatory[str] = ThresholdPurgatory()
    first, second = purgatory.wait(1, "first", 10), purgatory.wait(1, "second", 20)
    assert purgatory.cancel(first) == "first"
    assert purgatory.cancel(first) is None
    assert purgatory.complete(1) == ["second"]
    assert purgatory.cancel(second) is None


@given(st.lists(st.tuples(st.sampled_from("wcxe"), st.integers(0, 9), st.integers(0, 9)), max_size=60))
def test_it_behaves_like_a_list_that_is_searched(operations: list[tuple[str, int, int]]) -> None:
    purgatory: ThresholdPurgatory[int] = ThresholdPurgatory()
    model: list[tuple[int, int, int]] = []  # threshold, ticket, deadline
    for operation, number, deadline_ms in operations:
        if operation == "w":
            ticket = purgatory.wait(number, len(model), deadline_ms)
            purgatory._values[ticket] = (number, ticket)
            model.append((number, ticket, deadline_ms))
        elif operation == "c":
            assert purgatory.complete(number) == [each[1] for each in sorted(model) if each[0] <= number]
            model = [each for each in model if each[0] > number]
        elif operation == "x":
            assert purgatory.cancel(number) == (number if any(each[1] == number for each in model) else None)
            model = [each for each in model if each[1] != number]
        else:
            over = [(each[2], each[1]) for each in model if each[2] <= deadline_ms]
            assert purgatory.expire(deadline_ms) == [ticket for _, ticket in sorted(over)]
            model = [each for each in model if each[2] > deadline_ms]
        assert len(purgatory) == len(model)
        assert purgatory.next_deadline_ms() == min((each[2] for each in model), default=NEVER_MS)
