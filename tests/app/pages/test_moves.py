"""The wizard of moves, on a real controller and brokers that only register."""

import re
from urllib.parse import urlencode

import httpx
import pytest
from bs4 import BeautifulSoup, Tag

from tests.app.live import LiveWeb
from tests.app.pages.conftest import create
from tests.app.security.test_logins import FORM, add_user, login


def get(web: LiveWeb, status: int = 200, **asked: object) -> BeautifulSoup:
    pairs = [(name, one) for name, value in asked.items() for one in (value if isinstance(value, list) else [value])]
    return soup(web.client.get(f"/moves/new?{urlencode(pairs)}", headers=FORM), status)


def post(web: LiveWeb, path: str, status: int = 200, **form: object) -> BeautifulSoup:
    return soup(web.client.post(path, data=form, headers=FORM, follow_redirects=False), status)


def soup(answer: httpx.Response, status: int) -> BeautifulSoup:
    assert answer.status_code == status, answer.text
    return BeautifulSoup(answer.text, "html.parser")


def table(page: BeautifulSoup, name: str) -> list[list[str]]:
    found = page.select_one(f'table[data-table="{name}"]')
    assert found is not None, page.select_one("main")
    return [[cell.get_text(" ", strip=True) for cell in row.select("td")] for row in found.select("tbody tr")]


def fields(page: BeautifulSoup, action: str) -> dict[str, object]:
    """Return what a form would send."""
    form = form_of(page, action)
    found: dict[str, object] = {}
    for each in form.select("input[name]"):
        if each.get("type") not in {"checkbox", "radio"} or each.has_attr("checked"):
            name = str(each["name"])
            found.setdefault(name, [])
            found[name].append(str(each.get("value", "")))  # type: ignore[attr-defined]  # it is a list
    for each in form.select("select[name]"):
        chosen = each.select_one("option[selected]") or each.select_one("option")
        assert chosen is not None
        found[str(each["name"])] = str(chosen.get("value") or chosen.get_text())
    return found


def form_of(page: BeautifulSoup, path: str) -> Tag:
    """Return the form that is sent to a path."""
    form = page.select_one(f'form[action="{path}"], form[action^="{path}?"]')
    assert form is not None
    return form


def action_of(page: BeautifulSoup, path: str) -> str:
    """Return the whole address to which a form is sent."""
    return str(form_of(page, path)["action"])


def error(page: BeautifulSoup, field: str) -> str:
    """Return what is wrong with a field that says so."""
    found = page.select_one(f'[name="{field}"][aria-invalid="true"]')
    assert found is not None, page.select('[aria-invalid="true"], [role="alert"]')
    text = page.select_one(f"#{found['aria-describedby']}")
    assert text is not None
    return text.get_text()


def test_partitions_are_chosen_by_pattern_by_broker_and_by_ticks_that_other_pages_keep(racked: LiveWeb) -> None:
    create(racked, "chosen.many", *([1, 2] for _ in range(60)))
    create(racked, "chosen.few", [3], [4])
    page = get(racked, topics="chosen.*", goal="move")
    rows = table(page, "partitions")
    assert (len(rows), rows[0][1:4]) == (50, ["chosen.few", "0", "3"])
    assert "62 partitions match" in page.get_text()
    held = get(racked, topics="chosen.*", holder=4)
    assert [row[1:3] for row in table(held, "partitions")] == [["chosen.few", "1"]]
    ticks = ["chosen.few-1", "chosen.many-59"]
    page = get(racked, topics="chosen.*", p=ticks, page=2)
    assert "2 ticked" in page.get_text()
    assert [each["value"] for each in page.select('input[type="hidden"][name="p"]')] == ["chosen.few-1"]
    assert [each["value"] for each in page.select('input[name="p"][checked]')] == ["chosen.many-59"]
    assert "2 ticked partitions" in get(racked, topics="chosen.*", p=ticks, step="where").get_text()


