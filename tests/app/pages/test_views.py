"""Parts of pages that need no browser: charts, numbers, forms, the verdict of a report, and the templates."""

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.cluster.epochs import Epoch, Leadership
from app.cluster.history import Change
from app.cluster.topic_table import TopicTable
from app.http.locations import safe_next
from app.http.templating import folder
from app.pages import charts
from app.pages.change_lines import said
from app.pages.confirm import curl_line
from app.pages.epochs import epoch_row, lately
from app.pages.frame import age, amount, counted, doc, duration, environment, number, size, whole_number
from app.pages.report_strip import strip
from app.pages.topics import TopicForm, create_body, read_form, topics_view
from app.reports.violations import COLUMNS, safe_cell, violations_csv
from app.texts import shown, speaking
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol import metadata_records as r
from tests.app.reports.clusters import broker, image, partition
from tests.app.reports.test_report import three_racks
from tests.image import records
from tests.image.records import topic_id


@pytest.mark.parametrize(
    "svg",
    [
        charts.margins_chart([{"margin": -1, "partitions": 0}]),
        charts.trend_chart([{"id": 1, "moves_from_balanced": 0, "under_replicated": 3}] * 2),
    ],
)
def test_a_chart_is_svg_without_script_or_style(svg: str) -> None:
    """The content policy forbids both; the stylesheet of the page colours charts by class."""
    root = ET.fromstring(str(svg))
    names = {str(element.tag).rsplit("}", 1)[-1] for element in root.iter()}
    assert not names & {"script", "style", "foreignObject", "image"}
    assert not [element for element in root.iter() if "style" in element.attrib or "onclick" in element.attrib]
    assert root.get("aria-label")


def rule_of(css_class: str) -> str:
    """Return the declarations of the stylesheet for fills of this class."""
    (found,) = re.findall(rf"\.chart \.{css_class} {{ (fill: [^}}]*)}}", (folder("static") / "app.css").read_text())
    return str(found)


def test_lost_and_offline_partitions_are_shaded_red_and_those_that_reject_writes_amber() -> None:
    sheet = (folder("static") / "app.css").read_text()
    (red,) = re.findall(r":is\(\.heat-lost, \.heat-offline, \.heat-unclean\) {([^}]*)}", sheet)
    (amber,) = re.findall(r":is\(\.heat-under_min, \.heat-at_min\) {([^}]*)}", sheet)
    assert "var(--bad-bg)" in red
    assert "var(--warn-bg)" in amber


def test_every_tone_of_a_chart_has_a_colour() -> None:
    for tone in get_args(charts.Tone):
        assert rule_of(f"tone-{tone}").startswith("fill: ")


def test_the_marks_of_a_chart_are_whole_numbers() -> None:
    assert charts._ticks(0) == [0, 1]
    assert charts._ticks(3) == [0, 1, 2, 3]
    assert charts._ticks(7) == [0, 2, 4, 6, 8]
    assert charts._ticks(1_000_000) == list(range(0, 1_000_001, 200_000))


def test_numbers_and_ages_are_formatted() -> None:
    assert [number(value) for value in (None, -1, 0, 1234567)] == [
        "\N{EN DASH}",
        "\N{EN DASH}",
        "0",
        "1\u202f234\u202f567",
    ]
    assert [age(value) for value in (0, 9_949, 30_000, 600_000, 9_000_000)] == [
        "0.0 s ago",
        "9.9 s ago",
        "30 s ago",
        "10 min ago",
        "2 h ago",
    ]


def test_quantities_and_counts_are_formatted() -> None:
    assert amount(1048576.0) == "1\u202f048\u202f576"
    assert amount(0.5) == "0.5"
    assert [counted(count, "replica") for count in (0, 1, 2000)] == ["0 replicas", "1 replica", "2\u202f000 replicas"]


