"""Accounts: passwords, sessions, and the confirmation of removals."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.security.passwords import LENGTH_MIN, check_new_password
from tests.app.live import LiveWeb, running_web
from tests.app.security.test_logins import FORM, PASSWORD, add_user, csrf_of, login, session_token

NEW_PASSWORD = "quite another long one"


@pytest.fixture(scope="module", autouse=True)
def no_other_admins(web: LiveWeb) -> Iterator[None]:
    """Remove the admins that these tests add: other tests rely on there being one."""
    yield
    for user in web.client.get("/v3/users").json()["data"]:
        if user["role"] == "admin" and user["name"] != "admin":
            web.client.delete(f"/v3/users/{user['name']}")


def post(client: httpx.Client, path: str, **fields: str) -> httpx.Response:
    return client.post(path, data={"csrf_token": session_token(client), **fields}, headers=FORM)


def is_in(client: httpx.Client) -> bool:
    return client.get("/account", headers=FORM).status_code == 200


@pytest.mark.parametrize(
    "password",
    [
        "short",
        "x" * (LENGTH_MIN - 1),
        "passwordpassword",
        "P@ssw0rdP@ssw0rd1",
        "123456789012345",
        "qwertyuiopasdfghjkl",
        "aaaaaaaaaaaaaaaa",
        "Summer2026!Winter2026",
        "conclaveconclave",
        "annabelleannabelle1",
        "letmeinletmein2026",
    ],
)
def test_a_short_or_common_password_is_refused(web: LiveWeb, password: str) -> None:
    refused = web.client.post("/v3/users", json={"name": "annabelle", "role": "viewer", "password": password})
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["pointer"] == "/password"
    assert password not in refused.text


@pytest.mark.parametrize(
    "password", [PASSWORD, NEW_PASSWORD, "correct horse battery staple", "der Hund bellt laut", "my dog ate 3 lemons"]
)
def test_several_unusual_words_are_a_password(password: str) -> None:
    check_new_password(password, "annabelle")


def test_a_long_password_is_checked_quickly() -> None:
    for password in ("a1" * 128, "abc1" * 64, "1" * 256, "password" * 32, "zq" * 128):
        with contextlib.suppress(ValueError):
            check_new_password(password, "annabelle")


def test_changing_ones_password_requires_the_present_one_and_ends_other_sessions(web: LiveWeb) -> None:
    add_user(web, "nina")
    here, elsewhere = login(web, "nina"), login(web, "nina")
    assert "Current password" in here.get("/account", headers=FORM).text
    for present in ("", "wrong"):
        refused = post(here, "/account/password", present=present, password=NEW_PASSWORD)
        assert (refused.status_code, "current password is wrong" in refused.text) == (422, True)
    assert is_in(elsewhere)
    assert post(here, "/account/password", present=PASSWORD, password=NEW_PASSWORD).status_code == 303
    assert is_in(here)
    assert not is_in(elsewhere)
    assert login(web, "nina").last.status_code == 401
    assert login(web, "nina", NEW_PASSWORD).last.status_code == 303


def test_an_admins_own_password_by_rest_requires_the_present_one(web: LiveWeb) -> None:
    add_user(web, "olga", "admin")
    client = login(web, "olga")
    headers = {"X-CSRF-Token": session_token(client)}
    refused = client.patch("/v3/users/olga", json={"password": NEW_PASSWORD}, headers=headers)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (403, "/present_password")
    body = {"password": NEW_PASSWORD, "present_password": PASSWORD}
    assert client.patch("/v3/users/olga", json=body, headers=headers).status_code == 200
    assert is_in(client)


def test_guesses_of_the_present_password_are_limited(tmp_path: Path) -> None:
    with running_web(tmp_path, "127.0.0.1:1", login_attempts_max=3) as web:
        add_user(web, "petra")
        client = login(web, "petra")
        token = csrf_of(client.get("/account", headers=FORM).text)
        form = {"csrf_token": token, "present": "a guess", "password": NEW_PASSWORD}
        statuses = [client.post("/account/password", data=form, headers=FORM).status_code for _ in range(4)]
        assert statuses == [422] * 3 + [429]


def test_a_session_that_a_link_opened_sets_a_password_without_the_present_one(web: LiveWeb) -> None:
    add_user(web, "rosa")
    url = web.client.post("/v3/users/rosa/login-link").json()["url"]
    client = web.http()
    form = {"token": url.partition("token=")[2], "csrf_token": csrf_of(client.get(url, headers=FORM).text)}
    assert client.post("/login/link", data=form, headers=FORM).status_code == 303
    assert "Current password" not in client.get("/account", headers=FORM).text
    assert post(client, "/account/password", password=NEW_PASSWORD).status_code == 303
    assert "Current password" in client.get("/account", headers=FORM).text
    assert post(client, "/account/password", password=PASSWORD).status_code == 422


def test_sessions_are_listed_and_ended_one_by_one_and_all_others(web: LiveWeb) -> None:
    add_user(web, "sara")
    add_user(web, "theo")
    clients = [login(web, "sara", client=web.http()) for _ in range(4)]
    marked = login(web, "sara", client=web.http())
    shown = marked.get("/account", headers=FORM).text
    assert shown.count("127.0.0.1") >= 5
    assert "this session" in shown
    ids = re.findall(r"/account/sessions/(\d+)/end", shown)
    assert len(ids) == 4
    other = login(web, "theo")
    for confirmed in ("", "yes"):
        refused = post(other, f"/account/sessions/{ids[0]}/end", confirmed=confirmed)
        assert refused.status_code == 422, "somebody else's"
    asked = post(marked, f"/account/sessions/{ids[0]}/end")
    assert ("from 127.0.0.1" in asked.text, "/v3/users/" in asked.text) == (True, False), "REST is for administrators"
    assert sum(map(is_in, clients)) == 4
    assert confirm(marked, asked).headers["location"] == "/account"
    assert sum(map(is_in, clients)) == 3
    asked = post(marked, "/account/end-other-sessions")
    assert asked.text.count("from 127.0.0.1") == 3
    assert sum(map(is_in, clients)) == 3
    assert confirm(marked, asked).headers["location"] == "/account"
    assert [sum(map(is_in, clients)), is_in(marked), is_in(other)] == [0, True, True]


def test_an_admin_sees_and_ends_sessions_by_page_and_by_rest(web: LiveWeb) -> None:
    add_user(web, "una")
    add_user(web, "vic", "admin")
    browser = web.http()
    browser.headers["User-Agent"] = "A <browser>"
    first, second = login(web, "una"), login(web, "una", client=browser)
    listed = web.client.get("/v3/users/una/sessions").json()["data"]
    assert len(listed) == 2
    assert {"created_at", "last_seen_at", "ends_at", "source", "user_agent"} <= set(listed[0])
    assert "A <browser>" in {each["user_agent"] for each in listed}
    assert web.client.delete(f"/v3/users/una/sessions/{listed[1]['id']}").status_code == 204
    assert sum(map(is_in, (first, second))) == 1
    admin = login(web, "vic")
    again = web.http()
    again.headers["User-Agent"] = "A <browser>"
    third = login(web, "una", client=again)
    everybody, of_una = (admin.get(f"/access/sessions{query}", headers=FORM).text for query in ("", "?user=una"))
    assert ("A &lt;browser&gt;" in everybody, "this session" in everybody) == (True, True), "the administrator's own"
    found = dict(re.findall(r'data-key="(\d+)".*\n.*/access/users/(\w+)/sessions/', of_una))
    assert (len(found), set(found.values())) == (2, {"una"})
    newest = next(iter(found))
    asked = post(admin, f"/access/users/una/sessions/{newest}/end")
    assert ("A &lt;browser&gt; from 127.0.0.1" in asked.text, is_in(third)) == (True, True)
    assert post(admin, f"/access/users/vic/sessions/{newest}/end", confirmed="yes").status_code == 422, "una's"
    assert confirm(admin, asked).headers["location"] == "/access/sessions"
    assert (is_in(third), sum(map(is_in, (first, second)))) == (False, 1)
    assert admin.get("/access/sessions?user=nobody-at-all", headers=FORM).status_code == 422
    shown = post(admin, "/access/users/una/end-sessions")
    assert shown.status_code == 200
    assert sum(map(is_in, (first, second))) == 1
    assert post(admin, "/access/users/una/end-sessions", confirmed="yes").status_code == 303
    assert sum(map(is_in, (first, second))) == 0
    assert web.client.delete("/v3/users/una/sessions?validate_only=true").status_code == 200
    assert web.client.delete("/v3/users/nobody/sessions").status_code == 404


def test_a_login_link_for_a_user_is_made_after_a_preview(web: LiveWeb) -> None:
    add_user(web, "vera")
    add_user(web, "vito", "admin")
    admin = login(web, "vito")
    earlier = web.client.post("/v3/users/vera/login-link").json()["url"].partition("token=")[2]
    asked = post(admin, "/access/users/vera/login-link")
    assert ("Earlier links of vera no longer log in" in asked.text, "link?token=" in asked.text) == (True, False)
    made = confirm(admin, asked)
    links = re.findall(r"/login/link\?token=([\w-]+)", made.text)
    assert (made.status_code, len(links), earlier in links) == (200, 1, False)
    statuses = []
    for token in (earlier, links[0]):
        client = web.http()
        form = {"token": token, "csrf_token": csrf_of(client.get("/login", headers=FORM).text)}
        statuses.append(client.post("/login/link", data=form, headers=FORM).status_code)
    assert statuses == [401, 303]
    assert post(admin, "/access/users/nobody-at-all/login-link").status_code == 422


def confirm(client: httpx.Client, shown: httpx.Response) -> httpx.Response:
    """Press the button of a confirmation page, as a browser without JavaScript would."""
    assert shown.status_code == 200, shown.text
    form = re.search(
        r'<form method="post" action="([^"]+)">\s*(.*?)</form>',
        shown.text[shown.text.index("<h2>Changes") :],
        re.DOTALL,
    )
    assert form is not None
    fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', form[2]))
    return client.post(form[1].replace("&#x2F;", "/"), data=fields, headers=FORM)


def test_removals_need_a_confirmation(web: LiveWeb) -> None:
    add_user(web, "walter", "admin")
    add_user(web, "xenia", "editor")
    add_user(web, "yann", "admin")
    yann = login(web, "yann")
    headers = {"X-CSRF-Token": session_token(yann)}
    for name in ("of-yann", "of-yann-too"):
        assert yann.post("/v3/tokens", json={"name": name, "role": "viewer"}, headers=headers).status_code == 201
    admin = login(web, "walter")

    def users() -> dict[str, str]:
        return {each["name"]: each["role"] for each in web.client.get("/v3/users").json()["data"]}

    def revoked() -> set[str]:
        found = web.client.get("/v3/tokens").json()["data"]
        return {each["name"] for each in found if each["revoked_at"] is not None}

    asked = post(admin, "/access/users/xenia/role", role="viewer")
    assert users()["xenia"] == "editor"
    assert confirm(admin, asked).status_code == 303
    assert users()["xenia"] == "viewer"
    asked = post(admin, "/access/tokens/of-yann/revoke")
    assert "of-yann" not in revoked()
    assert confirm(admin, asked).status_code == 303
    assert "of-yann" in revoked()
    asked = post(admin, "/access/users/yann/delete")
    assert "1 API token" in asked.text
    assert "of-yann-too" in asked.text
    assert "yann" in users()
    assert is_in(yann)
    assert confirm(admin, asked).status_code == 303
    assert "yann" not in users()
    assert not is_in(yann)
    for path in ("/access/users/nobody/delete", "/access/users/nobody/role", "/access/tokens/nobody/revoke"):
        assert post(admin, path, role="viewer").status_code == 422
    assert post(admin, "/access/users/walter/role", role="king").status_code == 422


def test_a_new_user_chooses_a_password_with_the_link_of_an_admin(web: LiveWeb) -> None:
    assert web.client.post("/v3/users", json={"name": "berta", "role": "viewer"}).status_code == 201
    url = web.client.post("/v3/users/berta/login-link").json()["url"]
    client = web.http()
    page = client.get(url, headers=FORM)
    assert "Welcome, berta. Choose a password" in page.text
    form = {"token": url.partition("token=")[2], "csrf_token": csrf_of(page.text)}
    for password in ({}, {"password": "short"}):
        refused = client.post("/login/link", data={**form, **password}, headers=FORM)
        assert (refused.status_code, "at least 15" in refused.text) == (422, True)
        assert not is_in(client)
    assert client.post("/login/link", data={**form, "password": NEW_PASSWORD}, headers=FORM).status_code == 303
    assert is_in(client)
    assert "Current password" in client.get("/account", headers=FORM).text
    assert login(web, "berta", NEW_PASSWORD).last.status_code == 303
    again = web.http()
    form["csrf_token"] = csrf_of(again.get("/login", headers=FORM).text)
    taken = again.post("/login/link", data={**form, "password": "another good password"}, headers=FORM)
    assert (taken.status_code, "unknown, used, or too old" in taken.text) == (401, True)
    actions = {each["action"] for each in web.client.get("/v3/audit?actor=berta").json()["data"]}
    assert actions >= {"login.link", "user.password", "login"}


def test_a_user_has_tokens_of_its_own_with_scopes_and_an_end(web: LiveWeb) -> None:
    add_user(web, "carla", "editor")
    add_user(web, "dario", "admin")
    carla, dario = login(web, "carla"), login(web, "dario")
    form: dict[str, object] = {"name": "of-carla", "role": "editor", "scopes": ["read", "topics"], "days": "7"}
    form["csrf_token"] = session_token(carla)
    made = carla.post("/account/tokens", data=form, headers=FORM)
    assert made.status_code == 200, made.text
    text = re.search(r"<pre>(cnc_[^<]+)</pre>", made.text)[1]
    token = next(each for each in web.client.get("/v3/tokens").json()["data"] if each["name"] == "of-carla")
    assert (token["role"], token["scopes"], token["created_by"]) == ("editor", ["read", "topics"], "carla")
    assert token["expires_at"] is not None
    program = web.http(text)
    assert program.get(f"{web.cluster}/topics").status_code == 200
    assert program.get("/account/tokens", headers=FORM).status_code == 403, "a token has no account"
    for wrong in ({"role": "admin"}, {"scopes": ["king"]}, {"days": "soon"}, {"name": "of-carla"}, {"name": ""}):
        assert carla.post("/account/tokens", data={**form, "name": "more", **wrong}, headers=FORM).status_code == 422
    assert "<option>admin" not in carla.get("/account/tokens", headers=FORM).text
    assert "of-carla" not in dario.get("/account/tokens", headers=FORM).text, "one sees one's own"
    assert post(dario, "/account/tokens/of-carla/revoke", confirmed="yes").status_code == 422
    assert confirm(carla, post(carla, "/account/tokens/of-carla/revoke")).status_code == 303
    assert program.get(f"{web.cluster}/topics").status_code == 401
    form = {"csrf_token": session_token(dario), "name": "service", "role": "viewer", "scopes": "read"}
    assert dario.post("/access/tokens", data=form, headers=FORM).status_code == 200
    token = next(each for each in web.client.get("/v3/tokens").json()["data"] if each["name"] == "service")
    assert (token["scopes"], token["expires_at"]) == (["read"], None)
    assert web.client.delete("/v3/tokens/service").status_code == 204
