"""Logins at an OpenID issuer: a real one on this machine, with faults."""

import datetime as dt
import json
import re
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import ECKey

from app.config import SettingsError
from app.group_roles import GroupRole
from app.security.guard import SESSION_COOKIE
from app.security.oidc.id_tokens import Expected, checked_claims, signing_keys
from tests.app.live import LiveWeb, running_web, web_settings
from tests.app.security.oidc_issuer import CLIENT_ID, CLIENT_SECRET, Issuer, running_issuer
from tests.app.security.test_logins import FORM, PASSWORD, add_user, login, session_token
from tests.security.certificates import CertificateAuthority

ROLES = [
    "kafka-admins=admin",
    "cn=devs,dc=example=editor",
    "readers=viewer",
    "payments=viewer@default",
    "payments=editor@default/pay.",
    "cn=leads,dc=example=admin@default/pay.",
    "payments=editor@production",
]
CALLBACK = "/login/oidc/callback"


def oidc_settings(issuer: Issuer, **settings: Any) -> dict[str, Any]:
    given = {
        "oidc_issuer": issuer.url,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        "oidc_roles": ROLES,
        "login_attempts_max": 100,
    }
    return {**given, **settings}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as running:
        yield running


@pytest.fixture(scope="module")
def company(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    """A web process with the issuer, and no quorum."""
    with running_web(tmp_path_factory.mktemp("company"), "127.0.0.1:1", **oidc_settings(issuer)) as web:
        yield web


def begin(client: httpx.Client, path: str = "/login/oidc") -> httpx.URL:
    """Follow the button of the login page to the issuer, log in there, and return the address it redirects to."""
    sent = client.get(path, headers=FORM)
    assert sent.status_code == 303, sent.text
    back = httpx.get(sent.headers["location"] + "&user=x")
    assert back.status_code == 302, back.text
    return httpx.URL(back.headers["location"])


def finish(client: httpx.Client, back: httpx.URL) -> httpx.Response:
    return client.get(f"{back.path}?{back.query.decode()}", headers=FORM)


def log_in(web: LiveWeb) -> tuple[httpx.Client, httpx.Response]:
    client = web.http()
    return client, finish(client, begin(client))


def role_of(client: httpx.Client) -> str:
    """The role of a session, as far as its pages tell."""
    pages = {path: client.get(path, headers=FORM).status_code for path in ("/access", "/create-topic", "/account")}
    return {(200, 200): "admin", (403, 200): "editor", (403, 403): "viewer"}[pages["/access"], pages["/create-topic"]]


@pytest.mark.parametrize(
    ("name", "groups", "role"),
    [
        ("adele", ["kafka-admins", "readers"], "admin"),
        ("dave", ["staff", "cn=devs,dc=example"], "editor"),
        ("rita", ["readers"], "viewer"),
    ],
)
def test_a_user_of_the_issuer_comes_in_with_the_role_of_its_groups(
    company: LiveWeb, issuer: Issuer, name: str, groups: list[str], role: str
) -> None:
    issuer.logs_in(name, *groups)
    assert '<a class="button" href="/login/oidc?next=%2Ftopics">' in company.http().get("/login?next=/topics").text
    client = company.http()
    answer = finish(client, begin(client, "/login/oidc?next=%2Faccount"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/account"), answer.text
    assert "conclave_oidc" not in client.cookies, "one cookie, one login"
    assert role_of(client) == role
    user = next(each for each in company.client.get("/v3/users").json()["data"] if each["name"] == name)
    assert (user["issuer"], user["role"], user["has_password"]) == (issuer.url, role, False)
    assert "single sign-on" in client.get("/account", headers=FORM).text
    cookie = client.cookies[SESSION_COOKIE]
    client.post("/logout", data={"csrf_token": session_token(client)}, headers=FORM)
    assert company.http(cookies={SESSION_COOKIE: cookie}).get("/v3/clusters").status_code == 401
    audited = company.client.get("/v3/audit?action=login.oidc&result=ok").json()["data"]
    assert name in {each["actor"] for each in audited}


def test_groups_count_at_each_login(company: LiveWeb, issuer: Issuer) -> None:
    issuer.logs_in("gerd", "kafka-admins")
    before, _ = log_in(company)
    headers = {"X-CSRF-Token": session_token(before)}
    token = before.post("/v3/tokens", json={"name": "of-gerd", "role": "admin"}, headers=headers).json()["token"]
    program = company.http(token)
    assert program.get("/v3/users").status_code == 200
    issuer.logs_in("renamed", "readers", sub="sub-gerd")
    again, _ = log_in(company)
    assert role_of(again) == role_of(before) == "viewer"
    assert program.get("/v3/users").status_code == 403
    issuer.logs_in("gerd", "strangers")
    client, refused = log_in(company)
    assert (refused.status_code, SESSION_COOKIE in client.cookies) == (403, False)
    assert "none of your groups has a role here" in refused.text
    assert 'href="/login/oidc?next=%2F"' in refused.text
    assert before.get("/v3/clusters").status_code == 401, "the sessions have ended"
    assert program.get("/v3/clusters").status_code == 401, "and so have the rights of the tokens"
    assert "no role any longer" in log_in_as_admin(company, issuer).get("/access", headers=FORM).text
    issuer.logs_in("gerd", "kafka-admins")
    client, _ = log_in(company)
    assert role_of(client) == "admin"
    assert program.get("/v3/users").status_code == 200


def grants(web: LiveWeb, name: str) -> list[tuple[str, str, str, str | None]]:
    listed = web.client.get(f"/v3/users/{name}/grants").json()["data"]
    return [(each["cluster"], each["topic_prefix"], each["role"], each["from_group"]) for each in listed]


def test_groups_give_roles_in_clusters_and_for_topics_until_the_next_login(company: LiveWeb, issuer: Issuer) -> None:
    issuer.logs_in("pia", "payments")
    client, answer = log_in(company)
    assert answer.status_code == 303, "no role everywhere, and roles in clusters"
    by_payments = [
        ("", "", "viewer", "payments"),
        ("", "pay.", "editor", "payments"),
        ("production", "", "editor", "payments"),
    ]
    assert grants(company, "pia") == by_payments
    assert company.call(company.services.security.user("pia")).role == "none"
    assert client.get("/topics", headers=FORM).status_code == 200
    token = session_token(client)
    deleted = {name: delete(client, token, name) for name in ("pay.x", "x")}
    assert (deleted["pay.x"] == 403, deleted["x"]) == (False, 403), deleted
    form = {"name": "of-pia", "role": "editor", "csrf_token": token}
    secret = re.search(r"cnc_[\w-]+", client.post("/account/tokens", data=form, headers=FORM).text)[0]
    token_of_pia = company.http(secret)
    assert delete(token_of_pia, "", "pay.x") != 403
    given = {"cluster": "", "topic_prefix": "pay.", "role": "viewer"}
    assert company.client.put("/v3/users/pia/grants", json=given).status_code == 200
    issuer.logs_in("pia", "payments", "cn=leads,dc=example", "readers")
    again, _ = log_in(company)
    assert company.call(company.services.security.user("pia")).role == "viewer"
    leads = ("", "pay.", "admin", "cn=leads,dc=example")
    assert grants(company, "pia") == [by_payments[0], ("", "pay.", "viewer", None), leads, by_payments[2]]
    issuer.logs_in("pia", "readers")
    log_in(company)
    assert grants(company, "pia") == [("", "pay.", "viewer", None)], "what an administrator gave stays"
    assert delete(again, session_token(again), "pay.x") == 403, "in older sessions too"
    assert delete(token_of_pia, "", "pay.x") == 403, "and for tokens"
    events = company.client.get("/v3/audit?action=login.oidc&actor=pia").json()["data"]
    assert [len(each["detail"]["grants"]) for each in events] == [0, 3, 3]
    issuer.logs_in("pia", "payments")
    log_in(company)
    issuer.logs_in("pia")
    assert log_in(company)[1].status_code == 403
    assert grants(company, "pia") == [("", "pay.", "viewer", None)], "a refused login ends them too"


def delete(client: httpx.Client, token: str, topic: str) -> int:
    """The answer to the deletion of a topic: 403, or what it is without a quorum."""
    return client.post(f"/topics/{topic}/delete", headers={**FORM, "X-CSRF-Token": token}).status_code


def test_a_role_from_a_group_is_named_on_the_pages_and_ends_at_the_issuer(company: LiveWeb, issuer: Issuer) -> None:
    issuer.logs_in("pam", "payments")
    log_in(company)
    admin = log_in_as_admin(company, issuer)
    users = admin.get("/access", headers=FORM).text
    assert "oidc_roles gives groups roles in the cluster <code>production</code>, and no cluster has this key" in users
    assert "<code>default</code>" not in users
    row = users[users.index(">pam") :]
    assert ("from groups" in row[:300], "3 more roles" in row[:2_000]) == (True, True), row[:2_000]
    url = "/access/users/pam/grants"
    form = {"cluster": "default", "topic_prefix": "pay.", "role": "viewer", "confirmed": "yes"}
    assert company.client.post(url, data=form).status_code == 303
    page = admin.get(url, headers=FORM).text
    assert (page.count("group payments"), page.count("an administrator"), page.count("Take…")) == (3, 1, 1)
    assert company.client.delete("/v3/users/pam/grants?topic_prefix=pay.").status_code == 204, "the administrator's"
    refused = company.client.delete("/v3/users/pam/grants?topic_prefix=pay.")
    assert refused.status_code == 409
    assert "has this role from the group 'payments': take it at the login service, or in oidc_roles" in refused.text
    assert "group payments" in company.client.post(f"{url}/remove", data={"topic_prefix": "pay."}).text


def test_the_button_is_in_the_readers_language_unless_the_settings_name_it(
    company: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    chinese = {**FORM, "Accept-Language": "zh"}
    assert "Log in with single sign-on" in company.http().get("/login", headers=FORM).text
    page = company.http().get("/login", headers=chinese).text
    assert ("使用单点登录" in page, "Log in with single sign-on" in page) == (True, False)
    monkeypatch.setattr(company.services.oidc, "label", "Log in")
    assert ">Log in</a>" in company.http().get("/login", headers=chinese).text


def log_in_as_admin(web: LiveWeb, issuer: Issuer) -> httpx.Client:
    issuer.logs_in("root", "kafka-admins")
    client, answer = log_in(web)
    assert answer.status_code == 303
    return client


WRONG_TOKENS = {
    "nonce": ({"nonce": "of another login"}, "RS256", "its token is of another login"),
    "audience": ({"aud": "another-application"}, "RS256", "its token is for another application"),
    "audiences": ({"aud": [CLIENT_ID, "another"]}, "RS256", "its token is for another application"),
    "party": ({"azp": "another-application"}, "RS256", "its token is for another application"),
    "party is no text": ({"azp": [CLIENT_ID]}, "RS256", "its token is for another application"),
    "issuer": ({"iss": "https://issuer.example"}, "RS256", "its token is of another issuer"),
    "expired": ({"exp": int(time.time()) - 61}, "RS256", "its token has expired"),
    "no expiry": ({"exp": None}, "RS256", "its token has no valid exp"),
    "expiry is no number": ({"exp": float("nan")}, "RS256", "its token has no valid exp"),
    "expiry is true": ({"exp": True}, "RS256", "its token has no valid exp"),
    "expiry beyond a float": ({"exp": 10**400}, "RS256", "its token has no valid exp"),
    "future": ({"iat": int(time.time()) + 86_400}, "RS256", "the clocks differ"),
    "not yet": ({"nbf": int(time.time()) + 86_400}, "RS256", "the clocks differ"),
    "nobody": ({"sub": ""}, "RS256", "its token names no user"),
    "nobody in UTF-8": ({"sub": "mallory\ud800"}, "RS256", "its token names no user"),
    "unsigned": ({}, "none", "its token is not signed in an accepted way"),
    "public key as secret": ({}, "HS256", "its token is not signed in an accepted way"),
    "key of a stranger": ({}, "stranger", "its token has a wrong signature"),
}


@pytest.mark.parametrize("kind", WRONG_TOKENS)
def test_a_wrong_id_token_is_refused(company: LiveWeb, issuer: Issuer, kind: str) -> None:
    issuer.logs_in("mallory", "kafka-admins")
    change, issuer.signs_with, cause = WRONG_TOKENS[kind]
    issuer.change = change
    client, answer = log_in(company)
    assert (answer.status_code, SESSION_COOKIE in client.cookies) == (401, False), answer.text
    assert cause in answer.text
    assert "mallory" not in {each["name"] for each in company.client.get("/v3/users").json()["data"]}


def test_a_token_without_a_key_id_is_checked_with_each_key() -> None:
    keys = [ECKey.generate_key(curve) for curve in ("P-384", "P-256")]
    known = signing_keys({"keys": [key.as_dict(private=False) for key in keys]})
    claims = {"iss": "i", "aud": "c", "nonce": "n", "sub": "s", "iat": 1_000, "exp": 2_000}
    token = jws.serialize_compact({"alg": "ES256"}, json.dumps(claims), keys[1])
    assert checked_claims(token, known, Expected("i", "c", "n"), 1_500) == claims


def test_a_name_that_no_page_can_show_is_refused(company: LiveWeb, issuer: Issuer) -> None:
    for groups, status in ((["kafka-admins"], 409), ([], 403)):
        issuer.logs_in("mallory\ud800", *groups, sub="odd")
        assert log_in(company)[1].status_code == status


def test_clocks_may_differ_by_a_minute(company: LiveWeb, issuer: Issuer) -> None:
    issuer.logs_in("late", "readers")
    issuer.change = {"exp": int(time.time()) - 10, "iat": int(time.time()) + 50}
    assert log_in(company)[1].status_code == 303
    issuer.signs_with, issuer.change = "PS384", {"aud": [CLIENT_ID]}
    assert log_in(company)[1].status_code == 303


def test_a_login_counts_once_and_only_in_the_browser_where_it_began(company: LiveWeb, issuer: Issuer) -> None:
    issuer.logs_in("olaf", "readers")
    client, stranger = company.http(), company.http()
    back = begin(client)
    cookie = client.cookies["conclave_oidc"]
    for wrong in (
        company.http(),
        company.http(cookies={"conclave_oidc": cookie.replace(".", "x.", 1)}),
        company.http(cookies={"conclave_oidc": "x"}),
    ):
        assert finish(wrong, back).status_code == 401
    begin(stranger)
    assert "belongs to another login" in finish(stranger, back).text, "state of another login"
    client.cookies.set("conclave_oidc", cookie, domain="127.0.0.1", path="/login/oidc")
    assert finish(client, back.copy_set_param("state", "")).status_code == 401
    for replaced in (back.copy_set_param("iss", "https://issuer.example"), back.copy_remove_param("iss")):
        other = company.http(cookies={"conclave_oidc": cookie})
        assert "of another issuer" in finish(other, replaced).text
    good = company.http(cookies={"conclave_oidc": cookie})
    assert finish(good, back).status_code == 303
    replay = finish(company.http(cookies={"conclave_oidc": cookie}), back)
    assert (replay.status_code, "does not accept the code (invalid_grant)" in replay.text) == (401, True)
    assert "a secret" not in replay.text
    clock = company.services.security._clock
    company.services.security._clock = lambda: clock() + dt.timedelta(minutes=11)
    try:
        assert "more than ten minutes ago" in finish(company.http(cookies={"conclave_oidc": cookie}), back).text
    finally:
        company.services.security._clock = clock
    denied = company.http()
    state = begin(denied).params["state"]
    answer = denied.get(CALLBACK, params={"state": state, "error": "access_denied"}, headers=FORM)
    assert "it says access_denied" in answer.text
    denied = company.http()
    state = begin(denied).params["state"]
    answer = denied.get(CALLBACK, params={"state": state, "error": "<b>call 555</b>"}, headers=FORM)
    assert ("555" in answer.text, "it says error" in answer.text) == (False, True)


def test_the_issuer_may_change_its_keys(company: LiveWeb, issuer: Issuer) -> None:
    issuer.logs_in("kim", "readers")
    assert log_in(company)[1].status_code == 303
    company.services.oidc._provider._new_keys_at = -1e9  # as if no key had been looked for lately
    issuer.new_key()
    assert log_in(company)[1].status_code == 303
    company.services.oidc._provider._new_keys_at = time.monotonic() + 3_600  # as if it were a moment ago for long
    asked = issuer.asked.count("/realm/keys")
    issuer.new_key()
    for _ in range(3):
        assert "signed with an unknown key" in log_in(company)[1].text, "the keys were read again a moment ago"
    assert issuer.asked.count("/realm/keys") == asked
    company.services.oidc._provider._new_keys_at = -1e9
    assert log_in(company)[1].status_code == 303


def test_a_name_is_not_taken_over(company: LiveWeb, issuer: Issuer) -> None:
    add_user(company, "local", "admin")
    for name, sub in (("local", "s1"), ("admin", "s2"), ("token:x", "s3"), ("x" * 101, "s4")):
        issuer.logs_in(name, "kafka-admins", sub=sub)
        client, answer = log_in(company)
        assert (answer.status_code, SESSION_COOKIE in client.cookies) == (409, False), name
    assert "belongs to another user of Conclave" in log_in_named(company, issuer, "local").text
    assert login(company, "local").last.status_code == 303
    issuer.logs_in("twin", "readers", sub="one")
    assert log_in(company)[1].status_code == 303
    issuer.logs_in("twin", "kafka-admins", sub="two")
    assert log_in(company)[1].status_code == 409


def log_in_named(web: LiveWeb, issuer: Issuer, name: str) -> httpx.Response:
    issuer.logs_in(name, "kafka-admins")
    return log_in(web)[1]


def test_a_user_of_the_issuer_has_no_other_way_in(company: LiveWeb, issuer: Issuer) -> None:
    issuer.logs_in("uta", "kafka-admins")
    client, _ = log_in(company)
    headers = {"X-CSRF-Token": session_token(client)}
    for method, path, body in (
        ("PATCH", "/v3/users/uta", {"password": PASSWORD}),
        ("PATCH", "/v3/users/uta", {"role": "viewer"}),
        ("POST", "/v3/users/uta/login-link", {}),
    ):
        assert company.client.request(method, path, json=body).status_code == 409, path
    assert client.patch("/v3/users/uta", json={"password": PASSWORD}, headers=headers).status_code == 409
    assert "New password" not in client.get("/account", headers=FORM).text
    for user in company.client.get("/v3/users").json()["data"]:
        if user["role"] == "admin" and user["issuer"] is None and user["name"] != "admin":
            company.client.delete(f"/v3/users/{user['name']}")
    last = company.client.patch("/v3/users/admin", json={"disabled": True})
    assert last.status_code == 409, "an admin must remain who does not need the issuer"
    assert company.client.patch("/v3/users/uta", json={"disabled": True}).status_code == 200
    assert client.get("/v3/clusters").status_code == 401
    assert log_in(company)[1].status_code == 409
    assert company.client.delete("/v3/users/uta").status_code == 204


def test_groups_come_from_user_information_and_from_nested_claims(issuer: Issuer, tmp_path: Path) -> None:
    more = oidc_settings(
        issuer, oidc_groups_claim="realm_access.roles", oidc_name_claim="mail", oidc_roles="all=editor"
    )
    with running_web(tmp_path, "127.0.0.1:1", **more) as web:
        issuer.logs_in("paul")
        issuer.userinfo = {"sub": "sub-paul", "realm_access": {"roles": ["all"]}, "mail": "paul@example.com"}
        client, answer = log_in(web)
        assert answer.status_code == 303, answer.text
        assert role_of(client) == "editor"
        assert {"admin", "paul@example.com"} == {each["name"] for each in web.client.get("/v3/users").json()["data"]}
        issuer.userinfo["sub"] = "somebody"
        assert "about somebody else" in log_in(web)[1].text


def test_an_issuer_that_is_down_costs_the_local_login_nothing(tmp_path: Path) -> None:
    with running_issuer() as issuer:
        port = int(issuer.url.split(":")[2].split("/")[0])
    settings = oidc_settings(issuer, login_attempts_max=1)
    with running_web(tmp_path, "127.0.0.1:1", **settings) as web:
        add_user(web, "lola")
        client = web.http()
        for _ in range(2):
            down = client.get("/login/oidc", headers=FORM)
            assert down.status_code == 503
            assert f"The login service localhost:{port} cannot be used: it cannot be reached." in down.text
            assert "realm" not in down.text, "no more than the host"
        assert login(web, "lola").last.status_code == 303
        with running_issuer(port=port) as issuer:
            issuer.logs_in("lasse", "readers")
            web.services.oidc._provider._failure = None  # it is remembered for two seconds
            back = begin(client)
        again = {"conclave_oidc": client.cookies["conclave_oidc"]}
        for _ in range(5):
            down = finish(web.http(cookies=again), back)
            assert down.status_code == 503, "down again, before the code is exchanged, which nobody is blamed for"
        statuses = [web.http().get(CALLBACK, headers=FORM).status_code for _ in range(5)]
        assert statuses == [401] * 4 + [429]
        assert int(web.http().get(CALLBACK, headers=FORM).headers["Retry-After"]) > 0
        assert login(web, "lola").last.status_code == 303


def test_the_certificate_of_the_issuer_is_checked(tmp_path: Path) -> None:
    authority = CertificateAuthority("company")
    pem = authority.issue("localhost").pem_file(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    ca_file = tmp_path / "ca.pem"
    ca_file.write_text(authority.pem)
    with running_issuer(tls) as issuer:
        with running_web(tmp_path / "without", "127.0.0.1:1", **oidc_settings(issuer)) as web:
            assert "its certificate is not trusted" in web.http().get("/login/oidc", headers=FORM).text
        with running_web(tmp_path / "with", "127.0.0.1:1", **oidc_settings(issuer, oidc_ca=ca_file)) as web:
            assert web.http().get("/login/oidc", headers=FORM).status_code == 303


def test_a_login_from_a_page_of_another_cluster_leads_back_there(
    company: LiveWeb, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = company.app.state.clusters
    other = replace(clusters.home, key="other")
    monkeypatch.setattr(clusters, "get", {"other": other}.get)
    issuer.logs_in("otto", "readers")
    client = company.http()
    sent = client.get("/c/other/topics", headers=FORM).headers["location"]
    button = re.search(r'href="([^"]*/login/oidc[^"]*)"', client.get(sent, headers=FORM).text)[1]
    back = begin(client, button)
    assert back.path == CALLBACK, "the one address that the issuer knows"
    assert finish(client, back).headers["location"] == "/c/other/topics"


def test_without_an_issuer_there_is_no_button_and_no_path(alone: LiveWeb) -> None:
    assert "/login/oidc" not in alone.http().get("/login", headers=FORM).text
    for path in ("/login/oidc", CALLBACK):
        assert alone.http().get(path, headers=FORM).status_code == 404


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"oidc_issuer": "http://issuer.example"}, "must be https://"),
        ({"oidc_issuer": "https://user@issuer.example"}, "must be https://"),
        ({"oidc_issuer": "https://issuer.example?x"}, "must be https://"),
        ({"oidc_issuer": "https://issuer.example"}, "oidc_issuer needs oidc_client_id and oidc_roles"),
        ({"oidc_scopes": "email,profile"}, "must have the scope openid"),
        ({"oidc_roles": "devs=king"}, "'devs=king' must be GROUP=ROLE"),
        ({"oidc_roles": "devs"}, "'devs' must be GROUP=ROLE"),
        ({"oidc_roles": "devs=none@eu"}, "with one of the roles viewer, editor, admin"),
        ({"oidc_roles": "devs=editor@EU"}, "'EU' is no key of a cluster; 1 to 32 of a-z, 0-9 and - are allowed"),
        ({"oidc_roles": "devs=editor@"}, "'devs=editor@': '' is no key of a cluster"),
        ({"oidc_roles": "devs=editor@eu/pay*"}, "'pay*' starts no topic name; 1 to 249 of letters, digits"),
        ({"oidc_roles": "devs=editor@eu/"}, "'devs=editor@eu/': '' starts no topic name"),
        ({"oidc_ca": "/nowhere.pem"}, "cannot be read as PEM certificates"),
    ],
)
def test_wrong_settings_are_refused_at_the_start(tmp_path: Path, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(problem)):
        web_settings(tmp_path, "127.0.0.1:1", **settings)


def test_scopes_may_be_written_with_spaces(tmp_path: Path) -> None:
    settings = web_settings(tmp_path, "127.0.0.1:1", oidc_scopes="openid groups", oidc_roles="*=viewer,a=b=admin")
    assert settings.oidc_scopes == ("openid", "groups")
    assert settings.oidc_group_roles == [GroupRole("*", "viewer"), GroupRole("a=b", "admin")]


def test_of_two_entries_for_a_group_and_a_place_the_last_one_counts(tmp_path: Path) -> None:
    text = "x/y@z=viewer@eu/pay.,x/y@z=viewer,x/y@z=editor@eu/pay."
    settings = web_settings(tmp_path, "127.0.0.1:1", oidc_roles=text)
    assert settings.oidc_group_roles == [GroupRole("x/y@z", "editor", "eu", "pay."), GroupRole("x/y@z", "viewer")]