def test_durations_and_sizes_have_two_units_at_most() -> None:
    assert [duration(value) for value in (0, 999, 1_500, 59_999, 60_000, 3_725_000, 90_000_000)] == [
        "0 ms",
        "999 ms",
        "1.5 s",
        "60.0 s",
        "1 min",
        "1 h 2 min",
        "1 d 1 h",
    ]
    assert [size(value) for value in (0, 1023, 1024, 5 * 2**20, 3 * 2**30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 MiB",
        "3.0 GiB",
    ]


def test_documentation_is_escaped_around_its_code() -> None:
    assert doc("say `<b>` & go") == "say <code>&lt;b&gt;</code> &amp; go"


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), (" 7 ", 7), ("0", None), ("-1", None), ("1e3", None), ("٣", None), ("9" * 11, None), ("", None)],
)
def test_a_whole_number_has_digits_only_and_lies_in_its_range(text: str, value: int | None) -> None:
    assert whole_number(text, 1, 10**9) == value


@pytest.mark.parametrize(
    "address",
    ["http://evil.test/", "//evil.test", "/\\evil.test", "javascript:alert(1)", "", "topics", "/a\r\nSet-Cookie: x"],
)
def test_a_login_never_redirects_to_another_site(address: str) -> None:
    assert safe_next(address) == "/"


def test_a_login_returns_to_the_requested_page() -> None:
    assert safe_next("/topics?q=a&page=2") == "/topics?q=a&page=2"


def test_a_form_has_an_error_for_each_field_that_cannot_be_read() -> None:
    wish, errors = read_form(TopicForm(" t ", "0", "x", "a=1\n\nb\na=2"))
    assert wish.name == "t"
    assert errors == {
        "partitions": "'0' is not a whole number from 1 to 2147483647.",
        "replication_factor": "'x' is not a whole number from 1 to 32767.",
        "configs": "'a' is listed twice.",
    }


def test_the_curl_line_survives_a_quote_in_a_value() -> None:
    wish, errors = read_form(TopicForm("t", "", "", "a=it's"))
    assert not errors
    assert "it'\\''s" in curl_line("http://h", "POST", "topics", create_body(wish))


def test_the_address_of_a_list_has_only_the_given_parameters() -> None:
    table = TopicTable()
    shown = image([broker(1, None)], {f"t{number}": [partition("1")] for number in range(60)})
    assert topics_view(shown, table, {}).query == "page=1"
    view = topics_view(shown, table, {"q": "t", "sort": "trouble", "desc": "1", "page": "2", "problem": "nonsense"})
    assert view.query == "q=t&sort=trouble&desc=1&page=2"
    assert view.sort_query("trouble") == "q=t&sort=trouble"
    assert view.sort_query("name") == "q=t&sort=name"


def test_the_verdict_has_the_change_of_each_number() -> None:
    verdict = {
        "offline": 1,
        "under_min": 2,
        "cli_under_min": 3,
        "at_min": 0,
        "under_replicated": 4,
        "rack_rule": {"ok": 1, "violated": 0, "unknown": 0},
        "moves_from_balanced": 1000,
        "replicas": 4000,
        "non_preferred": 0,
        "fixable_by_election": 0,
        "worst_rack": None,
    }
    items = {item.label: item for item in strip(verdict, {**verdict, "offline": 0, "moves_from_balanced": 3000})}
    assert (items["Offline"].tone, items["Offline"].delta) == ("bad", "+1")
    assert (items["Moves to balance"].delta, items["Moves to balance"].why) == (
        "-2\u202f000",
        "25.0 % of 4\u202f000 replicas",
    )
    assert items["Under-replicated"].delta == "unchanged"


def test_cells_that_a_spreadsheet_would_run_are_escaped() -> None:
    assert [safe_cell(value) for value in ("=1+1", "@x", "rack-a", -5)] == ["'=1+1", "'@x", "rack-a", -5]


def test_a_broker_without_a_rack_is_a_dash_in_the_csv(tmp_path: Path) -> None:
    row = dict.fromkeys(COLUMNS) | {
        "topic": "orders",
        "replicas": [1, 2, 3],
        "racks": ["a", "", "b"],
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "violations.parquet")
    assert "orders,,,1 2 3,a \N{EN DASH} b," in "".join(violations_csv(tmp_path))


