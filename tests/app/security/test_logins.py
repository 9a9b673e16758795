"""Logins, sessions, tokens, roles, CSRF, headers, audit."""

import base64
import concurrent.futures
import datetime as dt
import hashlib
import json
import re
import stat
from pathlib import Path

import httpx
import pytest

from app.db.base import utc_now
from app.pages import site
from app.rest import api
from app.security.guard import SESSION_COOKIE
from kraft_core.image.changes import image_changes
from tests.app.live import ADMIN_TOKEN, Browser, CombinedNode, LiveWeb, running_web

PASSWORD = "a good long password"
FORM = {"Accept": "text/html"}


def csrf_of(html: str) -> str:
    found = re.search(r'name="csrf_token" value="([0-9a-f]+)"', html)
    assert found, html[:500]
    return found[1]


def add_user(web: LiveWeb, name: str, role: str = "viewer") -> None:
    answer = web.client.post("/v3/users", json={"name": name, "role": role, "password": PASSWORD})
    assert answer.status_code == 201, answer.text


def login(web: LiveWeb, name: str, password: str = PASSWORD, client: Browser | None = None) -> Browser:
    client = client or web.http()
    page = client.get("/login", headers=FORM)
    form = {"name": name, "password": password, "csrf_token": csrf_of(page.text), "next": "/"}
    client.last = client.post("/login", data=form, headers=FORM)
    return client


def session_token(client: httpx.Client) -> str:
    """The CSRF token of a logged-in session, as its pages carry it."""
    return csrf_of(client.get("/topics", headers=FORM).text)


def test_a_visitor_chooses_a_language_before_logging_in(web: LiveWeb) -> None:
    client = web.http()
    page = client.get("/login?next=%2Ftopics", headers=FORM)
    form = {"language": "zh", "back": "/login?next=%2Ftopics", "csrf_token": csrf_of(page.text)}
    assert client.post("/language", data={**form, "csrf_token": "x"}, headers=FORM).status_code == 403
    chosen = client.post("/language", data=form, headers=FORM)
    assert (chosen.status_code, chosen.headers["location"]) == (303, form["back"])
    assert client.post("/language", data={**form, "back": "//evil.example"}, headers=FORM).headers["location"] == "/"
    page = client.get(form["back"], headers=FORM)
    assert '<html lang="zh"' in page.text
    assert "使用一次性链接登录" in page.text


def test_the_one_time_link_works_once_and_its_file_is_private(node: CombinedNode, tmp_path: Path) -> None:
    with running_web(tmp_path, node.bootstrap, admin_token=None) as web:
        path = tmp_path / "web-data" / "web" / "login-link"
        assert path.read_text().strip() == web.login_link
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        client = web.http()
        page = client.get(web.login_link, headers=FORM)
        assert page.status_code == 200
        assert SESSION_COOKIE not in client.cookies, "a GET changes nothing: link previews must not use it up"
        token = web.login_link.partition("token=")[2]
        form = {"token": token, "csrf_token": csrf_of(page.text)}
        assert client.post("/login/link", data=form, headers=FORM).status_code == 303
        assert client.get("/v3/users").status_code == 200
        assert not path.exists()
        other = web.http()
        form["csrf_token"] = csrf_of(other.get("/login", headers=FORM).text)
        assert other.post("/login/link", data=form, headers=FORM).status_code == 401


def test_a_login_starts_a_session_that_ends_at_logout(web: LiveWeb) -> None:
    add_user(web, "ann")
    client = login(web, "ann")
    cookie = client.last.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    first = client.cookies[SESSION_COOKIE]
    assert client.get(f"{web.cluster}/topics").status_code == 200
    again = login(web, "ann", client=web.http(cookies={SESSION_COOKIE: "fixed-by-a-stranger"}))
    assert again.cookies.get(SESSION_COOKIE, domain="127.0.0.1") not in {None, first, "fixed-by-a-stranger"}
    client.post("/logout", data={"csrf_token": session_token(client)}, headers=FORM)
    replay = web.http(cookies={SESSION_COOKIE: first})
    assert replay.get(f"{web.cluster}/topics").status_code == 401


@pytest.mark.parametrize(
    ("name", "password"), [("bea", "wrong"), ("nobody", PASSWORD), ("disabled", PASSWORD), ("no-password", "")]
)
def test_every_refused_login_has_the_same_text(web: LiveWeb, name: str, password: str) -> None:
    known = {user["name"] for user in web.client.get("/v3/users").json()["data"]}
    for user in ("bea", "disabled"):
        if user not in known:
            add_user(web, user)
    if "no-password" not in known:
        web.client.post("/v3/users", json={"name": "no-password", "role": "viewer"})
    web.client.patch("/v3/users/disabled", json={"disabled": True})
    client = login(web, name, password)
    assert client.last.status_code == 401
    assert "The name or the password is wrong." in client.last.text
    assert SESSION_COOKIE not in client.cookies


