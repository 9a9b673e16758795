"""What `conclave produce` reads and `conclave consume` prints, without a cluster."""

import json
import re
import time

import pytest

from app.cli import record_lines
from app.cli.record_lines import InputError, LineSplitter, ProducedRecord, json_parser, text_parser
from app.records.filters import FilterTextError, RecordFilters, filter_of
from app.records.formats import DEFAULT_FORMAT, FormatTextError, Record, format_of, json_line
from app.records.positions import AtOffset, AtTime, BeforeEnd, PositionTextError, parse_from, parse_to
from kraft_core.clients.consumer.consumer_record import ConsumerRecord


def record(key: bytes | None = b"k", value: bytes | None = b"v", *headers: tuple[str, bytes | None]) -> Record:
    return ConsumerRecord("orders", 3, 42, 1_700_000_000_123, 0, key, value, headers, None)


# Formats


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (DEFAULT_FORMAT, b"v\n"),
        (r"%t %p %o %k %s\n", b"orders 3 42 k v\n"),
        (r"%T\t%S|%K|%h|%%\x41\\", b"1700000000123\t1|1|a=1,b=|%A\\"),
        ("%R", b"\0\0\0\x01"),
        ("Größe %S", "Größe 1".encode()),
    ],
)
def test_format_tokens_are_those_of_kcat(text: str, printed: bytes) -> None:
    assert format_of(text)(record(b"k", b"v", ("a", b"1"), ("b", None))) == printed


def test_null_has_length_minus_one_and_prints_what_the_caller_says() -> None:
    assert format_of("%S %K [%s] %R")(record(None, None)) == b"-1 -1 [] \xff\xff\xff\xff"
    assert format_of("%k %s", null=b"NULL")(record(None, None)) == b"NULL NULL"


@pytest.mark.parametrize("text", ["%x", "%", r"\q", "a\\"])
def test_unknown_tokens_are_named(text: str) -> None:
    with pytest.raises(FormatTextError, match=r"unknown (token|escape)"):
        format_of(text)


def test_json_has_base64_only_for_what_is_no_text() -> None:
    shown = json.loads(json_line(record(b"\xff", "ü".encode(), ("trace", b"\x80"), ("empty", None))))
    assert shown == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp_ms": 1_700_000_000_123,
        "timestamp_type": "CreateTime",
        "key_base64": "/w==",
        "value": "ü",
        "headers": [{"name": "trace", "value_base64": "gA=="}, {"name": "empty", "value": None}],
    }


def test_produce_reads_the_json_that_consume_prints() -> None:
    shown = json_line(record(b"\xff\0", None, ("trace", b"\x80"), ("empty", None)))
    assert json_parser(key=None, headers=())(shown, 1) == ProducedRecord(
        b"\xff\0", None, (("trace", b"\x80"), ("empty", None))
    )


# Filters


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("value=lo wo", True),
        ("value=LO", False),
        ("key=7", True),
        ("value~^hello w.rld$", True),
        ("value~(?i)HELLO", True),
        ("value~^world", False),
        ("header:trace=ab", True),
        ("header:trace~^b", True),
        ("header:none=a", False),
        ("header:empty=a", False),
        ("value=a=b", False),
        ("value==hello world", True),
        ("value==hello", False),
        ("header:trace==bcd", True),
        ("key:id=1", False),
    ],
)
def test_filters_find_substrings_and_patterns(text: str, *, passes: bool) -> None:
    hello = record(b"order-7", b"hello world", ("trace", b"abc"), ("trace", b"bcd"), ("empty", None))
    other = record(None, None)
    filters = RecordFilters([filter_of(text)])
    assert [filters.passes(each.key, each.value, each.headers) for each in (hello, other)] == [passes, False]


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("value:customer.name==Ann", True),
        ("value:customer.name=nn", True),
        ("value:lines.1.id==7", True),
        ("value:lines.1.id~^7$", True),
        ("value:lines.2.id==7", False),
        ("value:lines.x==7", False),
        ("value:lines.0000000009999==7", False),
        ("value:paid==true", True),
        ("value:gone==null", False),
        ("value:customer={", True),
        ("key:customer.name==Ann", False),
    ],
)
def test_filters_find_members_of_json(text: str, *, passes: bool) -> None:
    value = b'{"customer": {"name": "Ann"}, "lines": [{"id": 6}, {"id": 7}], "paid": true, "gone": null}'
    filters = RecordFilters([filter_of(text)])
    assert filters.passes(None, value, ()) == passes
    assert not filters.passes(None, b"[" * 100_000, ())
    assert not filters.passes(value[:-1], value[:-1], ())