def test_what_is_wrong_stands_at_its_field_and_nothing_is_lost(racked: LiveWeb) -> None:
    create(racked, "wrong.fields", [1])
    page = get(racked, 422, topics="wrong.fields, absent", holder="x", step="where", to=["3"])
    assert "Topic 'absent' does not exist." in error(page, "topics")
    assert page.select_one('input[name="topics"]')["value"] == "wrong.fields, absent"  # type: ignore[index]  # it is there
    assert [each["value"] for each in page.select('input[name="to"]')] == ["3"]
    assert "'x' is not a broker id" in error(page, "holder")
    assert "No topic matches 'none-*'." in error(get(racked, 422, topics="none-*", step="review"), "topics")
    assert "Choose partitions" in error(get(racked, 422, goal="move", step="where"), "topics")
    assert "does not exist" in get(racked, 422, p="wrong.fields-7", step="where").get_text()
    assert "Choose the brokers" in get(racked, 422, topics="wrong.fields", step="review").get_text()
    factor = get(racked, 422, goal="factor", topics="wrong.fields", factor="many", step="review")
    assert "'many' is not a replication factor from 1 to 63." in error(factor, "factor")
    drained = get(racked, 422, goal="drain", drain_dir="4:data", step="review")
    assert "'4:data' is not a log directory in the form BROKER:/PATH." in error(drained, "drain_dir")
    pasted = get(racked, 422, goal="paste", plan="wrong.fields 0 77", step="review")
    assert "broker 77 is not registered" in error(pasted, "plan")
    assert pasted.select_one("textarea").get_text() == "wrong.fields 0 77"  # type: ignore[union-attr]  # it is there
    limits = get(racked, 422, topics="wrong.fields", to="3", step="review", throttle="fast", unit="GiB/s", moves="0")
    assert "Throttle 'fast' is not a whole number" in error(limits, "throttle")
    assert "'0' is not a whole number from 1 to 1000." in error(limits, "moves")
    assert limits.select_one('input[name="throttle"]')["value"] == "fast"  # type: ignore[index]  # it is there
    saved = post(racked, "/plans", 422, topics="wrong.fields", to="3", throttle="fast")
    assert "Throttle 'fast' is not a whole number" in error(saved, "throttle")


def test_the_review_shows_the_balance_before_and_after_and_the_plan_is_saved_as_shown(racked: LiveWeb) -> None:
    create(racked, "reviewed", [1, 3], [1, 3], [2, 3])
    page = get(racked, topics="reviewed", to_rack=["b", "c"], step="review", throttle=20, unit="MiB/s", moves=3)
    assert table(page, "moves") == [
        ["reviewed-0", "1, 3", "4, 3"],
        ["reviewed-1", "1, 3", "4, 3"],
        ["reviewed-2", "2, 3", "4, 3"],
    ]
    before = {row[0]: [int(each.replace("\u202f", "")) for each in row[3:7]] for row in table(page, "move-brokers")}
    assert [now - then for then, now in (before["4"][:2], before["4"][2:])] == [3, 3]
    assert before["3"][0] == before["3"][1]
    assert ["Partitions that break the rack rule", "0", "0"] in [
        [row[0], "0", "0"] if row[1] == row[2] else row for row in table(page, "move-totals")
    ]
    facts = {each.select_one("dt").get_text(): each.select_one("dd").get_text() for each in page.select(".fact")}  # type: ignore[union-attr]  # both are there
    assert facts["Replicas to copy"] == facts["Leaders that change"] == "3"
    preview = get(racked, **{**fields(page, "/moves/new"), "step": "save"})
    assert "3 replicas would be copied" in preview.get_text()
    assert '"target_broker_ids": [3, 4]' in preview.get_text()
    assert '"throttle_bytes_per_second": 20971520' in preview.get_text()
    done = racked.client.post("/plans", data=fields(preview, "/plans"), headers=FORM, follow_redirects=False)
    assert done.status_code == 303, done.text
    plan = racked.client.get(f"{racked.cluster}{done.headers['location']}").json()
    assert (plan["state"], plan["partition_states"]) == ("draft", {"pending": 3})
    assert (plan["throttle_bytes_per_second"], plan["moves_per_broker"]) == (20 * 2**20, 3)
    assert plan["options"]["options"]["target_broker_ids"] == [3, 4]