def test_a_changed_password_ends_every_session(web: LiveWeb) -> None:
    add_user(web, "cleo")
    client = login(web, "cleo")
    assert client.get("/v3/clusters").status_code == 200
    web.client.patch("/v3/users/cleo", json={"password": "another good password"})
    assert client.get("/v3/clusters").status_code == 401


def test_sessions_end_by_idle_time_and_by_age(tmp_path: Path) -> None:
    with running_web(tmp_path, "127.0.0.1:1", session_idle_minutes=30, session_absolute_hours=12) as web:
        now = utc_now()
        web.services.security._clock = lambda: now
        add_user(web, "dora")
        client = login(web, "dora")
        for minutes, status in ((29, 503), (29 + 29, 503), (29 + 29 + 31, 401)):
            at = now + dt.timedelta(minutes=minutes)
            web.services.security._clock = lambda at=at: at
            assert client.get("/v3/clusters").status_code == status
        web.services.security._clock = lambda: now
        client = login(web, "dora")
        for hours in range(1, 25):
            at = now + dt.timedelta(minutes=29 * hours)
            web.services.security._clock = lambda at=at: at
            assert client.get("/v3/clusters").status_code == 503, "used within 30 minutes each time"
        at = now + dt.timedelta(hours=12, minutes=1)
        web.services.security._clock = lambda: at
        assert client.get("/v3/clusters").status_code == 401


def test_wrong_logins_are_limited_and_valid_users_are_not(tmp_path: Path) -> None:
    with running_web(tmp_path, "127.0.0.1:1", login_attempts_max=5) as web:
        add_user(web, "eve")
        add_user(web, "fay")
        login(web, "fay")

        def attempt(number: int) -> int:
            return login(web, "eve", f"guess {number}").last.status_code

        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            statuses = list(pool.map(attempt, range(40)))
        assert statuses.count(401) == 5
        assert statuses.count(429) == 35
        blocked = login(web, "eve", PASSWORD).last
        assert blocked.status_code == 429
        assert 0 < int(blocked.headers["Retry-After"]) <= 300
        assert login(web, "fay").last.status_code == 303


def test_a_viewer_can_change_nothing_and_an_editor_no_users(web: LiveWeb) -> None:
    for role, name in (("viewer", "gil"), ("editor", "hal")):
        add_user(web, name, role)
    tokens = {
        role: web.client.post("/v3/tokens", json={"name": f"{role}-token", "role": role}).json()["token"]
        for role in ("viewer", "editor")
    }
    viewer, editor = (web.http(tokens[role]) for role in ("viewer", "editor"))
    assert viewer.get(f"{web.cluster}/topics").status_code == 200
    denied = viewer.post(f"{web.cluster}/topics", json={"topic_name": "roles.viewer"})
    assert (denied.status_code, denied.json()["error_code"]) == (403, 40301)
    assert editor.post(f"{web.cluster}/topics", json={"topic_name": "roles.editor"}).status_code == 201
    for client in (viewer, editor):
        for method, path, body in (
            ("GET", "/v3/users", None),
            ("POST", "/v3/users", {"name": "x", "role": "admin"}),
            ("GET", "/v3/audit", None),
            ("POST", "/v3/tokens", {"name": "x", "role": "admin"}),
            ("PUT", f"{web.cluster}/broker-configs/log.retention.ms", {"value": "1"}),
        ):
            assert client.request(method, path, json=body).status_code == 403, path
    event = web.client.get("/v3/audit?actor=token:viewer-token&result=denied&page_size=1000").json()["data"]
    assert any(each["resource"].endswith("/topics") for each in event)


OWN = {
    "/login",
    "/login/code",
    "/login/link",
    "/logout",
    "/account/password",
    "/account/second-factor/codes",
    "/account/second-factor/off",
    "/account/second-factor/on",
    "/account/second-factor/start",
    "/account/sessions/{session_id}/end",
    "/account/tokens",
    "/account/tokens/{name}/revoke",
    "/account/end-other-sessions",
    "/language",
    "/theme",
    "/columns",
    "/explorer/{operation}",
}
"""Changes that every role may make: they concern the caller, or are requests to REST in the caller's name."""


def changing_routes(web: LiveWeb) -> list[tuple[str, str]]:
    """(method, path) of every route of REST and of the pages that changes something, with values for its parameters."""
    found = []
    for route in [route for router in (*api.ROUTERS, *site.ROUTERS) for route in router.routes]:
        for method in sorted(getattr(route, "methods", None) or ()):
            template = getattr(route, "path", "")
            if method in {"GET", "HEAD", "OPTIONS"} or template in OWN:
                continue
            path = template.replace("{cluster_id}", web.cluster.rpartition("/")[2])
            path = re.sub(r"\{(broker_id|partition_id|run_id|voter_id|node_id|session_id)\}", "1", path)
            found.append((method, re.sub(r"\{\w+\}", "x", path)))
    return found