@pytest.mark.parametrize("text", ["", "value", "value=", "offset=3", "header=a", "header:=a"])
def test_an_invalid_filter_is_named_with_what_is_allowed(text: str) -> None:
    with pytest.raises(FilterTextError, match=f"invalid filter '{re.escape(text)}': allowed are key=TEXT"):
        filter_of(text)


@pytest.mark.parametrize("pattern", ["(", "a**", r"(a)\1", "(?=a)"])
def test_a_pattern_that_re2_refuses_is_named(pattern: str) -> None:
    with pytest.raises(FilterTextError, match=r"[Ii]nvalid"):
        filter_of(f"value~{pattern}")


def test_no_pattern_takes_exponential_time() -> None:
    """With backtracking, 2**64 steps: it would not end."""
    started = time.process_time()
    assert not RecordFilters([filter_of("value~^(a+)+$")]).passes(None, b"a" * 64 + b"!", ())
    assert time.process_time() - started < 60


# Lines


def test_lines_are_cut_wherever_the_chunks_end() -> None:
    splitter = LineSplitter()
    found = [line for chunk in (b"a\nb", b"", b"c\n\nd") for line in splitter.feed(chunk)]
    assert [*found, *splitter.end()] == [b"a", b"bc", b"", b"d"]
    assert splitter.lines == 4
    assert list(splitter.end()) == []


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_lines, "LINE_BYTES_MAX", 10)
    splitter = LineSplitter()
    assert list(splitter.feed(b"1\n234567")) == [b"1"]
    with pytest.raises(InputError, match="line 2 is longer than 10 bytes"):
        list(splitter.feed(b"89012345"))


def test_keys_come_before_the_first_separator() -> None:
    parse = text_parser(key_separator=b"::", key=None, headers=(("h", b"1"),), empty_is_null=False)
    assert parse(b"k::v::w", 1) == ProducedRecord(b"k", b"v::w", (("h", b"1"),))
    assert parse(b"::", 1) == ProducedRecord(b"", b"", (("h", b"1"),))
    with pytest.raises(InputError, match="line 7 has no key separator '::'"):
        parse(b"k:v", 7)


def test_empty_keys_and_values_become_null_on_request() -> None:
    parse = text_parser(key_separator=b":", key=None, headers=(), empty_is_null=True)
    assert parse(b":", 1) == ProducedRecord(None, None)
    assert parse(b"k:", 1) == ProducedRecord(b"k", None)
    assert text_parser(key_separator=None, key=b"k", headers=(), empty_is_null=False)(b"", 1).value == b""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "line 5 is no JSON record"),
        (b'{"valu": "a"}', "valu"),
        (b'{"value_base64": "***"}', "line 5 is no JSON record"),
        (b'{"value": 7}', "Expected `str"),
        (b"[]", "Expected `object`"),
    ],
)
def test_a_line_that_is_no_json_record_is_named(line: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        json_parser(key=None, headers=())(line, 5)


def test_json_may_name_the_partition_and_the_timestamp() -> None:
    parse = json_parser(key=b"all", headers=(("h", b"1"),))
    line = b'{"value": "v", "partition": 2, "timestamp_ms": 5, "headers": [{"name": "i", "value": "2"}]}'
    assert parse(line, 1) == ProducedRecord(b"all", b"v", (("h", b"1"), ("i", b"2")), 2, 5)


# Positions


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("beginning", None),
        ("end", BeforeEnd(0)),
        ("-10", BeforeEnd(10)),
        ("0", AtOffset(0)),
        ("@1700000000000", AtTime(1_700_000_000_000)),
        ("2023-11-14T22:13:20Z", AtTime(1_700_000_000_000)),
        ("2023-11-14T22:13:20", AtTime(1_700_000_000_000)),
        ("2023-11-15T00:13:20+02:00", AtTime(1_700_000_000_000)),
        ("2023-11-14", AtTime(1_699_920_000_000)),
    ],
)
def test_reading_starts_at_offsets_times_and_ends(text: str, position: object) -> None:
    assert parse_from(text) == position


@pytest.mark.parametrize("text", ["", "middle", "1.5", "--3", "@", "2023-13-01", "9" * 30])
def test_an_invalid_position_is_named_with_what_is_allowed(text: str) -> None:
    with pytest.raises(PositionTextError, match=f"invalid position '{re.escape(text)}': allowed are"):
        parse_from(text)


@pytest.mark.parametrize("text", ["end", "-5"])
def test_reading_ends_at_an_offset_or_a_time(text: str) -> None:
    with pytest.raises(PositionTextError, match="allowed are OFFSET and a time"):
        parse_to(text)
    assert parse_to("7") == AtOffset(7)
