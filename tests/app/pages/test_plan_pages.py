"""The pages of plans: proposals with limits, and what a plan does to the bytes of racks."""

from app.pages.plans import bytes_text
from app.reports.executor.plan import Row
from app.reports.executor.plan_store import NewPlan, create
from tests.app.live import LiveWeb

HTML = {"Accept": "text/html"}
SHARE = {"rack": "<a>", "brokers": 2, "before": {"max": 80, "min": 30}, "after": {"max": 60, "min": 50}}
SHARE |= {"bound": 55, "gap": 5}


def test_a_limit_that_is_no_amount_is_refused_with_its_name(web: LiveWeb) -> None:
    for form, said in (
        ({"max_moves": "few"}, "Replicas to copy &#39;few&#39; is not a whole number"),
        ({"max_moves": "0"}, "Replicas to copy &#39;0&#39; is not a whole number from 1"),
        ({"max_bytes": "5 stones"}, "Bytes to copy: &#39;5 stones&#39; has an unknown unit"),
    ):
        answer = web.client.get("/moves/new", params={"goal": "bytes", "step": "review", **form}, headers=HTML)
        assert answer.status_code == 422
        assert said in answer.text
    asked = {"goal": "bytes", "step": "review", "max_bytes": "12345678901234"}
    right = web.client.get("/moves/new", params=asked, headers=HTML)
    assert "no change" in right.text or "Bytes cannot be balanced" in right.text


def test_a_plan_says_what_it_does_to_the_bytes_of_each_rack(web: LiveWeb) -> None:
    said = (
        "The fullest broker of rack <a> would have 60 B instead of 80 B. "
        "No placement of the rack's replicas has less than 55 B (gap 5 B)."
    )
    assert bytes_text([SHARE]) == [said]
    lines = bytes_text([{**SHARE, "rack": None}] * 25)
    assert (len(lines), lines[-1]) == (21, "5 more racks are not shown.")
    row = Row(topic="t", topic_id="AAAAAAAAAAAAAAAAAAAAAQ", partition=0, original=(1,), proposed=(2,))
    options = {"proposal": {"byte_shares": [SHARE]}}
    new = NewPlan(cluster_id=web.services.cluster.cluster_id or "", origin="options", rows=[row], options=options)
    plan = web.call(web.services.database.write(create, new, "ann"))
    assert "The fullest broker of rack &lt;a&gt; would have 60 B" in web.client.get(f"/plans/{plan.id}").text
