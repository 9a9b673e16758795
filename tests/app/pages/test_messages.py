"""The message browser on a real node: windows, filters, hostile contents, limits, single records, tails."""

import datetime as dt
import json
import re
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
from bs4 import BeautifulSoup

from app.cluster.record_windows import WindowLimits
from tests.app.live import ADMIN_TOKEN, CombinedNode, LiveWeb
from tests.app.messages import Message, create, get, write

BASE_MS = int(time.time()) * 1_000 - 3_600_000
"""Not older than retention.ms allows."""


def iso(timestamp_ms: int) -> str:
    return (
        dt.datetime.fromtimestamp(timestamp_ms / 1_000, dt.UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def rows(page: str) -> list[tuple[int, int]]:
    """Return partition and offset of each row of a page, in its order."""
    soup = BeautifulSoup(page, "html.parser")
    found = [row["data-key"].split("-") for row in soup.select("#rows > tr")]
    return [(int(partition), int(offset)) for partition, offset in found]


def link(page: str, text: str) -> str:
    """Return the address of a link of the windows, "" if there is none."""
    soup = BeautifulSoup(page, "html.parser")
    found = [each["href"] for each in soup.select("nav.pages a") if text in each.text]
    return found[0] if found else ""


def numbered(count: int, partitions: int) -> list[Message]:
    """Return messages over partitions, in the order of their times."""
    return [
        {
            "value": json.dumps({"n": n, "parity": "odd" if n % 2 else "even"}).encode(),
            "key": b"key-%d" % n,
            "partition": n % partitions,
            "timestamp_ms": BASE_MS + n,
            "headers": [("n", b"%d" % n)],
        }
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def topic(web: LiveWeb, node: CombinedNode) -> str:
    """A topic with 300 records in three partitions; record n is record n // 3 of partition n % 3."""
    name = create(web, "browsed", 3)
    for codec, part in (("zstd", slice(0, 150)), ("lz4", slice(150, 300))):
        write(node.broker, name, numbered(300, 3)[part], compression_type=codec)
    return name


def test_the_newest_records_of_all_partitions_are_shown_newest_first(web: LiveWeb, topic: str) -> None:
    page = get(web, f"/topics/{topic}/messages?count=20")
    assert rows(page) == [(n % 3, n // 3) for n in range(299, 279, -1)]
    assert link(page, "Older")


def test_older_windows_reach_the_first_record_without_gap_or_repeat(web: LiveWeb, topic: str) -> None:
    address, found = f"/topics/{topic}/messages?count=100", []
    while address and len(found) < 400:
        page = get(web, address)
        found += rows(page)
        address = link(page, "Older")
    assert found == [(n % 3, n // 3) for n in range(299, -1, -1)]


def test_newer_windows_reach_the_last_record_without_gap_or_repeat(web: LiveWeb, topic: str) -> None:
    address, found = f"/topics/{topic}/messages?count=100&start=beginning", []
    while address and len(found) < 400:
        page = get(web, address)
        found += rows(page)
        address = link(page, "Newer")
    assert found == [(n % 3, n // 3) for n in range(300)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("partition=1&start=offset&position=40", [(1, offset) for offset in range(40, 60)]),
        pytest.param(f"start=time&position=@{BASE_MS + 100}", [(n % 3, n // 3) for n in range(100, 120)], id="ms"),
        pytest.param(f"start=time&position={iso(BASE_MS + 290)}", [(n % 3, n // 3) for n in range(290, 300)], id="iso"),
        ("start=offset&position=99", [(0, 99), (1, 99), (2, 99)]),
        ("start=offset&position=5000", []),
        ("field=value&name=n&operator=equals&text=7", [(1, 2)]),
        ("field=key&name=&operator=matches&text=^key-29[0-2]$", [(1, 97), (0, 97), (2, 96)]),
        ("field=header&name=n&operator=equals&text=33", [(0, 11)]),
        ("field=value&name=&operator=contains&text=nothing+has+this", []),
        ("field=value&name=parity&operator=equals&text=odd&field=key&name=&operator=matches&text=0.$", [(0, 101)]),
    ],
)
def test_windows_start_where_asked_and_filters_find(
    web: LiveWeb, topic: str, query: str, expected: list[tuple[int, int]]
) -> None:
    if "0.$" in query:
        expected = [(n % 3, n // 3) for n in (209, 207, 205, 203, 201, 109, 107, 105, 103, 101)]
    assert rows(get(web, f"/topics/{topic}/messages?count=20&{query}")) == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("partition=3", "Partition '3' does not exist: allowed are 0 to 2."),
        ("partition=x", "Partition 'x' does not exist"),
        ("start=sideways", "start: 'sideways' is not one of newest, beginning, offset, time."),
        ("start=offset&position=yesterday", "invalid position 'yesterday'"),
        ("start=time&position=7", "Position: '7' is not a time."),
        ("count=1000000", "count: '1000000' is not one of 20, 50, 100, 500."),
        ("cursor=0", "cursor: '0' is not PARTITION:OFFSET."),
        ("field=value&name=&operator=matches&text=(", "invalid filter '('"),
        ("field=header&name=&operator=contains&text=a", "the name of the header is missing"),
        ("value_format=xml", "value_format: 'xml' is not one of auto"),
        (f"position={'x' * 2048}&start=time", "invalid position 'xxx"),
    ],
)
def test_an_invalid_query_names_the_value_and_what_is_allowed(
    web: LiveWeb, topic: str, query: str, message: str
) -> None:
    page = get(web, f"/topics/{topic}/messages?{query}", 422)
    alert = BeautifulSoup(page, "html.parser").select_one("[role=alert]")
    assert message in alert.text
    assert not rows(page)


def test_a_chinese_reader_gets_the_same_values_and_links_in_chinese(web: LiveWeb, topic: str) -> None:
    chinese = {"accept-language": "zh-CN"}
    wrong = web.client.get(f"/topics/{topic}/messages?start=time&position=7", headers=chinese)
    assert "位置：“7”不是时间。" in wrong.text
    query = "count=20&field=key&operator=equals&name=&text=key-7"
    page = web.client.get(f"/topics/{topic}/messages?{query}", headers=chinese).text
    assert "1 条消息。在 3 个分区中扫描了" in page
    assert '<option value="equals" selected>等于</option>' in page
    assert rows(page) == rows(get(web, f"/topics/{topic}/messages?{query}")) == [(1, 2)]


def test_a_limit_ends_a_search_with_the_truth_and_the_next_window_goes_on(
    web: LiveWeb, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web.services.cluster.records, "limits", WindowLimits(records=40))
    address, found, windows = (
        f"/topics/{topic}/messages?partition=1&start=beginning&count=20&field=value&name=n&operator=matches&text=^(1|298)$",
        [],
        0,
    )
    while address and windows < 5:
        page = get(web, address)
        windows += 1
        found += rows(page)
        if windows == 1:
            assert (
                "Stopped after 40 records: partition 1 to offset 40."
                in BeautifulSoup(page, "html.parser").select_one("#summary").text
            )
        address = link(page, "Newer")
    assert found == [(1, 0), (1, 99)]
    assert windows == 3


HOSTILE = [
    {"value": b"<script>alert(1)</script>", "key": b"</td></tr></table><h1>"},
    {"value": b"\xff\xfe\x00bytes", "key": b"\x80"},
    {"value": "a\u202etxt.exe\u200b\x1b[31m".encode(), "key": "مفتاح".encode()},
    {"value": None, "key": b"tombstone"},
    {"value": b"", "key": b""},
    {"value": b"x" * 900_000, "key": None, "headers": [("<b>", b"<i>"), ("null", None), ("empty", b"")]},
    {"value": b'{"deep": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"},
]


@pytest.fixture(scope="module")
def hostile(web: LiveWeb, node: CombinedNode) -> str:
    name = create(web, "hostile-messages")
    write(node.broker, name, HOSTILE)
    return name


def cells(page: str, offset: int) -> list[str]:
    soup = BeautifulSoup(page, "html.parser")
    return [cell.get_text(" ", strip=True) for cell in soup.select(f'tr[data-key="0-{offset}"] > td')]


def test_hostile_contents_are_shown_as_what_they_are(web: LiveWeb, hostile: str) -> None:
    page = get(web, f"/topics/{hostile}/messages?start=beginning")
    soup = BeautifulSoup(page, "html.parser")
    assert [row["data-key"] for row in soup.select("#rows > tr")] == [f"0-{offset}" for offset in range(len(HOSTILE))]
    assert not [script for script in soup.find_all("script") if not script.get("src")]
    assert "<script>alert(1)</script>" in cells(page, 0)[4]
    assert cells(page, 0)[3] == "</td></tr></table><h1>"
    assert "ff fe 00 62" in cells(page, 1)[4]
    assert "a\\u202etxt.exe\\u200b" in cells(page, 2)[4] or "61 e2 80 ae" in cells(page, 2)[4]
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert cells(page, 3)[4].startswith("null")
    assert cells(page, 4)[4].startswith("empty")
    assert cells(page, 4)[3] == "empty"
    assert cells(page, 5)[3] == "null"
    assert "<b> = <i> null = null" in cells(page, 5)[5]
    assert cells(page, 5)[6] == "878.9 KiB"
    assert len(page) < 150_000, "a window cuts long contents"


def test_one_record_has_its_own_page_and_its_bytes_can_be_downloaded(web: LiveWeb, hostile: str) -> None:
    page = get(web, f"/topics/{hostile}/messages/0/5")
    assert page.count("x") >= 900_000
    answer = web.client.get(f"/topics/{hostile}/messages/0/5/value")
    assert (len(answer.content), set(answer.content)) == (900_000, {ord("x")})
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f'attachment; filename="{hostile}-0-5-value.bin"'
    assert web.client.get(f"/topics/{hostile}/messages/0/0/key").content == b"</td></tr></table><h1>"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("0/7", "has no record at offset 7"),
        ("0/999999999999", "has no record at offset"),
        ("1/0", "has no partition 1"),
        ("0/3/value", "The value of this record is null."),
        ("0/0/headers", "A record has a key and a value, and no 'headers'."),
    ],
)
def test_what_a_topic_does_not_have_is_not_found(web: LiveWeb, hostile: str, path: str, message: str) -> None:
    assert message in get(web, f"/topics/{hostile}/messages/{path}", 404)


@pytest.mark.parametrize(
    ("key_format", "value_format", "key", "value"),
    [
        ("text", "text", "key-0", '{"n": 0, "parity": "even"}'),
        ("hex", "hex", "6b 65 79 2d 30", "7b 22 6e 22"),
        ("base64", "base64", "a2V5LTA=", "eyJuIjogMCw"),
        ("integer", "json", "5 bytes are not an integer of 1, 2, 4 or 8 bytes", '"parity": "even"'),
        ("schema", "schema", "no schema registry is configured (schema_registry_url)", '"parity": "even"'),
    ],
)
def test_formats(web: LiveWeb, topic: str, key_format: str, value_format: str, key: str, value: str) -> None:
    query = f"partition=0&start=beginning&count=20&key_format={key_format}&value_format={value_format}"
    shown = cells(get(web, f"/topics/{topic}/messages?{query}"), 0)
    assert key in shown[4]
    assert value in shown[4]


def test_viewers_read_no_records_and_see_no_links_to_them(web: LiveWeb, topic: str) -> None:
    made = web.client.post("/v3/tokens", json={"name": "messages-viewer", "role": "viewer"}).json()
    viewer = web.http(made["token"])
    for address in (f"/topics/{topic}/messages", f"/topics/{topic}/messages/events", f"/topics/{topic}/messages/0/0"):
        answer = viewer.get(address)
        assert answer.status_code == 403, address
        assert "This needs the role editor (scope records)." in answer.text
    page = viewer.get(f"/topics/{topic}")
    assert page.status_code == 200
    assert f"/topics/{topic}/messages" not in page.text
    assert f"/topics/{topic}/messages" in get(web, f"/topics/{topic}")


def test_reading_is_audited_without_content(web: LiveWeb, topic: str) -> None:
    get(web, f"/topics/{topic}/messages?field=value&name=&operator=contains&text=very-secret-text")
    events = [
        each for each in web.client.get("/v3/audit?page_size=50").json()["data"] if each["action"] == "records.read"
    ]
    assert events[0]["resource"] == f"topic/{topic}"
    assert "very-secret-text" not in json.dumps(events)


class Stream:
    """The events of a live tail, read in a thread."""

    def __init__(self, web: LiveWeb, address: str, **headers: str) -> None:
        self.events: list[dict[str, str]] = []
        self._arrived = threading.Condition()
        self._client = web.http(ADMIN_TOKEN)
        self._client.headers.update(headers)
        self._thread = threading.Thread(target=self._read, args=[address], daemon=True)
        self._thread.start()

    def _read(self, address: str) -> None:
        try:
            with self._client.stream("GET", address) as answer:
                event: dict[str, str] = {}
                for line in answer.iter_lines():
                    if line:
                        name, _, value = line.partition(": ")
                        event[name] = value
                    elif event:
                        with self._arrived:
                            self.events.append(event)
                            self._arrived.notify_all()
                        event = {}
        except (httpx.HTTPError, RuntimeError, OSError):
            pass

    def records(self) -> list[tuple[int, int]]:
        """Return partition and offset of the records so far, oldest first."""
        found = [json.loads(each["data"])["rows"] for each in list(self.events) if each.get("event") == "records"]
        return [
            (int(partition), int(offset))
            for html in found
            for partition, offset in reversed(re.findall(r'data-key="(\d+)-(\d+)"', html))
        ]

    def wait(self, count: int) -> None:
        """Wait until so many events with an id have arrived."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len([e for e in self.events if "id" in e]) >= count, 60)

    def wait_for_records(self, count: int) -> None:
        """Wait until so many records have arrived."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.records()) >= count, 60)

    def close(self) -> str:
        """Close the stream and return the cursor of its last event."""
        cursor = [each["id"] for each in self.events if "id" in each][-1]
        self._client.close()
        return cursor


@pytest.fixture
def tailed(web: LiveWeb, node: CombinedNode) -> Iterator[str]:
    yield create(web, "tailed", 2)
    assert web.client.delete(f"{web.cluster}/topics/tailed").status_code == 204


def test_a_live_tail_shows_new_records_that_pass_and_resumes_where_it_was(
    web: LiveWeb, node: CombinedNode, tailed: str
) -> None:
    write(node.broker, tailed, [{"value": b"before", "partition": 0}])
    address = f"/topics/{tailed}/messages/events?field=value&name=&operator=contains&text=yes"
    first = Stream(web, address)
    first.wait(1)
    write(node.broker, tailed, [{"value": b"yes 1", "partition": 1}, {"value": b"no", "partition": 0}])
    first.wait_for_records(1)
    cursor = first.close()
    assert first.records() == [(1, 0)]
    write(node.broker, tailed, [{"value": b"yes 2", "partition": 0}])
    second = Stream(web, address, **{"Last-Event-ID": cursor})
    second.wait_for_records(1)
    second.close()
    assert second.records() == [(0, 2)]
