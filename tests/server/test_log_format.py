"""Each event is one line, whatever its fields contain."""

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest

from kraft_core.server.log_format import EventFormatter, configure_logging


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    for handler in handlers:
        root.removeHandler(handler)
    stream = io.StringIO()
    try:
        configure_logging(stream=stream)
        yield stream
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def test_an_event_is_a_line_with_its_fields(lines: io.StringIO) -> None:
    logging.getLogger("kraft_core.raft").warning("became_leader", extra={"epoch": 3, "address": "127.0.0.1:9093"})
    moment, level, rest = lines.getvalue().split(maxsplit=2)
    assert moment.endswith("Z")
    assert level == "WARNING"
    assert rest == "became_leader epoch=3 address=127.0.0.1:9093 (kraft_core.raft)\n"


def test_debug_is_not_shown_unless_asked_for(lines: io.StringIO) -> None:
    logging.getLogger("kraft_core").debug("noise")
    assert lines.getvalue() == ""


@pytest.mark.parametrize("hostile", ["a\nb", "x\r\n2026-01-01 ERROR forged", "\x1b[31mred", 'quo"te', "", "a b=c", "ü"])
def test_no_value_can_forge_a_line_or_a_field(lines: io.StringIO, hostile: str) -> None:
    logging.getLogger("kraft_core").error("refused", extra={"cause": hostile, "after": 1})
    text = lines.getvalue()
    assert text.count("\n") == 1
    assert "\x1b" not in text
    quoted = text.split("cause=", 1)[1].rsplit(" after=1", 1)[0]
    assert json.loads(quoted) == hostile


def test_a_traceback_follows_its_line() -> None:
    try:
        raise ZeroDivisionError("no")
    except ZeroDivisionError:
        record = logging.makeLogRecord(
            {"msg": "failed", "exc_info": sys.exc_info(), "levelname": "ERROR", "name": "root"}
        )
    text = EventFormatter().format(record)
    assert text.splitlines()[0].endswith("failed (root)")
    assert text.splitlines()[-1] == "ZeroDivisionError: no"
