"""Pages of groups: the numbers of the broker with their age, hostile ids, changes after a preview, dead brokers."""

import re
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from markupsafe import escape

from tests.app import groups
from tests.app.groups import shown
from tests.app.live import CombinedNode, LiveWeb

TOPIC = "page-groups"
HOSTILE = ["a/b", "q\"uo'te", "line\nbreak", "<script>alert(1)</script>", "x" * 2_000, ".", "a%2Fb", "träger"]


@pytest.fixture(scope="module", autouse=True)
def filled(web: LiveWeb, node: CombinedNode) -> None:
    groups.new_topic(web, node, TOPIC, {0: 9, 1: 5})


def page(web: LiveWeb, path: str, status: int = 200, **data: Any) -> str:
    answer = web.client.post(path, data=data) if data else web.client.get(path)
    assert answer.status_code == status, answer.text
    return answer.text


def cells(text: str, key: str) -> list[str]:
    """Return the texts of the row with this key."""
    row = re.search(rf'<tr data-key="{re.escape(key)}">(.*?)</tr>', text, re.DOTALL)
    assert row is not None, text
    return [
        unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row[1], re.DOTALL)
    ]


def test_the_list_and_the_group_have_the_numbers_of_the_broker(web: LiveWeb, node: CombinedNode) -> None:
    groups.commit(node, "page-billing", TOPIC, {0: 4, 1: 5})
    with groups.member(node, "page-billing", TOPIC):
        listed = shown(web, "/groups?q=PAGE-BILL&type=Classic&state=Stable", '<td class="num">5</td>')
        assert cells(listed, "page-billing")[1:6] == ["page-billing", "classic", "Stable", "1", "5"]
        assert "from the brokers" in listed
        chinese = web.client.get("/groups?q=PAGE-BILL&state=Stable", headers={"accept-language": "zh"}).text
        assert '<option value="Stable" selected>稳定</option>' in chinese
        assert re.search(r"1 / [0-9]+ 个组，来自各 Broker", chinese)
        detail = page(web, "/groups/page-billing")
        assert cells(detail, f"{TOPIC}-0")[:6] == [TOPIC, "0", "4", "9", "5", "reader"]
        assert cells(detail, f"{TOPIC}-1")[:5] == [TOPIC, "1", "5", "5", "0"]
        assert f"{TOPIC}-0, {TOPIC}-1" in detail
        refused = page(web, "/group-reset", 409, group="page-billing", way="to-earliest")
        assert "Stop its members first: reader at" in refused
        assert "Set offsets" not in refused.partition("<main")[2]
        assert "Stop its members first" in page(web, "/group-delete?group=page-billing")
    shown(web, "/groups?q=no-such-group", "No groups match.")
    shown(web, "/groups/nobody", "There is no group")


@pytest.mark.parametrize("group_id", HOSTILE, ids=lambda each: repr(each[:10]))
def test_an_id_may_have_any_characters(web: LiveWeb, node: CombinedNode, group_id: str) -> None:
    groups.commit(node, group_id, TOPIC, {0: 1})
    title = f"<h1>Group {escape(group_id[:249])}</h1>"
    listed = shown(web, f"/groups?q={quote(group_id, safe='')}", f'title="{escape(group_id)}"', forget=group_id)
    assert "<script>alert" not in listed
    links = [unescape(link) for link in re.findall(r'<td class="name"><a href="([^"]+)"', listed)]
    (link,) = [link for link in links if title in page(web, link)]
    found = shown(web, link, title, '<td class="num">8</td>')
    assert cells(found, f"{TOPIC}-0")[:5] == [TOPIC, "0", "1", "9", "8"]
    (form_link,) = re.findall(r'href="(/group-reset[^"]*)"', found)
    (field,) = re.findall(r'name="group" value="([^"]*)"', page(web, unescape(form_link)))
    preview = page(web, "/group-reset", group=unescape(field), way="to-latest")
    assert "1 (lag 8)" in preview
    assert "9 (lag 0)" in preview
    fields = {
        name: unescape(value)
        for name, value in re.findall(r'type="hidden" name="(group|plan)" value="([^"]*)"', preview)
    }
    assert "Offset set for 1 of 1 partition" in followed(web, "/group-reset", **fields, confirmed="yes")
    typed = {"typed": group_id} if len(group_id) <= 249 and group_id.isprintable() else {}
    assert "was deleted" in followed(web, "/group-delete", group=fields["group"], **typed)


def followed(web: LiveWeb, path: str, **data: str) -> str:
    answer = web.client.post(path, data=data, follow_redirects=True)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_what_the_preview_shows_is_committed(web: LiveWeb, node: CombinedNode) -> None:
    """Records that arrive between preview and confirmation do not move the new offset."""
    groups.new_topic(web, node, "page-moving", {0: 2})
    groups.commit(node, "page-mover", "page-moving", {0: 0})
    preview = page(web, "/group-reset", group="page-mover", way="to-latest", topics="page-moving:0")
    (plan,) = re.findall(r'name="plan" value="([^"]*)"', preview)
    assert plan == "page-moving,0,2"
    groups.write(node, "page-moving", {0: 3})
    followed(web, "/group-reset", group="page-mover", plan=plan, confirmed="yes")
    moved = shown(web, "/groups/page-mover", '<td class="num">3</td>', forget="page-mover")
    assert cells(moved, "page-moving-0")[2:5] == ["2", "5", "3"]


