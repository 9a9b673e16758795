"""Elections over many topics: the page and its REST call, on a real controller and brokers that only register."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from bs4 import BeautifulSoup

from app.actions import long_elections
from app.cluster import elections
from app.rest.schemas.partitions import ElectionData, ElectionPartitionDataList
from kraft_core.clients.admin.partitions import ElectionType
from kraft_core.image.trie_items import values_of
from kraft_core.protocol.errors import ErrorCode, KafkaError
from tests.app.live import LiveWeb
from tests.app.pages.conftest import create
from tests.app.pages.test_moves import action_of, fields, post, soup, table
from tests.app.reports.clusters import random_image
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
            "/elections?type=PREFERRED&topics=expired.elected&step=preview",
            "/elections",
            "/elections?type=PREFERRED&topics=expired.elected&step=preview",
            "Elect leaders of 2",
        ),
        (
            "/moves/new?goal=move&topics=expired.moved&to_rack=b&to_rack=c&throttle=7&step=save",
            "/plans",
            "/",  # all that browsers send of an address over 4,096 characters
            "&#34;throttle_bytes_per_second&#34;: 7340032",
        ),
        (
            "/moves/new?goal=paste&plan=expired.pasted+0+1%2C4%0Aexpired.pasted+1+4%2C2&moves=3&step=save",
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
    (topic, *_) = re.findall(r"expired\.[a-z]+", address)  # its own: another test elects all leaders
    not_preferred(racked, topic, 2)
    user = topic.replace(".", "-")
    add_user(racked, user, "admin")
    client = login(racked, user)
    preview = client.get(address, headers=FORM)
    assert said in preview.text
    before = leaders(racked, topic), racked.client.get(f"{racked.cluster}/plans").json()
    assert racked.client.delete(f"/v3/users/{user}/sessions").status_code == 204
    form, action = fields(soup(preview, 200), form_of), action_of(soup(preview, 200), form_of)
    wanted = address if "next=" in action else "/kept-form"
    refused = client.post(action, data=form, headers={**FORM, "Referer": f"{racked.url}{referer}"})
    assert (refused.status_code, refused.headers["location"]) == (303, f"/login?next={quote(wanted, safe='')}")
    page = BeautifulSoup(client.get(refused.headers["location"], headers=FORM).text, "html.parser")
    again = {str(each["name"]): str(each.get("value", "")) for each in page.select("form[action='/login'] input[name]")}
    done = client.post("/login", data={**again, "name": user, "password": PASSWORD}, headers=FORM)
    assert (done.status_code, done.headers["location"]) == (303, wanted)
    assert said in client.get(address, headers=FORM).text
    assert (leaders(racked, topic), racked.client.get(f"{racked.cluster}/plans").json()) == before
    for foreign in (f"{racked.url}//evil.example", "http://[", "/" * 2_000, ""):
        elsewhere = racked.http().post(form_of, data=form, headers={**FORM, "Referer": foreign})
        assert elsewhere.status_code == 303, elsewhere.text
        assert urlsplit(elsewhere.headers["location"]).netloc == "", foreign
    for path, foreign in ((form_of, "http://evil.example/elections"), (f"{form_of}?next=//evil.example", racked.url)):
        elsewhere = racked.http().post(path, data=form, headers={**FORM, "Referer": foreign})
        assert (elsewhere.status_code, elsewhere.headers["location"]) == (303, "/login")


@pytest.mark.parametrize(
    ("posted", "page"),
    [("/plans/5/approve", "/plans/5"), ("/plans/5/pause?x=y", "/plans/5"), ("/no/such/page/at/all", "/")],
)
def test_a_login_returns_to_the_page_of_a_preview_that_was_posted(web: LiveWeb, posted: str, page: str) -> None:
    sent = web.http().post(posted, data={"confirmed": "yes"}, headers={**FORM, "Referer": f"{web.url}{posted}"})
    wanted = "/login" if page == "/" else f"/login?next={quote(page, safe='')}"
    assert (sent.status_code, sent.headers["location"]) == (303, wanted)


def test_the_page_shows_the_leaders_before_and_after_and_elects_them(racked: LiveWeb) -> None:
    not_preferred(racked, "elected.a", 3)
    not_preferred(racked, "elected.b", 2)
    page = soup(racked.client.get("/elections?topics=elected.*", headers=FORM), 200)
    change = {row[0]: row[3] for row in table(page, "leaders")}
    assert (change["1"], change["2"]) == ("\N{MINUS SIGN}5", "+5")
    assert len(table(page, "partitions")) == 5
    preview = confirmation(racked, type="PREFERRED", topics="elected.*")
    assert "Elect leaders of 5 partitions" in preview.get_text()
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
    monkeypatch.setattr("app.pages.elections.is_long", lambda _partitions: False)  # as for selected topics
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


class Controller:
    """The real one behind a door, and what it was asked for. `error` is raised while the door is closed."""

    def __init__(self, web: LiveWeb, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: Exception | None = None
        self.batches_before_error = 1
        self.asked = 0
        admin = web.services.cluster.admin.partitions
        real = admin.elect_leaders

        async def elect(_self: object, *arguments: Any, **options: Any) -> object:
            self.asked += 1
            if self.error is not None and self.asked > self.batches_before_error:
                raise self.error
            return await real(*arguments, **options)

        monkeypatch.setattr(type(admin), "elect_leaders", elect)


@pytest.fixture
def controller(racked: LiveWeb, monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    """Make an election of more than two partitions a long one, whose batches can be held up."""
    monkeypatch.setattr(elections, "BATCH", 2)
    monkeypatch.setattr(long_elections, "RETRY_SECONDS", 0.02)
    door = Controller(racked, monkeypatch)
    yield door
    door.error = None
    newest = racked.call(racked.services.actions.long_elections.newest())
    kafka.wait_until(lambda: newest is None or newest.state != "running", 30, "no election is being held", 0.02)


def begun(web: LiveWeb, topics: str) -> str:
    """Begin an election of these topics, and return the address of its page."""
    answer = web.client.post("/elections", data={"topics": topics, "confirmed": "yes"}, headers=FORM)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def held(web: LiveWeb, address: str, said: str) -> BeautifulSoup:
    """Return the page of an election once it says this."""

    def page() -> BeautifulSoup | None:
        found = soup(web.client.get(address, headers=FORM), 200)
        return found if said in " ".join(found.get_text().split()) else None

    return kafka.wait_until(page, 30, f"the page says {said!r}", 0.05)


def test_a_long_election_is_answered_at_once_and_its_page_has_every_result(
    racked: LiveWeb, controller: Controller
) -> None:
    not_preferred(racked, "long.a", 3)
    not_preferred(racked, "long.b", 2)
    assert "the next page shows the progress" in confirmation(racked, type="PREFERRED", topics="long.*").get_text()
    page = held(racked, begun(racked, "long.*"), "Every partition has the leader that was asked for.")
    assert (controller.asked, leaders(racked, "long.a"), leaders(racked, "long.b")) == (3, [2] * 3, [2] * 2)
    assert table(page, "results") == [[f"long.{name}", "elected"] for name in ("a -0", "a -1", "a -2", "b -0", "b -1")]
    change = {row[0]: row[3] for row in table(page, "leaders")}
    assert (change["1"], change["2"]) == ("\N{MINUS SIGN}5", "+5")
    assert "data-live-every" not in str(page.select_one("#election")), "an ended election is not fetched again"
    listed = racked.client.get("/elections", headers=FORM).text
    assert "Election of 5 partitions" in listed
    events = racked.client.get("/v3/audit?action=partitions.elect&page_size=3").json()["data"]
    assert [each["detail"]["count"] for each in events] == [1, 2, 2]
    assert len({each["detail"]["election"] for each in events}) == 1
    unknown = racked.client.get("/elections/0123456789abcdef", headers=FORM)
    assert (unknown.status_code, "What was elected is in the audit." in unknown.text) == (404, True)


def test_a_long_election_outlives_the_leader_and_the_session(racked: LiveWeb, controller: Controller) -> None:
    not_preferred(racked, "outlived", 5)
    if "brief" not in racked.client.get("/v3/users").text:
        add_user(racked, "brief", "editor")
    client = login(racked, "brief")
    controller.error = ConnectionError("the controller is gone")
    preview = client.get("/elections?topics=outlived&step=preview", headers=FORM)
    form = fields(BeautifulSoup(preview.text, "html.parser"), "/elections")
    address = client.post("/elections", data=form, headers=FORM).headers["location"]
    page = held(racked, address, "The present batch is repeated: the controller is gone")
    assert [row[1] for row in table(page, "results")] == ["elected"] * 2 + ["waiting"] * 3
    assert racked.client.delete("/v3/users/brief/sessions").status_code == 204
    out = client.get(address, headers=FORM)
    assert (out.status_code, out.headers["location"]) == (303, f"/login?next={quote(address, safe='')}")
    other = racked.client.post("/elections", data={"topics": "outlived", "confirmed": "yes"}, headers=FORM)
    assert (other.status_code, other.headers["location"]) == (303, address)
    busy = racked.client.post(f"{racked.cluster}/leaders:elect", json={"topic_names": ["outlived"]})
    assert busy.status_code == 409, busy.text
    controller.error = KafkaError(ErrorCode.NOT_CONTROLLER, "another leads")
    held(racked, address, "The present batch is repeated: another leads")
    controller.error = None
    held(racked, address, "Every partition has the leader that was asked for.")
    assert leaders(racked, "outlived") == [2] * 5


def test_a_long_election_that_cannot_go_on_says_what_was_elected_and_why(
    racked: LiveWeb, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_elections, "PATIENCE_SECONDS", 0.0)
    not_preferred(racked, "stopped", 5)
    controller.error = ConnectionError("the controller is gone")
    answer = racked.client.post(f"{racked.cluster}/leaders:elect", json={"topic_names": ["stopped"]})
    assert answer.status_code == 202, answer.text
    address = answer.headers["location"]

    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = ElectionData.model_validate(racked.client.get(address).json()).model_dump()
        return found if found["state"] != "running" else None

    found = kafka.wait_until(ended, 30, "it has stopped", 0.02)
    assert (found["state"], found["stopped_by"]) == ("stopped", "the controller is gone")
    assert (found["elected_count"], found["refused_count"], found["partitions_count"]) == (2, 0, 5)
    listed = ElectionPartitionDataList.model_validate(racked.client.get(f"{address}/partitions").json())
    assert [each.state for each in listed.data] == ["elected"] * 2 + ["pending"] * 3
    page = held(racked, f"/elections/{found['election_id']}", "Stopped: 3 partitions were not elected.")
    assert [row[1] for row in table(page, "results")] == ["elected"] * 2 + ["not elected"] * 3
    controller.error = None
    wanted = [{"topic_name": "stopped", "partition_id": index} for index in (2, 3, 4, 7)]
    again = racked.client.post(f"{racked.cluster}/leaders:elect", json={"partitions": wanted})
    page = held(racked, f"/elections/{again.json()['election_id']}", "Some partitions were refused.")
    assert table(page, "results")[0] == ["stopped -7", "No such partition as stopped-7 (UNKNOWN_TOPIC_OR_PARTITION)"]
    assert leaders(racked, "stopped") == [2] * 5


@pytest.mark.parametrize("seed", range(8))
def test_a_preview_of_many_is_that_of_each(seed: int) -> None:
    state = random_image(seed)
    for election in ElectionType:
        wanted = [
            (topic.name, index) for topic in values_of(state.topics.by_id) for index, _ in topic.sorted_partitions()
        ]
        alone = [each for key in wanted for each in elections.previewed(state, election, [key])]
        assert elections.previewed(state, election, wanted) == alone
