"""Elections over many topics: the page and its REST call, on a real controller and brokers that only register."""

import asyncio
from urllib.parse import quote, urlsplit

import pytest
from bs4 import BeautifulSoup

from app.cluster import elections
from tests.app.live import LiveWeb
from tests.app.pages.conftest import create
from tests.app.pages.test_moves import action_of, fields, post, soup, table
from tests.app.security.test_logins import FORM, PASSWORD, add_user, login
from tests.interop import conclave, kafka


def not_preferred(web: LiveWeb, topic: str, partitions: int) -> None:
    """Create a topic whose partitions are led by broker 1 while 2 is preferred and in sync."""
    create(web, topic, *([1, 2] for _ in range(partitions)))
    data = [{"topic_name": topic, "partition_id": index, "replica_ids": [2, 1]} for index in range(partitions)]
    assert web.client.post(f"{web.cluster}/reassignments", json={"data": data}).status_code == 200


def leaders(web: LiveWeb, topic: str) -> list[int | None]:
    found = web.client.get(f"{web.cluster}/topics/{topic}/partitions").json()["data"]
    return [each["leader_id"] for each in found]


def confirmation(web: LiveWeb, **form: str) -> BeautifulSoup:
    """Return the preview, which has an address of its own."""
    asked = web.client.post("/elections", data=form, headers=FORM, follow_redirects=False)
    assert (asked.status_code, "step=preview" in asked.headers["location"]) == (303, True)
    return soup(web.client.get(asked.headers["location"], headers=FORM), 200)


@pytest.mark.parametrize(
    ("address", "form_of", "referer", "said"),
    [
        (
            "/elections?type=PREFERRED&topics=expired&step=preview",
            "/elections",
            "/elections?type=PREFERRED&topics=expired&step=preview",
            "Elect leaders of 2",
        ),
        (
            "/moves/new?goal=move&topics=expired&to_rack=b&to_rack=c&throttle=7&step=save",
            "/plans",
            "/",  # all that browsers send of an address over 4,096 characters
            "&#34;throttle_bytes_per_second&#34;: 7340032",
        ),
        (
            "/moves/new?goal=paste&plan=expired+0+1%2C4%0Aexpired+1+4%2C2&moves=3&step=save",
            "/plans",
            "/",
            "&#34;moves_per_broker&#34;: 3",
        ),
    ],
    ids=["elections", "moves", "pasted"],
)
def test_a_session_that_expires_before_the_confirmation_returns_to_the_preview(
    racked: LiveWeb, address: str, form_of: str, referer: str, said: str
) -> None:
    if racked.client.get(f"{racked.cluster}/topics/expired").status_code == 404:
        not_preferred(racked, "expired", 2)
        add_user(racked, "late", "admin")
    client = login(racked, "late")
    preview = client.get(address, headers=FORM)
    assert said in preview.text
    before = leaders(racked, "expired"), racked.client.get(f"{racked.cluster}/plans").json()
    assert racked.client.delete("/v3/users/late/sessions").status_code == 204
    form, action = fields(soup(preview, 200), form_of), action_of(soup(preview, 200), form_of)
    refused = client.post(action, data=form, headers={**FORM, "Referer": f"{racked.url}{referer}"})
    assert (refused.status_code, refused.headers["location"]) == (303, f"/login?next={quote(address, safe='')}")
    page = BeautifulSoup(client.get(refused.headers["location"], headers=FORM).text, "html.parser")
    again = {str(each["name"]): str(each.get("value", "")) for each in page.select("form[action='/login'] input[name]")}
    done = client.post("/login", data={**again, "name": "late", "password": PASSWORD}, headers=FORM)
    assert (done.status_code, done.headers["location"]) == (303, address)
    assert said in client.get(address, headers=FORM).text
    assert (leaders(racked, "expired"), racked.client.get(f"{racked.cluster}/plans").json()) == before
    for foreign in (f"{racked.url}//evil.example", "http://[", "/" * 2_000, ""):
        elsewhere = racked.http().post(form_of, data=form, headers={**FORM, "Referer": foreign})
        assert elsewhere.status_code == 303, elsewhere.text
        assert urlsplit(elsewhere.headers["location"]).netloc == "", foreign
    for path, foreign in ((form_of, "http://evil.example/elections"), (f"{form_of}?next=//evil.example", racked.url)):
        elsewhere = racked.http().post(path, data=form, headers={**FORM, "Referer": foreign})
        assert (elsewhere.status_code, elsewhere.headers["location"]) == (303, "/login")


