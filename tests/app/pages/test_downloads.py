"""Downloads of tables: every table of every page, as shown and whole, with the rows of the page."""

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from app.http.templating import folder
from app.pages.downloads import TableReader, first_page, names_of
from app.reports import store
from tests.app.live import LiveWeb
from tests.app.pages.test_report_page import BODY, add_report

TABLE = re.compile(r'<table(?: data-table="([a-z-]+)")?[^>]*>(.*?)</table>', re.DOTALL)
WITHOUT_DOWNLOAD = {"confirm.html", "kept_form.html", "messages.html", "selection_results.html"}
"""What a change would do, or has done, is the answer to a form: no address shows it again. Records are cut on their
page: REST and `conclave consume --json` give them whole."""


def test_every_table_of_the_templates_with_a_head_has_a_download() -> None:
    tables, calls, bare = set(), set(), []
    for path in folder("templates").glob("*.html"):
        text = path.read_text()
        calls |= set(re.findall(r'downloads\(here, "([a-z-]+)"', text))
        for name, inside in TABLE.findall(text) if path.name not in WITHOUT_DOWNLOAD else ():
            if "<thead>" in inside or "_head(" in inside:
                tables.add(name)
                bare += [] if name else [path.name]
    assert bare == []
    assert tables == calls
    assert len(tables) > 25


HTML = """
<table data-table="other"><thead><tr><th>No</th></tr></thead><tbody><tr><td>no</td></tr></tbody></table>
<table data-table="t" class="x"><thead><tr><th data-detail="Description">Name</th><th class="num">
<a href="/">Count \u2193</a></th>
<th>Size</th><th>Seen</th><th>State</th><th><span class="unseen">Actions</span></th></tr></thead><tbody>
<tr><td><a>=1+1</a>-3<div class="doc">a <b>b</b></div></td><td class="num">\N{MINUS SIGN}12\u202f345</td>
<td><data value="1536">1.5 KiB</data></td><td><time datetime="2026-01-02T03:04:05Z">1 d ago</time></td>
<td><span class="tag">a</span><span class="tag">b &lt;c&gt;</span></td><td><form><button>Go</button></form></td></tr>
<tr><td>007</td><td class="num">0.5</td><td>\N{EN DASH}</td><td></td>
<td><select><option>x</option></select></td><td></td></tr>
</tbody></table>
<table data-table="t"><thead><tr><th>Name</th></tr></thead><tbody><tr><td>more</td></tr></tbody></table>
<a rel="next" href="/t?page=2">Next</a>
"""


def test_cells_are_read_as_texts_numbers_sizes_and_times() -> None:
    reader = TableReader("t")
    reader.feed(HTML)
    assert reader.heads == ["Name", "Description", "Count", "Size", "Seen", "State"]
    assert names_of(reader.heads) == ["name", "description", "count", "size", "seen", "state"]
    assert reader.rows == [
        ["=1+1-3", "a b", -12345, 1536, "2026-01-02T03:04:05Z", "a b <c>"],
        ["007", None, 0.5, None, None, None],
        ["more", None, None, None, None, None],
    ]
    assert reader.next == "/t?page=2"
    assert first_page("/t?q=a%26b&page=7") == "/t?q=a%26b"


def link(page: str, table: str, kind: str, **more: str) -> str:
    return "/download?" + urlencode({"of": page, "table": table, "format": kind, **more})


def rows_of(client: httpx.Client, page: str, table: str, **more: str) -> tuple[list[list[str]], list[dict[str, Any]]]:
    """Return the rows of both formats, CSV without its heads."""
    as_csv, as_json = (client.get(link(page, table, kind, **more)) for kind in ("csv", "json"))
    assert (as_csv.status_code, as_json.status_code) == (200, 200), as_csv.text
    lines = list(csv.reader(io.StringIO(as_csv.text)))
    return lines[1:], json.loads(as_json.text)["rows"]


@pytest.fixture(scope="module")
def topics(web: LiveWeb) -> Iterator[list[str]]:
    names = [f"-dl-{number:03}" for number in range(60)]
    for name in names:
        body = {"topic_name": name, "partitions_count": 1, "configs": [{"name": "retention.ms", "value": "1000"}]}
        assert web.client.post(f"{web.cluster}/topics", json=body).status_code == 201
    yield names
    for name in names:
        web.client.delete(f"{web.cluster}/topics/{name}")


def test_a_download_has_the_filter_the_order_and_the_page_that_is_shown_or_all(web: LiveWeb, topics: list[str]) -> None:
    page = "/topics?q=-dl-&sort=name&desc=1"
    lines, rows = rows_of(web.client, page, "topics")
    assert [row["topic"] for row in rows] == topics[:9:-1]
    assert [line[0] for line in lines] == [f"'{name}" for name in topics[:9:-1]], "a formula for a spreadsheet"
    assert rows[0].pop("size") in (None, 0), "the broker is asked in the background"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", rows[0].pop("last_change"))
    assert rows[0] == {
        "topic": "-dl-059",
        "partitions": 1,
        "replication_factor": 1,
        "min_isr": 1,
        "health": "healthy",
        "cleanup_policy": "delete",
        "overrides": 1,
    }
    for given in (page, f"{page}&page=2"):
        lines, rows = rows_of(web.client, given, "topics", whole="yes")
        assert [row["topic"] for row in rows] == topics[::-1]
        assert len(lines) == 60
    answer = web.client.get(link(page, "topics", "csv"))
    offset = web.services.cluster.image.offset
    name = f"{web.services.cluster.cluster_id}-topics-"
    assert re.search(rf'attachment; filename="{name}\d+\.csv"', answer.headers["content-disposition"]), offset
    assert answer.text.startswith("Topic,Partitions,"), "no byte order mark"
    shown = web.client.get(page, headers={"Accept": "text/html"}).text
    assert 'all pages: <a href="/download?of=/topics%3Fq%3D-dl-%26sort%3Dname%26desc%3D1&amp;table=topics' in shown