def test_another_plan_than_the_one_that_was_shown_is_not_saved(racked: LiveWeb) -> None:
    create(racked, "raced", [1, 3])
    preview = post(racked, "/plans", topics="raced", to=["2", "4"])
    form = fields(preview, "/plans")
    entry = {"topic_name": "raced", "partition_id": 0, "replica_ids": [3, 1]}
    assert racked.client.post(f"{racked.cluster}/reassignments", json={"data": [entry]}).status_code == 200
    plans = len(racked.client.get(f"{racked.cluster}/plans").json()["data"])
    again = post(racked, "/plans", **form)
    assert "The cluster has changed since the preview." in again.get_text()
    assert len(racked.client.get(f"{racked.cluster}/plans").json()["data"]) == plans
    assert post(racked, "/plans", 303, **fields(again, "/plans")) is not None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"goal": "factor", "topics": "goals", "factor": "3"}, "1 replica would be copied"),
        ({"goal": "move", "topics": "goals", "to": ["3", "4"]}, "1 replica would be copied"),
        ({"goal": "repair", "topics": "goals"}, "The planner proposes no change"),
        ({"goal": "drain", "drain": ["1"]}, "Broker 1 will be cordoned when the plan starts"),
        ({"goal": "drain", "drain_rack": ["b"], "unregister": "yes"}, "Broker 3 will be unregistered once stopped."),
        ({"goal": "drain", "topics": "goals", "drain": ["1"]}, "A drain moves everything from its brokers."),
        ({"goal": "report", "report": "4711"}, "The report has no plan"),
        ({"goal": "report", "report": "x"}, "'x' is not the number of a report."),
    ],
)
def test_each_goal_is_reviewed(racked: LiveWeb, asked: dict[str, object], said: str) -> None:
    if "goals" not in racked.services.cluster.image.topics.by_name:
        create(racked, "goals", [1, 3])
    pairs = [(name, one) for name, value in asked.items() for one in (value if isinstance(value, list) else [value])]
    answer = racked.client.get(f"/moves/new?{urlencode([*pairs, ('step', 'review')])}", headers=FORM)
    assert answer.status_code in {200, 422}, answer.text
    assert said in BeautifulSoup(answer.text, "html.parser").get_text()


def test_replicas_are_typed_from_the_present_ones(racked: LiveWeb) -> None:
    create(racked, "typed", [1, 3], [2, 4])
    page = get(racked, goal="paste", topics="typed", step="where")
    assert page.select_one("textarea").get_text() == "typed 0 1,3\ntyped 1 2,4"  # type: ignore[union-attr]  # it is there
    typed = {"goal": "paste", "topics": "typed", "plan": "typed 0 1,3,4\ntyped 1 4,2"}
    shown = racked.client.post("/moves/new", data=typed, headers=FORM, follow_redirects=False)
    review = soup(racked.client.get(shown.headers["location"], headers=FORM), 200)
    assert table(review, "moves") == [["typed-0", "1, 3", "1, 3, 4"], ["typed-1", "2, 4", "4, 2"]]
    assert "1 partition only reordered" in review.get_text()
    faster = get(racked, **{**fields(review, "/moves/new"), "throttle": "5", "step": "review"})
    assert faster.select_one('input[name="throttle"]')["value"] == "5"  # type: ignore[index]  # it is there
    preview = get(racked, **{**fields(faster, "/moves/new"), "step": "save"})
    assert '"reassignment": {"version": 1' in preview.get_text()


def test_a_plan_too_long_for_an_address_is_posted_from_step_to_step(racked: LiveWeb) -> None:
    create(racked, "long", *([1, 3] for _ in range(300)))
    plan = "\n".join(f"long {index} 1,4" for index in range(300))
    review = post(racked, "/moves/new", goal="paste", plan=plan)
    faster = post(racked, "/moves/new", **{**fields(review, "/moves/new"), "throttle": "5"})
    assert faster.select_one('input[name="throttle"]')["value"] == "5"  # type: ignore[index]  # it is there
    preview = post(racked, "/plans", **fields(faster, "/moves/new"))
    assert "300 replicas would be copied" in preview.get_text()
    done = post(racked, action_of(preview, "/plans"), 303, **fields(preview, "/plans"))
    assert done.get_text() == ""


def test_a_topic_of_many_partitions_is_shown_by_the_page_and_chosen_whole(racked: LiveWeb) -> None:
    body = {"topic_name": "wide", "partitions_count": 5_000, "replication_factor": 1}
    assert racked.client.post(f"{racked.cluster}/topics", json=body).status_code == 201
    answer = racked.client.get("/moves/new?topics=wide", headers=FORM)
    assert len(answer.content) < 100_000
    page = soup(answer, 200)
    assert len(table(page, "partitions")) == 50
    assert re.search(r"5\W000 partitions match", page.get_text())
    review = racked.client.get("/moves/new?topics=wide&to=4&step=review", headers=FORM)
    assert len(review.content) < 200_000
    assert re.search(r"Partition wide-\d+|more partitions", review.text)


def test_only_an_admin_opens_the_wizard(racked: LiveWeb) -> None:
    add_user(racked, "moves-editor", "editor")
    assert login(racked, "moves-editor").get("/moves/new", headers=FORM).status_code == 403