@pytest.mark.parametrize("path", sorted(folder("templates").glob("*.html")), ids=lambda path: path.name)
def test_a_template_parses_and_states_its_context(path: Path) -> None:
    environment().get_template(path.name)
    first = path.read_text().splitlines()[0]
    assert re.match(r"\{# (needs: |Small pieces)", first), first


def leadership(leader_id: int, previous: int | None, **fields: object) -> Leadership:
    epoch = Epoch(
        epoch=6,
        leader_id=leader_id,
        start_offset=600,
        timestamp_ms=0,
        voter_ids=(1, 2, 3),
        granting_voter_ids=(1, 2),
    )
    found = Leadership(
        epoch=epoch,
        previous_leader_id=previous,
        epochs_before=None,
        led_ms=None,
        gap_ms=None,
        leaderless_ms=None,
        ended="leads",
        ended_detail="",
    )
    return replace(found, **fields)  # type: ignore[arg-type]  # fields are passed by name


def test_a_leadership_shows_its_votes_the_leaderless_time_and_the_epochs_before() -> None:
    first = epoch_row(leadership(1, None))
    assert (first.votes, first.wait, first.notes, first.is_long) == ("1, 2 of 1, 2, 3", "\N{EN DASH}", "", False)
    later = epoch_row(leadership(2, 1, gap_ms=503, leaderless_ms=44, epochs_before=2, led_ms=90_000))
    assert (later.wait, later.notes) == ("44 ms observed, ≤ 503 ms by the log", "2 epochs without a winner")
    assert later.led_for == "1 min 30 s, leads"
    again = epoch_row(leadership(1, 1, gap_ms=7_200_000, epochs_before=0))
    assert (again.wait, again.notes, again.is_long) == ("≤ 2 h by the log", "same node as before", True)


def test_changes_of_the_leader_are_counted_over_a_day() -> None:
    day_ms = 24 * 3_600_000
    known = [leadership(2, 1, gap_ms=400, leaderless_ms=90), leadership(1, 2, gap_ms=700), leadership(1, None)]
    assert lately(known, day_ms - 1) == (2, 700)
    assert lately(known, day_ms + 1) == (0, None)


def test_offline_and_leaderless_topics_come_first_when_sorted_by_trouble() -> None:
    view = topics_view(three_racks(), TopicTable(), {"sort": "trouble", "desc": "1"})
    assert [row.name for row in view.rows] == ["logs", "orders"]


def test_an_export_without_its_file_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        next(violations_csv(tmp_path))


def change_that_creates(offset: int, partitions: int) -> Change:
    """Return a change that creates a topic."""
    parts = [records.partition(0, index) for index in range(partitions)]
    made = r.TopicRecord(name="orders", topic_id=topic_id(0))
    config = r.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1")
    return Change(
        first_offset=offset,
        offset=offset,
        epoch=1,
        timestamp_ms=0,
        records=tuple((offset, record) for record in (made, *parts, config)),
        before=MetadataImage.EMPTY,
        after=MetadataImage.EMPTY,
    )


@pytest.mark.parametrize(
    ("line", "chinese"),
    [
        ("topic orders: created", "主题 orders：已创建"),
        ("topic orders: p3 leader 2→4, partitionEpoch 17", "主题 orders：p3 领导者 2→4，partitionEpoch 17"),
        ("config of topic orders: retention.ms set to 5", "主题 orders 的配置：retention.ms 设为 5"),
        ("config of topic orders: retention.ms 5→6", "主题 orders 的配置：retention.ms 5→6"),
        ("broker 1: registered, epoch 8, rack a, fenced", "Broker 1：已注册，纪元 8，机架 a，已隔离"),
        ("feature metadata.version 29→30", "特性 metadata.version 29→30"),
        ("quota of user %(x)s: producer_byte_rate set to 5", "user %(x)s 的配额：producer_byte_rate 设为 5"),
        ("ACL of User:a on b: removed", "User:a on b 的 ACL：已移除"),
        ("", ""),
    ],
)
def test_a_line_of_the_change_feed_is_english_for_programs_and_chinese_on_a_chinese_page(
    line: str, chinese: str
) -> None:
    assert said(line) == line
    with speaking("zh"):
        assert shown(said(line)) == chinese
