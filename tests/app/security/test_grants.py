"""Roles in one cluster and for a prefix: every route for callers with grants, made from the routes themselves."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from bs4 import BeautifulSoup
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from app.pages import site
from app.rest import api
from app.security.roles import Grant, Place, Principal, Role
from app.services import Requires
from tests.app.live import CombinedNode, LiveWeb, combined_node
from tests.app.security.test_logins import FORM, add_user, login, session_token
from tests.app.test_clusters import add, remove, wait_for
from tests.interop import kafka

OPEN = {
    "/language",
    "/healthz",
    "/readyz",
    "/metrics",
    "/login",
    "/login/code",
    "/login/link",
    "/login/oidc",
    "/login/oidc/callback",
}
"""Routes that need no caller, or check the caller of a login themselves."""
TOPIC = re.compile(r"^/topics/\{name\}(/|$)|^/v3/clusters/\{cluster_id\}/topics/\{topic_name\}(/|$)")
SAFE = {"GET", "HEAD"}


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    requires: Requires

    @property
    def role(self) -> Role:
        role = self.requires.role
        return role if isinstance(role, Role) else Role.EDITOR  # the settings records_read and records_write

    def address(self, cluster_id: str, topic: str) -> str:
        path = self.path.replace("{cluster_id}", cluster_id)
        path = path.replace("/topics/{name}", f"/topics/{topic}").replace("/topics/{topic_name}", f"/topics/{topic}")
        path = re.sub(r"\{(\w+_id|offset|partition|epoch)\}", "1", path)
        return re.sub(r"\{\w+\}", "x", path)


def requirement(dependant: Dependant) -> Requires | None:
    if isinstance(dependant.call, Requires):
        return dependant.call
    return next((found for each in dependant.dependencies if (found := requirement(each)) is not None), None)


def routes() -> list[Route]:
    found = []
    for route in [route for router in (*api.ROUTERS, *site.ROUTERS) for route in router.routes]:
        assert isinstance(route, APIRoute)
        needed = requirement(route.dependant)
        assert (needed is None) == (route.path in OPEN), f"{route.path} is open to everybody, or needlessly in OPEN"
        if needed is not None:
            found += [Route(method, route.path, needed) for method in sorted(route.methods - {"HEAD"})]
    return found


def allowed(route: Route, role: Role, own: Role, on_topic: Role, *, some_topics: bool = False) -> bool:
    """What the documentation says, apart from the code under test."""
    if route.requires.own:
        return own >= route.role
    has = on_topic if TOPIC.match(route.path) else role
    return has >= route.role or (route.requires.some_topics and some_topics)


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CombinedNode]:
    with combined_node(tmp_path_factory.mktemp("granted")) as running:
        yield running


@pytest.fixture(scope="module")
def both(web: LiveWeb, second: CombinedNode) -> Iterator[LiveWeb]:
    kafka.wait_until(
        lambda: add(web, "granted", second, name="Granted").status_code == 200, 60, "the cluster is added", 0.2
    )
    wait_for(web, "granted")
    yield web
    remove(web, "granted")


def user(web: LiveWeb, name: str, own: str, *grants: tuple[str, str, str]) -> tuple[httpx.Client, str]:
    """Return the browser of a user with these grants, and the token of its forms."""
    add_user(web, name, own)
    for cluster, prefix, role in grants:
        body = {"cluster": cluster, "topic_prefix": prefix, "role": role}
        assert web.client.put(f"/v3/users/{name}/grants", json=body).status_code == 200
    client = login(web, name)
    return client, session_token(client) if own != "none" else ""


def send(client: httpx.Client, token: str, method: str, address: str) -> httpx.Response:
    """Send a request that changes nothing where it is allowed."""
    headers = {**FORM, "X-CSRF-Token": token} | ({"Accept": "*/*"} if "/v3/" in address else {})
    if method not in SAFE and "/v3/" in address:
        address += ("&" if "?" in address else "?") + "validate_only=true"
    return client.request(method, address, headers=headers)


def check(web: LiveWeb, caller: tuple[httpx.Client, str], address: str, route: Route, is_allowed: bool) -> None:
    if is_allowed and route.method not in SAFE and not route.path.startswith("/v3/"):
        return  # pages have no dry run
    if is_allowed and ("/events" in address or "watch" in address or "tail" in address):
        return  # never ends
    answer = send(*caller, route.method, address)
    assert (answer.status_code == 403) == (not is_allowed), f"{route.method} {address}: {answer.text[:500]}"


def test_a_role_in_one_cluster_is_one_there_and_nowhere_else(both: LiveWeb, second: CombinedNode) -> None:
    caller = user(both, "of-granted", "viewer", ("granted", "", "admin"))
    home = both.cluster.rpartition("/")[2]
    for route in routes():
        there, here = route.address(second.cluster_id, "x"), route.address(home, "x")
        check(both, caller, f"/c/granted{there}", route, allowed(route, Role.ADMIN, Role.VIEWER, Role.ADMIN))
        if not allowed(route, Role.VIEWER, Role.VIEWER, Role.VIEWER):
            check(both, caller, here, route, is_allowed=False)


def test_a_role_for_a_prefix_counts_for_its_topics_only(both: LiveWeb) -> None:
    caller = user(both, "of-pay", "viewer", ("", "pay.", "editor"))
    home = both.cluster.rpartition("/")[2]
    for route in routes():
        own = allowed(route, Role.VIEWER, Role.VIEWER, Role.EDITOR, some_topics=True)
        check(both, caller, route.address(home, "pay.orders"), route, own)
        if TOPIC.match(route.path) and not allowed(route, Role.VIEWER, Role.VIEWER, Role.VIEWER):
            check(both, caller, route.address(home, "other.orders"), route, is_allowed=False)
    client, token = caller
    made = client.post(f"{both.cluster}/topics", json={"topic_name": "pay.new"}, headers={"X-CSRF-Token": token})
    assert made.status_code == 201, made.text
    refused = client.post(f"{both.cluster}/topics", json={"topic_name": "other.new"}, headers={"X-CSRF-Token": token})
    assert (refused.status_code, "for topic other.new" in refused.text) == (403, True)
    assert 'href="/create-topic"' in client.get("/topics").text
    assert "/topics/pay.new/delete" in client.get("/topics/pay.new").text
    assert both.client.delete(f"{both.cluster}/topics/pay.new").status_code == 204


def test_a_user_without_a_role_sees_the_granted_cluster_only(both: LiveWeb, second: CombinedNode) -> None:
    client, _ = user(both, "of-none", "none", ("granted", "", "viewer"))
    home = both.cluster.rpartition("/")[2]
    for route in routes():
        if route.method in SAFE and route.role >= Role.VIEWER:
            check(both, (client, ""), route.address(home, "x"), route, is_allowed=False)
    assert client.get("/c/granted/topics", headers=FORM).status_code == 200
    assert [each["cluster_id"] for each in client.get("/v3/clusters").json()["data"]] == [second.cluster_id]
    page = client.get("/clusters", headers=FORM).text
    assert ("Granted" in page, 'data-key="default"' in page) == (True, False)
    assert client.get("/account", headers=FORM).status_code == 200


def test_a_token_has_what_its_maker_has_in_each_cluster(both: LiveWeb, second: CombinedNode) -> None:
    client, token = user(both, "maker-there", "admin", ("granted", "", "admin"))
    made = client.post("/v3/tokens", json={"name": "of-maker-there", "role": "editor"}, headers={"X-CSRF-Token": token})
    program = both.http(made.json()["token"])
    there, here = f"/v3/clusters/{second.cluster_id}/topics", f"{both.cluster}/topics"
    body, dry = {"topic_name": "by-token"}, "?validate_only=true"
    assert program.post(here + dry, json=body).status_code == 200
    assert both.client.patch("/v3/users/maker-there", json={"role": "none"}).status_code == 200
    assert program.post(here + dry, json=body).status_code == 403
    assert program.post(there + dry, json=body).status_code != 403
    deleted = both.client.delete("/v3/users/maker-there/grants", params={"cluster": "granted"})
    assert deleted.status_code == 204
    assert program.get(there).status_code == 403


def test_a_token_for_one_cluster_and_prefix_is_valid_there_alone(both: LiveWeb, second: CombinedNode) -> None:
    there, here = f"/v3/clusters/{second.cluster_id}", both.cluster

    def made(client: httpx.Client, **body: object) -> httpx.Client:
        answer = client.post("/v3/tokens", json={"role": "admin", **body})
        assert answer.status_code == 201, answer.text
        return both.http(answer.json()["token"])

    def status(program: httpx.Client, cluster: str, topic: str = "") -> int:
        if not topic:
            return program.get(f"{cluster}/topics").status_code
        return program.post(f"{cluster}/topics?validate_only=true", json={"topic_name": topic}).status_code

    whole = made(both.client, name="for-granted", cluster="granted")
    part = made(both.client, name="for-granted-pay", cluster="granted", topic_prefix="pay.", role="editor")
    assert [status(whole, there), status(whole, here)] == [200, 403]
    assert [status(part, there), status(part, here)] == [200, 403]
    assert [status(part, there, "pay.x"), status(part, there, "else")] == [200, 403]
    assert [each["cluster_id"] for each in part.get("/v3/clusters").json()["data"]] == [second.cluster_id]
    for path in ("/v3/users", "/v3/tokens", "/v3/audit"):
        assert whole.get(path).status_code == 403, "what belongs to no cluster needs an own role"
    listed = {
        each["name"]: (each["cluster"], each["topic_prefix"]) for each in both.client.get("/v3/tokens").json()["data"]
    }
    assert (listed["for-granted"], listed["for-granted-pay"], listed["environment"]) == (
        ("granted", ""),
        ("granted", "pay."),
        (None, ""),
    )
    page = {"name": "for-default-a", "role": "viewer", "cluster": "default", "topic_prefix": "a"}
    assert "cnc_" in both.client.post("/access/tokens", data=page).text
    assert "<code>a…</code>" in both.client.get("/access/tokens").text
    for wrong, said in (
        ({"cluster": "gone"}, "cluster 'gone' is not one of"),
        ({"topic_prefix": "pay."}, "A prefix of topics needs a cluster."),
        ({"cluster": "granted", "topic_prefix": "a b"}, "topic_prefix"),
    ):
        answer = both.client.post("/v3/tokens", json={"name": "wrong", "role": "viewer", **wrong})
        assert (answer.status_code, said in answer.text) == (422, True), answer.text


def test_the_form_of_a_token_names_only_clusters_that_the_user_may_see(both: LiveWeb) -> None:
    client, _ = user(both, "seer", "none", ("granted", "", "viewer"))
    page = BeautifulSoup(client.get("/account/tokens", headers=FORM).text, "html.parser")
    offered = [str(each["value"]) for each in page.select("select[name=cluster] option")]
    assert offered == ["", "granted"]
    form = {"name": "of-seer", "role": "viewer", "cluster": "default"}
    form["csrf_token"] = str(page.select("input[name=csrf_token]")[0]["value"])
    refused = client.post("/account/tokens", data=form, headers=FORM)
    assert (refused.status_code, "is not one of granted." in refused.text) == (422, True), refused.text


def test_what_a_place_leaves_of_rights() -> None:
    grants = (Grant("a", "pay.in.", Role.ADMIN), Grant("a", "p", Role.EDITOR), Grant("b", "", Role.ADMIN))
    place = Place("a", "pay.")
    assert place.narrowed(Role.NONE, grants) == (Grant("a", "pay.in.", Role.ADMIN), Grant("a", "pay.", Role.EDITOR))
    assert place.narrowed(Role.VIEWER, grants[2:]) == (Grant("a", "pay.", Role.VIEWER),)
    assert Place("a").narrowed(Role.NONE, (Grant("a", "x", Role.EDITOR),)) == (Grant("a", "x", Role.EDITOR),)
    assert place.narrowed(Role.NONE, (Grant("a", "x", Role.EDITOR), Grant("b", "pay.", Role.EDITOR))) == ()


def test_grants_are_given_and_taken_on_a_page(both: LiveWeb) -> None:
    add_user(both, "paged", "viewer")
    url = "/access/users/paged/grants"
    form = {"cluster": "granted", "topic_prefix": "pay.", "role": "editor"}
    preview = both.client.post(url, data=form).text
    assert "Role in cluster Granted for topics pay.…" in preview
    assert "No roles for single clusters" in both.client.get(url).text, "a preview changes nothing"
    assert both.client.post(url, data={**form, "confirmed": "yes"}).status_code == 303
    assert "pay.…" in both.client.get(url).text
    assert "1 more role" in both.client.get("/access").text
    for wrong, said in (
        ({"cluster": "gone"}, "cluster &#39;gone&#39; is not one of"),
        ({"topic_prefix": "a b"}, "starts no topic name"),
        ({"role": "boss"}, "&#39;boss&#39; is not a role"),
        ({"role": "none"}, "A grant needs a role"),
    ):
        answer = both.client.post(url, data={**form, **wrong})
        assert (answer.status_code, said in answer.text) == (422, True), answer.text
    gone = both.client.post(f"{url}/remove", data={"cluster": "granted", "topic_prefix": "pay.", "confirmed": "yes"})
    assert gone.status_code == 303
    assert both.client.post(f"{url}/remove", data={"cluster": "granted", "topic_prefix": "pay."}).status_code == 422


def test_the_highest_of_own_role_and_grants_counts() -> None:
    grants = (Grant("a", "", Role.EDITOR), Grant("a", "pay.", Role.ADMIN), Grant("b", "x", Role.EDITOR))
    caller = Principal(kind="user", id=1, name="ann", own_role=Role.NONE, grants=grants)
    assert [caller.role_in(key) for key in ("", "a", "b")] == [Role.NONE, Role.EDITOR, Role.VIEWER]
    in_a = caller.in_cluster("a")
    assert [in_a.role_on(topic) for topic in ("pay.x", "pay", "else")] == [Role.ADMIN, Role.EDITOR, Role.EDITOR]
    assert caller.in_cluster("b").role_on("y") is Role.NONE
    assert caller.highest_role is Role.ADMIN
