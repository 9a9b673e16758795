"""A repeated line is logged a few times at once, then once a minute with a count; no other line is lost."""

import io
import logging
from collections.abc import Iterator

import pytest

from kraft_core.server.log_format import configure_logging
from kraft_core.server.repeat_filter import FIRST_LINES, LINES_KEPT, RepeatFilter


def record(at: float, event: str = "peer_not_reachable", **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("kraft_core.test", logging.INFO, "", 0, event, (), None)
    made.created = at
    vars(made).update(fields)
    return made


def test_a_failure_repeated_for_an_hour_is_one_line_a_minute_with_a_count() -> None:
    keeps, written, counted = RepeatFilter(), 0, 0
    for tick in range(18_000):  # every 200 ms
        line = record(tick / 5, node_id=2)
        if keeps.filter(line):
            written += 1
            counted += 1 + getattr(line, "suppressed", 0)
    assert FIRST_LINES + 58 <= written <= FIRST_LINES + 60
    assert 18_000 - counted <= 300, "those suppressed in the last minute are not counted yet"


def test_lines_with_different_fields_are_different_lines() -> None:
    keeps = RepeatFilter()
    assert all(keeps.filter(record(0.0, "topic_created", topic=f"t{number}")) for number in range(100))
    assert [keeps.filter(record(0.1, "topic_created", topic="t0")) for _ in range(4)] == [True, True, False, False]


def test_a_line_counts_as_new_after_a_minute_without_it() -> None:
    keeps = RepeatFilter()
    assert [keeps.filter(record(at)) for at in (0.0, 0.1, 0.2, 0.3, 61.0, 61.1)] == [
        True,
        True,
        True,
        False,
        True,
        True,
    ]


def test_a_clock_set_back_suppresses_no_line() -> None:
    keeps = RepeatFilter()
    assert [keeps.filter(record(at)) for at in (1000.0, 1000.1, 1000.2, 1000.3, 5.0)] == [True] * 3 + [False, True]


def test_the_number_of_remembered_lines_is_bounded() -> None:
    keeps = RepeatFilter()
    for number in range(5 * LINES_KEPT):
        keeps.filter(record(0.0, number=number))
    assert len(keeps._lines) == LINES_KEPT


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    found = io.StringIO()
    configure_logging(stream=found)
    yield found
    root.handlers[:] = handlers
    root.setLevel(level)


def test_the_log_of_a_node_is_filtered(stream: io.StringIO) -> None:
    log = logging.getLogger("kraft_core.test")
    for _ in range(50):
        log.info("peer_not_reachable", extra={"node_id": 2})
    assert stream.getvalue().count("peer_not_reachable node_id=2") == FIRST_LINES