def test_whole_tables_come_page_by_page(web: LiveWeb, topics: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.pages.downloads.ROWS_AT_ONCE", 7)
    _, rows = rows_of(web.client, "/fragments/topics?q=-dl-", "topics", whole="yes")
    assert [row["topic"] for row in rows] == topics


def test_every_table_on_every_page_can_be_downloaded(web: LiveWeb, topics: list[str]) -> None:
    run_id = add_report(web, BODY)
    pages = [
        "/",
        "/quorum",
        "/quorum/epochs",
        "/brokers",
        "/brokers/1",
        "/brokers/1/replicas",
        "/brokers/1/configs",
        "/topics",
        "/reassignments",
        "/elections",
        f"/moves/new?topics={topics[0]}",
        "/moves/new?goal=drain&step=where",
    ]
    pages += [
        f"/topics/{topics[0]}",
        f"/topics/{topics[0]}/configs",
        "/features",
        "/plans",
        "/reports",
        "/rights/scram",
        "/rights/quotas",
    ]
    pages += [
        f"/reports/{run_id}",
        "/audit",
        "/access",
        "/access/tokens",
        "/reports/schedules/nightly",
        "/fragments/brokers",
    ]
    pages += ["/brokers/1/timeline", "/flaps", "/flaps/elections"]
    assert web.call(web.services.cluster.log_events.survey(30)).is_whole
    seen = set()
    for page in pages:
        html = web.client.get(page, headers={"Accept": "text/html"})
        assert html.status_code == 200, page
        for table in dict.fromkeys(name for name, _ in TABLE.findall(html.text) if name):
            assert f"table={table}&amp;format=csv" in html.text, (page, table)
            bodies = [inside.split("<tbody>")[1] for name, inside in TABLE.findall(html.text) if name == table]
            lines, rows = rows_of(web.client, page, table)
            if table != "audit":  # each write of this test adds an event
                assert len(lines) == len(rows) == sum(each.count("<tr") for each in bodies), (page, table)
            seen.add(table)
    web.call(web.services.database.write(store.update_run, run_id, state="failed"))
    assert {"voters", "epochs", "brokers", "topics", "partitions", "replicas", "configs", "schedules"} <= seen
    assert {"report-runs", "report-brokers", "losses", "margins", "shared-partitions", "audit", "users"} <= seen
    assert {"timeline", "level-history"} <= seen


def test_a_download_that_cannot_be_made_is_refused_with_the_reason(web: LiveWeb) -> None:
    for query, status, said in (
        ({"of": "/topics", "table": "topics", "format": "xml"}, 400, "'xml' is not one of csv, json"),
        ({"of": "/topics", "table": "T" * 2000, "format": "csv"}, 400, "is not the name of a table"),
        ({"of": "/brokers", "table": "topics", "format": "csv"}, 404, "has no rows in a table 'topics'"),
        ({"of": "/nowhere", "table": "topics", "format": "csv"}, 404, ""),
        ({"of": "/topics/absent-topic", "table": "partitions", "format": "csv"}, 404, "absent-topic"),
        ({"of": f"{web.cluster}/topics", "table": "topics", "format": "csv"}, 400, "is not the address of a page"),
        ({"of": "/events?subject=", "table": "topics", "format": "csv"}, 400, "is not the address of a page"),
        ({"of": "//evil.example/topics", "table": "topics", "format": "csv"}, 400, "is not the address of a page"),
        ({"of": "/download?of=/topics", "table": "topics", "format": "csv"}, 400, "is not the address of a page"),
        ({}, 400, "is not one of csv, json"),
    ):
        answer = web.client.get(f"/download?{urlencode(query)}")
        assert (answer.status_code, said in answer.text) == (status, True), (query, answer.text)


def test_a_download_needs_the_rights_of_its_page(web: LiveWeb) -> None:
    made = web.client.post("/access/tokens", data={"name": "dl", "role": "viewer", "days": "1"}).text
    secret = re.search(r"<pre>([^<]+)</pre>", made)
    assert secret is not None, made
    viewer = web.http(secret[1].strip())
    assert viewer.get(link("/brokers", "brokers", "csv")).status_code == 200
    assert viewer.get(link("/audit", "audit", "csv")).status_code == 403
    assert web.http().get(link("/brokers", "brokers", "csv")).status_code in {303, 401}


def test_a_download_is_english_in_every_language_of_the_page(web: LiveWeb) -> None:
    chinese = {"Accept-Language": "zh-CN,zh;q=0.9"}
    page = web.client.get("/access", headers=chinese).text
    assert '<html lang="zh"' in page
    assert "最近登录" in page
    english = web.client.get(link("/access", "users", "csv"))
    assert english.text.startswith("Name,Role,Last login,Password\r\n")
    assert web.client.get(link("/access", "users", "csv"), headers=chinese).text == english.text