def test_offsets_of_a_topic_and_static_members_are_removed(web: LiveWeb, node: CombinedNode) -> None:
    groups.commit(node, "page-cleaned", TOPIC, {0: 1, 1: 2})
    offsets = {"group": "page-cleaned", "topic": TOPIC}
    assert "Delete 2 offsets" in page(web, "/group-delete-offsets", **offsets)
    assert "Deleted for 2 of 2 partitions" in followed(web, "/group-delete-offsets", **offsets, confirmed="yes")
    assert "has no committed offsets of topic" in page(web, "/group-delete-offsets", 404, **offsets)
    with groups.member(node, "page-static", TOPIC, **{"group.instance.id": "one"}):
        member = {"group": "page-static", "instance": "one"}
        assert "one (reader at" in page(web, "/group-remove-member", **member)
        assert "Member one was removed." in followed(web, "/group-remove-member", **member, confirmed="yes")
        assert "has no static member" in page(web, "/group-remove-member", 409, group="page-static", instance="two")
    actions = [each["action"] for each in web.client.get("/v3/audit?page_size=20").json()["data"]]
    assert {"group.delete-offsets", "group.remove-member"} <= set(actions)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"way": "to-datetime", "value": "soon"}, "'soon' is not a time such as"),
        ({"way": "by-duration", "value": "1h"}, "'1h' is not a duration such as"),
        ({"way": "to-offset", "value": "-5"}, "'-5' is not a whole number"),
        ({"way": "sideways"}, "'sideways' is not one of to-earliest"),
        ({"way": "to-latest", "topics": "orders:x"}, "'orders:x' is not TOPIC or TOPIC:PARTITION"),
        ({"way": "to-latest", "topics": "orders:99999999999"}, "is not TOPIC or TOPIC:PARTITION"),
        ({"plan": "", "confirmed": "yes"}, "the plan is empty"),
        ({"plan": "a,b", "confirmed": "yes"}, "'a,b' is not topic,partition,offset"),
    ],
    ids=str,
)
def test_a_reset_that_cannot_be_read_is_said_in_the_form(web: LiveWeb, fields: dict[str, str], said: str) -> None:
    assert said in unescape(page(web, "/group-reset", 422, group="any", **fields))


def test_viewers_see_no_button_and_may_not_change(web: LiveWeb, node: CombinedNode) -> None:
    groups.commit(node, "page-guarded", TOPIC, {0: 1})
    body = {"name": "pg-viewer", "role": "viewer"}
    viewer = web.http(web.client.post("/v3/tokens", json=body).json()["token"])
    seen = viewer.get("/groups/page-guarded").text
    assert "Reset offsets" not in seen
    assert "Delete offsets" not in seen
    assert viewer.post("/group-reset", data={"group": "page-guarded", "way": "to-latest"}).status_code == 403
    assert viewer.get("/group-delete?group=page-guarded").status_code == 403


def test_a_topic_has_its_groups_and_producers(web: LiveWeb, node: CombinedNode) -> None:
    groups.commit(node, "page-reader", TOPIC, {0: 4})
    read = shown(
        web, f"/topics/{TOPIC}/groups", 'data-key="page-reader"', '<td class="num">5</td>', forget="page-reader"
    )
    assert cells(read, "page-reader") == ["page-reader", "Empty", "0", "1", "5"]
    written = shown(web, f"/topics/{TOPIC}/producers", "<tr data-key")
    first, *_ = re.findall(r'<tr data-key="0 (\d+)"', written)
    assert cells(written, f"0 {first}")[:4] == ["0", first, "0", "8"]
    assert page(web, "/topics/no-such-topic/groups", 404)
    assert page(web, "/topics/no-such-topic/producers", 404)


def test_a_broker_without_transactions_is_named(web: LiveWeb) -> None:
    said = shown(web, "/transactions?state=Ongoing", "Broker 1 serves no transactions: its software has no transaction")
    assert "No transactional ids yet." in said


def test_a_type_of_group_that_no_broker_serves_is_named(web: LiveWeb) -> None:
    shown(web, "/groups?type=Share", "No broker serves groups of the type Share: none supports share.version.")
    assert "No broker serves" not in page(web, "/groups?type=Consumer")


def test_the_search_finds_groups(web: LiveWeb, node: CombinedNode) -> None:
    groups.commit(node, "found/by search", TOPIC, {0: 1})
    found = shown(web, "/search?q=SEARCH+found", ">found/by search<", forget="found/by search")
    assert 'href="/groups/?id=found%2Fby+search"' in found
    assert ">found/by search<" not in page(web, "/search?q=search+lost")
