"""Forms that arrive after their session has ended: kept over the login, shown, and sent only by a click."""

import datetime as dt

import httpx
import pytest
from bs4 import BeautifulSoup
from sqlalchemy import select

from app.db.base import utc_now
from app.db.models import KeptForm
from app.security.guard import KEPT_COOKIE, SESSION_COOKIE, VISITOR_COOKIE
from app.security.kept_forms import FORMS_MAX, KeptForms
from tests.app.live import Browser, LiveWeb
from tests.app.security.test_logins import FORM, add_user, csrf_of, login, session_token

KEPT = "/login?next=%2Fkept-form"
SECRETS = {"confirmed", "new_password", "present", "code"}
LONG = "User:" + "<long>" * 1_000


def acl(token: str) -> dict[str, str]:
    """Return the confirmed form of an ACL for a principal that is too long for an address."""
    return {
        "csrf_token": token,
        "confirmed": "yes",
        "principal": LONG,
        "resource_type": "TOPIC",
        "resource_name": "kept",
        "operation": "READ",
        "new_password": "hunter22222",
        "present": "hunter22222",
        "code": "123456",
    }


def sent_too_late(web: LiveWeb, name: str) -> tuple[Browser, httpx.Response]:
    """Let a new admin's session end under a filled form, and return the browser and the answer to the form."""
    add_user(web, name, "admin")
    client = login(web, name)
    form = acl(session_token(client))
    assert web.client.delete(f"/v3/users/{name}/sessions").status_code == 204
    return client, client.post("/rights/acls", data=form, headers=FORM)


def acls_of_form(web: LiveWeb) -> int:
    return sum(each.resource_name == "kept" for each in web.services.cluster.image.acls.by_id.values())


def rows(web: LiveWeb) -> list[bytes]:
    return list(web.call(web.services.database.read(lambda session: list(session.scalars(select(KeptForm.sealed))))))


def test_a_long_form_is_kept_over_the_login_and_then_shows_its_preview(web: LiveWeb) -> None:
    client, answer = sent_too_late(web, "kept-own")
    assert (answer.status_code, answer.headers["location"]) == (303, KEPT)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{KEPT_COOKIE}=")
    assert {"Path=/kept-form", "HttpOnly", "SameSite=Lax", "Max-Age=900"} <= set(cookie.split("; "))
    assert rows(web)
    assert not any(b"long" in each for each in rows(web)), "the database has a form that it can read"
    assert client.get("/kept-form", headers=FORM).status_code == 303, "before the login"
    page = BeautifulSoup(login(web, "kept-own", client=client).get("/kept-form", headers=FORM).text, "html.parser")
    form = page.select_one("form[action='/rights/acls']")
    assert form is not None, page
    found = {str(each["name"]): str(each["value"]) for each in form.select("input[name]")}
    assert found == {
        **{name: value for name, value in acl("").items() if name not in SECRETS},
        "csrf_token": session_token(client),
    }
    assert LONG in page.get_text()
    refused = client.post("/rights/acls", data=found, headers=FORM)
    assert (refused.status_code, "SECURITY_DISABLED" in refused.text) == (400, True), "its action is asked"
    assert acls_of_form(web) == 0


def test_another_user_sees_the_form_and_nothing_is_sent(web: LiveWeb) -> None:
    client, _ = sent_too_late(web, "kept-left")
    add_user(web, "kept-next", "viewer")
    page = login(web, "kept-next", client=client).get("/kept-form", headers=FORM)
    assert "&lt;long&gt;" in page.text
    assert acls_of_form(web) == 0
    mine = {**acl(session_token(client)), "confirmed": ""}
    assert client.post("/rights/acls", data=mine, headers=FORM).status_code == 403


def test_only_the_browser_that_sent_a_form_sees_it_and_for_15_minutes(
    web: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = sent_too_late(web, "kept-late")
    elsewhere = login(web, "kept-late")
    assert "No form is kept" in elsewhere.get("/kept-form", headers=FORM).text
    elsewhere.cookies.set(KEPT_COOKIE, "0" * 64, path="/kept-form")
    assert "No form is kept" in elsewhere.get("/kept-form", headers=FORM).text
    assert "&lt;long&gt;" in login(web, "kept-late", client=client).get("/kept-form", headers=FORM).text
    later = utc_now() + dt.timedelta(minutes=15, seconds=1)
    monkeypatch.setattr(web.services.security.kept_forms, "_clock", lambda: later)
    assert "No form is kept" in client.get("/kept-form", headers=FORM).text


def test_a_form_without_the_proof_of_a_session_is_not_kept(web: LiveWeb) -> None:
    add_user(web, "kept-none", "admin")
    client = login(web, "kept-none")
    token, session = session_token(client), client.cookies[SESSION_COOKIE]
    assert web.client.delete("/v3/users/kept-none/sessions").status_code == 204
    before = rows(web)
    stranger = web.http()
    visitor_token = csrf_of(stranger.get("/login", headers=FORM).text)
    visitor = stranger.cookies[VISITOR_COOKIE]
    for cookie, given, headers in (
        (None, token, {}),
        (session, "0" * 64, {}),
        (visitor, visitor_token, {}),
        (session, token, {"Origin": "http://evil.example"}),
        (session, token, {"Content-Type": "text/plain"}),
    ):
        sender = web.http()
        if cookie is not None:
            sender.cookies.set(SESSION_COOKIE, cookie)
        answer = sender.post("/rights/acls", data=acl(given), headers={**FORM, **headers})
        assert (answer.status_code, answer.headers["location"]) == (303, "/login"), headers
    assert rows(web) == before


def test_the_oldest_forms_give_way(web: LiveWeb) -> None:
    now = utc_now() - dt.timedelta(minutes=10)  # older than those of other tests
    forms = KeptForms(web.services.database, lambda: now)
    for number in range(FORMS_MAX + 1):
        now += dt.timedelta(milliseconds=1)
        web.call(forms.keep(f"key-{number}", "/topics", b"name=a&confirmed=yes&password=b", 10))
    assert len(rows(web)) == FORMS_MAX
    assert web.call(forms.find("key-0")) is None
    newest = web.call(forms.find(f"key-{FORMS_MAX}"))
    assert (newest.address, newest.fields) == ("/topics", [("name", "a")])