def test_a_viewer_posts_every_form_and_every_request_and_is_refused(web: LiveWeb) -> None:
    """A route without its role would be open to every viewer. Hidden buttons are no protection."""
    add_user(web, "wim", "viewer")
    session = login(web, "wim")
    token = session_token(session)
    routes = changing_routes(web)
    assert len([path for _, path in routes if path.startswith("/v3")]) > 35
    assert {"/rights/acls", "/rights/scram", "/rights/quotas", "/elections", "/moves/new", "/features", "/topics"} <= {
        path for _, path in routes
    }
    image = web.services.cluster.image
    for method, path in routes:
        if path.startswith("/v3"):
            answer = session.request(method, path, json={}, headers={"X-CSRF-Token": token})
        else:
            answer = session.request(method, path, data={"csrf_token": token, "confirmed": "yes"}, headers=FORM)
        assert answer.status_code == 403, f"{method} {path}: {answer.status_code} {answer.text[:300]}"
        assert "This needs the role" in answer.text, f"{method} {path} was refused for another reason"
    after = web.services.cluster.image
    assert after.same_metadata(image), list(image_changes(image, after))


@pytest.mark.parametrize("path", ["/rights", "/audit", "/access"])
def test_an_administrators_page_is_not_shown_to_others(web: LiveWeb, path: str) -> None:
    name = f"editor-of-{path[1:]}"
    add_user(web, name, "editor")
    client = login(web, name)
    assert client.get(path, headers=FORM).status_code == 403
    assert f'href="{path}"' not in client.get("/", headers=FORM).text


def test_a_token_is_narrowed_by_scopes_and_ends_when_revoked_or_expired(web: LiveWeb) -> None:
    body = {"name": "topics-only", "role": "admin", "scopes": ["read", "topics"], "expires_in_days": 1}
    token = web.client.post("/v3/tokens", json=body).json()["token"]
    client = web.http(token)
    assert client.post(f"{web.cluster}/topics", json={"topic_name": "scopes.1"}).status_code == 201
    assert client.put(f"{web.cluster}/topics/scopes.1/configs/retention.ms", json={"value": "1"}).status_code == 403
    assert client.get("/v3/users").status_code == 403
    clock = web.services.security._clock
    web.services.security._clock = lambda: utc_now() + dt.timedelta(days=2)
    try:
        assert client.get("/v3/clusters").status_code == 401
    finally:
        web.services.security._clock = clock
    assert client.get("/v3/clusters").status_code == 200
    web.client.delete("/v3/tokens/topics-only")
    revoked = client.get("/v3/clusters")
    assert (revoked.status_code, revoked.json()["error_code"]) == (401, 40101)
    assert "Bearer" in revoked.headers["WWW-Authenticate"]


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer x", "Basic YWRtaW46YWRtaW4=", "Bearer eyJhbGciOiJub25lIn0.e30.", "bogus"]
)
def test_a_wrong_credential_is_unauthorized_even_on_open_paths(web: LiveWeb, header: str) -> None:
    client = web.http()
    assert client.get("/v3/clusters", headers={"Authorization": header}).status_code == 401
    assert client.get("/v3/clusters").status_code == 401


