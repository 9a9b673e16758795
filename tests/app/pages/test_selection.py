"""Changes of selected rows: each item in the preview, a result for each, bounds, and the chosen columns of tables."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from bs4 import BeautifulSoup

from tests.app.groups import commit, member, new_topic, shown
from tests.app.live import CombinedNode, LiveWeb
from tests.app.pages.test_downloads import rows_of

FORM = {"Accept": "text/html"}


def send(web: LiveWeb, path: str, items: list[str], **fields: str) -> httpx.Response:
    """Post a form with ticked rows as an administrator."""
    return web.client.post(path, data={"item": items, **fields}, headers=FORM)


def words(answer: httpx.Response, selector: str = "main") -> str:
    found = BeautifulSoup(answer.text, "html.parser").select(selector)
    assert found, answer.text
    return " ".join(" ".join(each.get_text(" ").split()) for each in found)


def hidden(answer: httpx.Response, name: str = "item") -> list[str]:
    fields = BeautifulSoup(answer.text, "html.parser").select(f".confirm form input[type=hidden][name={name}]")
    return [str(field["value"]) for field in fields]


def audited(web: LiveWeb, resource: str) -> list[tuple[str, str]]:
    events = web.client.get(f"/v3/audit?resource={quote(resource)}&page_size=100").json()["data"]
    return [(event["action"], event["result"]) for event in events]


@pytest.fixture
def topics(web: LiveWeb) -> Iterator[list[str]]:
    names = [f"sel.{letter}" for letter in "abc"]
    for name in names:
        assert web.client.post(f"{web.cluster}/topics", json={"topic_name": name}).status_code == 201
    yield names
    for name in names:
        web.client.delete(f"{web.cluster}/topics/{name}")


def test_selected_topics_are_deleted_with_a_result_for_each(web: LiveWeb, topics: list[str]) -> None:
    page = BeautifulSoup(web.client.get("/topics?q=sel.", headers=FORM).text, "html.parser")
    boxes = page.select("td.pick input[form=select-topics][name=item]")
    assert [box["value"] for box in boxes] == topics
    assert page.select_one("#topics")["data-matching"] == "3"  # type: ignore[index]  # it is on the page
    path = "/selected-topics/delete"
    asked = send(web, path, [*topics, topics[0], "sel.absent", "<b>x"], filter="q=sel.&page=1")
    assert asked.status_code == 200
    assert hidden(asked) == topics, "each once, without those that are not there"
    assert words(asked, "table.what tbody") == " ".join(f"{name} 1 partition, 1 replica deleted" for name in topics)
    assert "sel.absent: There is no topic 'sel.absent'" in words(asked, ".checks")
    assert "<b>x" not in asked.text
    assert "Type 3 topics to confirm" in words(asked)
    wrong = send(web, path, topics, confirmed="yes", typed="4 topics")
    assert (wrong.status_code, hidden(wrong)) == (422, topics)
    assert "'4 topics' is not '3 topics'. Nothing has changed." in words(wrong, "[role=alert]")
    assert all(web.client.get(f"{web.cluster}/topics/{name}").status_code == 200 for name in topics)
    web.client.delete(f"{web.cluster}/topics/{topics[1]}")
    done = send(web, path, topics, confirmed="yes", typed="3 topics", filter="q=sel.")
    assert "3 topics: 2 done, 1 failed" in words(done, "[role=alert]")
    rows = [" ".join(row.get_text(" ").split()) for row in BeautifulSoup(done.text, "html.parser").select("tbody tr")]
    assert rows[0].startswith("sel.b failed ")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in rows[0]
    assert [row.split(" offset")[0] for row in rows[1:]] == ["sel.a done Deleted at", "sel.c done Deleted at"]
    assert hidden(done) == ["sel.b"], "to try again"
    assert 'href="/topics?q=sel."' in done.text
    assert all(web.client.get(f"{web.cluster}/topics/{name}").status_code == 404 for name in topics)
    assert audited(web, "topic/sel.a")[0] == ("topic.delete", "ok")
    assert audited(web, "topic/sel.b")[0] == ("topic.delete", "failed")


def test_a_config_is_set_on_everything_that_matches_the_filter(web: LiveWeb, topics: list[str]) -> None:
    path = "/selected-topics/configs"
    asked = send(web, path, [], all="yes", filter="q=sel.&page=7")
    assert hidden(asked) == topics
    assert "3 topics selected." in words(asked)
    assert words(asked, "#operation") == "set to the value reset to the default"
    form = {"config": "retention.ms", "operation": "set"}
    wrong = send(web, path, topics, **form, value="7 fortnights")
    assert (wrong.status_code, "has an unknown unit" in words(wrong, "[role=alert]")) == (422, True)
    assert "'<i>' is not a config of topics" in words(send(web, path, topics, config="<i>", value="1"), "[role=alert]")
    refused = send(web, path, topics, **form, value="-7")
    assert "None of the selected topics can be changed." in words(refused, "[role=alert]")
    assert "sel.a: Invalid value -7" in words(refused, ".checks")
    preview = send(web, path, topics, **form, value="7 h")
    assert "retention.ms of sel.a" in words(preview, "table.what")
    assert web.client.get(f"{web.cluster}/topics/sel.a/configs/retention.ms").json()["value"] != "25200000"
    done = send(web, path, hidden(preview), **form, value="7 h", confirmed="yes")
    assert "3 topics: 3 done, 0 failed" in words(done, "[role=status]")
    for name in topics:
        assert web.client.get(f"{web.cluster}/topics/{name}/configs/retention.ms").json()["value"] == "25200000"
        assert audited(web, f"topic/{name}")[0] == ("topic.configs", "ok")
    send(web, path, topics, config="retention.ms", operation="reset", confirmed="yes")
    source = web.client.get(f"{web.cluster}/topics/sel.c/configs/retention.ms").json()["source"]
    assert source != "DYNAMIC_TOPIC_CONFIG"


def test_partitions_are_added_and_elections_that_are_not_needed_are_refused(web: LiveWeb, topics: list[str]) -> None:
    path = "/selected-topics/partitions"
    assert "New number of partitions" in words(send(web, path, topics))
    assert "'many' is not a whole number" in words(send(web, path, topics, count="many"), "[role=alert]")
    web.client.patch(f"{web.cluster}/topics/sel.b", json={"partitions_count": 3})
    asked = send(web, path, topics, count="2")
    assert hidden(asked) == ["sel.a", "sel.c"]
    assert "sel.b: " in words(asked, ".checks")
    done = send(web, path, hidden(asked), count="2", confirmed="yes")
    assert "2 topics: 2 done, 0 failed" in words(done, "[role=status]")
    counts = [web.client.get(f"{web.cluster}/topics/{name}").json()["partitions_count"] for name in topics]
    assert counts == [2, 3, 2]
    elected = send(web, "/selected-topics/elect", topics)
    assert "None of the selected topics can be changed." in words(elected, "[role=alert]")
    assert "Every partition is led by its preferred replica" in words(elected, ".checks")


@pytest.mark.parametrize("path", ["/selected-topics/delete", "/selected-groups/delete", "/selected-acls/delete"])
def test_hostile_selections_are_refused_with_the_reason(web: LiveWeb, path: str) -> None:
    for count, status, said in (
        (0, 422, "Nothing is selected: tick at least one"),
        (1_001, 422, "are selected; at most 1 000 can be changed at once"),
        (50_000, 400, "Too many fields. Maximum number of fields is 10000."),
    ):
        answer = send(web, path, [f"t{number}" for number in range(count)], confirmed="yes", typed=f"{count} topics")
        assert (answer.status_code, said in words(answer, "body")) == (status, True), (count, answer.text)


def test_selected_groups_are_reset_and_deleted(web: LiveWeb, node: CombinedNode) -> None:
    new_topic(web, node, "sel-read", {0: 5, 1: 7})
    groups = ["sel/one", "sel two"]
    for group in groups:
        commit(node, group, "sel-read", {0: 1, 1: 2})
    with member(node, "sel busy", "sel-read"):
        shown(web, "/groups?q=sel", *groups, "sel busy")
        items = [quote(group) for group in [*groups, "sel busy"]]
        path = "/selected-groups/reset"
        assert "3 groups selected." in words(send(web, path, [], all="yes", filter="q=sel"))
        wrong = send(web, path, items, way="shift-by", value="x")
        assert "'x' is not a whole number." in words(wrong, "[role=alert]")
        asked = send(web, path, items, way="to-latest", value="")
        assert "Sum of 2 offsets of sel/one 3 12" in words(asked, "table.what")
        assert "sel busy: Offsets can only be reset while" in words(asked, ".checks")
        done = send(web, path, hidden(asked), way="to-latest", confirmed="yes")
        assert "2 groups: 2 done, 0 failed" in words(done, "[role=status]")
        lags = web.client.get(f"{web.cluster}/consumer-groups/sel%2Fone/lags").json()["data"]
        assert {each["current_offset"] for each in lags} == {5, 7}
        assert "2 groups: 0 done, 2 failed" in words(send(web, path, items[:2], confirmed="yes"), "[role=alert]")
        asked = send(web, "/selected-groups/delete", items)
        assert sorted(hidden(asked)) == sorted(items[:2])
        assert "sel busy: " in words(asked, ".checks")
        done = send(web, "/selected-groups/delete", items, confirmed="yes", typed="3 groups")
        assert "3 groups: 2 done, 1 failed" in words(done, "[role=alert]")
        assert audited(web, "group/sel two")[0] == ("group.delete", "ok")
        assert audited(web, "group/sel busy")[0] == ("group.delete", "failed")


def test_chosen_columns_are_kept_and_downloads_follow(web: LiveWeb, topics: list[str]) -> None:
    client = web.http(web.client.headers["Authorization"].removeprefix("Bearer "))

    def heads(address: str = "/topics?q=sel.") -> list[str]:
        page = BeautifulSoup(client.get(address, headers=FORM).text, "html.parser")
        return [" ".join(head.get_text().replace("↑", "").split()) for head in page.select("thead th")]

    usual = heads()
    assert usual[:2] == ["Select", "Topic"]
    assert "Last change" in usual
    form: dict[str, Any] = {"table": "topics", "column": ["size", "topic-id", "no-such"], "back": "/topics?q=sel."}
    chosen = client.post("/columns", data=form)
    assert (chosen.status_code, chosen.headers["location"]) == (303, "/topics?q=sel.")
    assert heads() == heads("/fragments/topics?q=sel.") == ["Select", "Topic", "Size", "Topic id"]
    _, rows = rows_of(client, "/topics?q=sel.", "topics")
    assert list(rows[0]) == ["topic", "size", "topic_id"]
    client.post("/columns", data={"table": "topics", "back": "/topics"})
    assert heads() == ["Select", "Topic"]
    client.post("/columns", data={"table": "topics", "usual": "yes", "back": "//evil.example"})
    assert heads() == usual
    assert heads("/brokers")[:2] == ["Broker", "State"]
    assert client.post("/columns", data={"table": "<b>"}).status_code == 400
    client.cookies.set("columns-brokers", "rack.<b>..." + "x" * 2_000)
    assert heads("/brokers") == ["Broker", "Rack"]


def test_a_viewer_sees_no_boxes(web: LiveWeb, topics: list[str]) -> None:
    made = web.client.post("/v3/tokens", json={"name": "sel-viewer", "role": "viewer"}).json()["token"]
    page = web.http(made).get("/topics?q=sel.", headers=FORM).text
    assert topics[0] in page
    assert "select-topics" not in page
    past = web.client.get(f"/topics?q=sel.&at_offset={web.services.cluster.image.offset}", headers=FORM).text
    assert topics[0] in past
    assert "select-topics" not in past