def test_the_page_shows_the_leaders_before_and_after_and_elects_them(
    racked: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_preferred(racked, "elected.a", 3)
    not_preferred(racked, "elected.b", 2)
    page = soup(racked.client.get("/elections?topics=elected.*", headers=FORM), 200)
    change = {row[0]: row[3] for row in table(page, "leaders")}
    assert (change["1"], change["2"]) == ("\N{MINUS SIGN}5", "+5")
    assert len(table(page, "partitions")) == 5
    preview = confirmation(racked, type="PREFERRED", topics="elected.*")
    assert "Elect leaders of 5 partitions" in preview.get_text()
    monkeypatch.setattr(elections, "BATCH", 2)  # three requests
    done = racked.client.post("/elections", data=fields(preview, "/elections"), headers=FORM, follow_redirects=False)
    assert (done.status_code, done.headers["location"]) == (303, "/elections?topics=elected.%2A")
    assert leaders(racked, "elected.a") + leaders(racked, "elected.b") == [2] * 5
    empty = racked.client.get("/elections?topics=elected.*", headers=FORM)
    assert "Every partition is led by its preferred replica." in empty.text


def test_an_unclean_election_is_for_ticked_partitions_and_typed_for(racked: LiveWeb) -> None:
    refused = post(racked, "/elections", 422, type="UNCLEAN")
    assert "Tick the partitions of which records may be lost." in refused.get_text()
    create(racked, "unclean", [4], [1])
    adding = {"topic_name": "unclean", "partition_id": 0, "replica_ids": [4, 1]}
    assert racked.client.post(f"{racked.cluster}/reassignments", json={"data": [adding]}).status_code == 200
    asyncio.run(fence(racked, 4))
    try:
        kafka.wait_until(lambda: leaders(racked, "unclean") == [None, 1], 60, "it has lost its leader", 0.02)
        page = soup(racked.client.get("/elections?type=UNCLEAN&topics=unclean", headers=FORM), 200)
        (row,) = table(page, "partitions")
        assert row[2:4] == ["none", "1"]
        assert row[6] == "Records that only broker 4 has."
        preview = confirmation(racked, type="UNCLEAN", topics="unclean", p="unclean-0")
        assert "unclean-0 may lose: Records that only broker 4 has." in preview.get_text()
        form = fields(preview, "/elections")
        untyped = post(racked, "/elections", 422, **form)
        assert "is not 'unclean'. Nothing has changed." in untyped.get_text()
        post(racked, "/elections", 303, **{**form, "typed": "unclean"})
        assert leaders(racked, "unclean") == [1, 1]
    finally:
        asyncio.run(fence(racked, 4, want_fence=False))
        racked.wait_for_broker(4)
        assert racked.client.delete(f"{racked.cluster}/topics/unclean").status_code == 204


async def fence(web: LiveWeb, broker_id: int, *, want_fence: bool = True) -> None:
    """Fence a registered broker, or unfence it."""
    client = conclave.controller_client(",".join(web.services.settings.bootstrap_controllers))
    try:
        broker = conclave.RawBroker(broker_id, web.cluster.rpartition("/")[2], client)
        broker.epoch = web.services.cluster.image.cluster.brokers[broker_id].epoch
        await broker.heartbeat(want_fence=want_fence)
    finally:
        client.close()


def test_rest_elects_leaders_of_the_cluster_of_topics_and_of_partitions(racked: LiveWeb) -> None:
    not_preferred(racked, "rest.elected", 3)
    path = f"{racked.cluster}/leaders:elect"
    dry = racked.client.post(path, json={"topic_names": ["rest.elected"], "validate_only": True}).json()
    assert [(each["partition_id"], each["error_code"]) for each in dry["data"]] == [(0, None), (1, None), (2, None)]
    change = {each["broker_id"]: each["leaders_after"] - each["leaders_before"] for each in dry["brokers"]}
    assert (change[1], change[2]) == (-3, 3)
    assert leaders(racked, "rest.elected") == [1, 1, 1]
    one = [{"topic_name": "rest.elected", "partition_id": 1}]
    assert racked.client.post(path, json={"partitions": one}).status_code == 200
    assert leaders(racked, "rest.elected") == [1, 2, 1]
    whole = racked.client.post(path, json={})
    assert whole.status_code == 200, whole.text
    assert leaders(racked, "rest.elected") == [2, 2, 2]
    again = racked.client.post(path, json={}).json()
    assert again["data"] == []
    both = racked.client.post(path, json={"partitions": one, "topic_names": ["rest.elected"]})
    assert both.status_code == 422
    absent = racked.client.post(path, json={"topic_names": ["absent"]})
    assert absent.status_code == 404
    audited = racked.client.get("/v3/audit?resource=topic/rest.elected").json()["data"]
    assert any(each["action"] == "partitions.elect" and each["detail"]["count"] == 1 for each in audited)


def test_a_batch_that_fails_after_others_ends_the_election_with_its_partitions_as_failures(
    racked: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_preferred(racked, "half.elected", 4)
    monkeypatch.setattr(elections, "BATCH", 2)
    admin = racked.services.cluster.admin.partitions
    real, calls = admin.elect_leaders, []

    async def lost_after_the_first(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        if len(calls) > 1:
            raise ConnectionError("the controller is gone")
        return await real(*arguments, **options)  # type: ignore[arg-type]  # as called

    monkeypatch.setattr(
        type(admin), "elect_leaders", lambda _self, *given, **more: lost_after_the_first(*given, **more)
    )
    result = post(racked, "/elections", topics="half.elected", confirmed="yes")
    rows = table(result, "results")
    assert [row[1] for row in rows] == ["the controller is gone (NETWORK_EXCEPTION)"] * 2 + ["elected"] * 2