def test_a_change_by_cookie_needs_the_csrf_token_of_its_session(web: LiveWeb) -> None:
    add_user(web, "ida", "editor")
    add_user(web, "ian", "editor")
    client, other = login(web, "ida"), login(web, "ian")
    good, foreign = session_token(client), session_token(other)
    path, body = f"{web.cluster}/topics", {"topic_name": "csrf.1"}
    for headers in (
        {},
        {"X-CSRF-Token": foreign},
        {"X-CSRF-Token": good, "Origin": "https://evil.example"},
        {"X-CSRF-Token": good, "Origin": "null"},
        {"X-CSRF-Token": good, "Sec-Fetch-Site": "cross-site"},
    ):
        refused = client.post(path, json=body, headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:conclave:error:csrf")
    simple = client.post(path, content=json.dumps(body), headers={"Content-Type": "text/plain"})
    assert simple.status_code == 403
    assert client.get(f"{path}/csrf.1").status_code == 404
    accepted = client.post(path, json=body, headers={"X-CSRF-Token": good, "Origin": web.url})
    assert accepted.status_code == 201


@pytest.mark.parametrize(
    "path", ["/login", "/static/app.css", "/nothing", "/v3/clusters", "/v3/clusters/x", "/healthz", "/v3/nothing"]
)
def test_every_answer_carries_the_security_headers(web: LiveWeb, path: str) -> None:
    answer = web.http().get(path, headers=FORM if not path.startswith("/v3") else {})
    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"  # no-referrer would make browsers send Origin: null
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "Server" not in answer.headers


def test_no_get_changes_anything(web: LiveWeb) -> None:
    """Otherwise a link in a mail could change something."""
    add_user(web, "zoe", "admin")
    admin = login(web, "zoe")
    image = web.services.cluster.image
    for route in [route for router in (*api.ROUTERS, *site.ROUTERS) for route in router.routes]:
        path = getattr(route, "path", "")
        if "GET" not in (getattr(route, "methods", None) or ()) or path.endswith(("/watch", "/events")):
            continue
        path = path.replace("{cluster_id}", web.cluster.rpartition("/")[2])
        path = re.sub(r"\{(broker_id|partition_id|run_id|voter_id|node_id|session_id)\}", "1", path)
        answer = admin.get(re.sub(r"\{\w+\}", "x", path) + "?confirmed=yes", headers=FORM)
        assert answer.status_code < 500, f"{path}: {answer.status_code}"
    after = web.services.cluster.image
    assert after.same_metadata(image), list(image_changes(image, after))
    assert web.client.delete("/v3/users/zoe").status_code == 204, "no GET has done it"


def test_scripts_come_from_this_server_only_and_are_the_expected_ones(web: LiveWeb) -> None:
    add_user(web, "sri")
    html = login(web, "sri").get("/topics", headers=FORM).text
    found = dict(re.findall(r'(?:src|href)="(/static/[^"?]+\.(?:js|css))[^"]*" integrity="sha256-([^"]+)"', html))
    assert {path.rpartition("/")[2] for path in found} == {"app.css", "htmx.min.js", "keys.js", "live.js"}
    for path, digest in found.items():
        assert base64.b64encode(hashlib.sha256(web.http().get(path).content).digest()).decode() == digest
    settings = re.search(r'name="htmx-config" content=\'([^\']+)', html)
    assert settings is not None
    assert json.loads(settings[1]).items() >= {"selfRequestsOnly": True, "allowEval": False}.items()


def test_static_files_are_served_by_name_only(web: LiveWeb) -> None:
    client = web.http()
    assert client.get("/static/htmx.min.js").status_code == 200
    for name in ("..%2f..%2fpyproject.toml", "%2e%2e/app.css", ".gitkeep", "absent.css", "/etc/passwd"):
        assert client.get(f"/static/{name}").status_code in {401, 404}, name


def test_each_change_is_audited_exactly_once_without_its_secret(web: LiveWeb, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    before = max([event["id"] for event in web.client.get("/v3/audit?page_size=1").json()["data"]], default=0)
    add_user(web, "joy")
    web.client.post("/v3/tokens", json={"name": "audited", "role": "viewer"})
    web.client.post(f"{web.cluster}/topics", json={"topic_name": "audit.1"})
    web.client.post(f"{web.cluster}/topics", json={"topic_name": "audit.1"})
    events = [
        event
        for event in web.client.get("/v3/audit?page_size=50").json()["data"]
        if event["id"] > before and event["actor"] == "token:environment"
    ]
    assert [(event["action"], event["resource"], event["result"]) for event in reversed(events)] == [
        ("user.create", "user/joy", "ok"),
        ("token.create", "token/audited", "ok"),
        ("topic.create", "topic/audit.1", "ok"),
        ("topic.create", "topic/audit.1", "failed"),
    ]
    lines = [record for record in caplog.records if record.name == "audit"]
    assert len([line for line in lines if line.__dict__["actor"] == "token:environment"]) == 4
    kept = json.dumps(events) + caplog.text
    assert PASSWORD not in kept
    assert ADMIN_TOKEN not in kept


def test_the_last_admin_stays(alone: LiveWeb) -> None:
    for method, body in (("DELETE", None), ("PATCH", {"role": "viewer"}), ("PATCH", {"disabled": True})):
        assert alone.client.request(method, "/v3/users/admin", json=body).status_code == 409


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    from app.security.secrets import load_or_make_key

    path = tmp_path / "web" / "session-key"
    key = load_or_make_key(path)
    assert load_or_make_key(path) == key
    path.chmod(0o644)
    with pytest.raises(PermissionError, match="can be read by others"):
        load_or_make_key(path)


def test_without_a_quorum_no_value_is_invented(alone: LiveWeb) -> None:
    assert alone.client.get("/healthz").status_code == 200
    ready = alone.client.get("/readyz")
    assert (ready.status_code, ready.json()["reasons"][0]) == (503, "no metadata image yet")
    answer = alone.client.get("/v3/clusters")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
