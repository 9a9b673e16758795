"""Second factors: one-time codes by time, recovery codes, and what becomes of them."""

import datetime as dt
import re
from base64 import b32decode
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.db.base import utc_now
from app.security import totp
from app.security.guard import SESSION_COOKIE
from app.security.secrets import digest
from tests.app.live import Browser, LiveWeb, running_web
from tests.app.security.test_accounts import confirm, post
from tests.app.security.test_logins import FORM, PASSWORD, add_user, csrf_of, login, session_token
from tests.interop import kafka


class Clock:
    """A clock that stands still until it is put forward."""

    def __init__(self, web: LiveWeb) -> None:
        self.now = utc_now()
        web.services.security._clock = lambda: self.now

    def forward(self, seconds: int = totp.STEP_SECONDS) -> None:
        self.now += dt.timedelta(seconds=seconds)

    def code(self, secret: str, steps: int = 0) -> str:
        step = int(self.now.timestamp()) // totp.STEP_SECONDS + steps
        return totp.code_at(b32decode(secret), step)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    with running_web(tmp_path_factory.mktemp("plain"), "127.0.0.1:1", login_attempts_max=4) as web:
        yield web


@pytest.fixture
def clock(plain: LiveWeb) -> Iterator[Clock]:
    was = plain.services.security._clock
    yield Clock(plain)
    plain.services.security._clock = was


def set_up(web: LiveWeb, clock: Clock, name: str, role: str = "viewer") -> tuple[Browser, str, list[str]]:
    """A new user with a second factor: its session, its secret and its recovery codes."""
    add_user(web, name, role)
    client = login(web, name)
    shown = post(client, "/account/second-factor/start", present=PASSWORD)
    assert shown.status_code == 200, shown.text
    secret = re.search(r"secret=([A-Z2-7]{32})", shown.text)[1]
    sealed = re.search(r'name="sealed" value="([^"]+)"', shown.text)[1]
    done = post(client, "/account/second-factor/on", sealed=sealed, code=clock.code(secret))
    assert done.status_code == 200, done.text
    codes = re.findall(r"\b[a-z2-7]{4}(?:-[a-z2-7]{4}){3}\b", done.text)
    assert len(set(codes)) == totp.RECOVERY_CODES
    return client, secret, codes


def first_step(web: LiveWeb, name: str) -> tuple[Browser, dict[str, str]]:
    """Enter the password: the client, and the fields of the form that asks for the code."""
    client = login(web, name)
    page = client.last
    assert (page.status_code, SESSION_COOKIE in client.cookies) == (200, False), page.text
    step = re.search(r'name="step" value="([^"]+)"', page.text)[1]
    return client, {"step": step, "csrf_token": csrf_of(page.text), "next": "/account"}


def second_step(web: LiveWeb, name: str, code: str) -> httpx.Response:
    client, form = first_step(web, name)
    answer = client.post("/login/code", data={**form, "code": code}, headers=FORM)
    assert (SESSION_COOKIE in client.cookies) == (answer.status_code == 303)
    return answer


@pytest.mark.parametrize(
    ("seconds", "code"),
    [
        (59, "287082"),
        (1111111109, "081804"),
        (1111111111, "050471"),
        (1234567890, "005924"),
        (2000000000, "279037"),
        (20000000000, "353130"),
    ],
)
def test_codes_are_those_of_rfc_6238(seconds: int, code: str) -> None:
    secret = b"12345678901234567890"
    assert totp.code_at(secret, seconds // totp.STEP_SECONDS) == code
    step = seconds // totp.STEP_SECONDS
    assert totp.step_of(secret, code, seconds, 0) == step
    assert totp.step_of(secret, code, seconds + totp.STEP_SECONDS, 0) == step
    assert totp.step_of(secret, code, seconds + 2 * totp.STEP_SECONDS, 0) is None
    assert totp.step_of(secret, code, seconds, step) is None, "used"


def test_a_login_needs_the_code_and_a_code_counts_once(plain: LiveWeb, clock: Clock) -> None:
    add_user(plain, "tom")
    elsewhere = login(plain, "tom")
    refused = post(elsewhere, "/account/second-factor/start", present="wrong")
    assert (refused.status_code, "current password is wrong" in refused.text) == (422, True)
    plain.client.delete("/v3/users/tom")
    client, secret, codes = set_up(plain, clock, "tom")
    assert second_step(plain, "tom", clock.code(secret)).status_code == 401, "used when it was turned on"
    clock.forward()
    assert second_step(plain, "tom", "000000").status_code == 401
    good = clock.code(secret)
    entered = second_step(plain, "tom", f"{good[:3]} {good[3:]}")
    assert (entered.status_code, entered.headers["location"]) == (303, "/account")
    assert second_step(plain, "tom", good).status_code == 401, "a code that somebody saw"
    assert second_step(plain, "tom", codes[0].upper().replace("-", " ")).status_code == 303
    assert second_step(plain, "tom", codes[0]).status_code == 401
    assert "of which 9 are left" in client.get("/account", headers=FORM).text
    users = {each["name"]: each for each in plain.client.get("/v3/users").json()["data"]}
    assert (users["tom"]["has_second_factor"], users["admin"]["has_second_factor"]) == (True, False)

    def has_toms_failures() -> bool:  # those of a source within a minute are counted together, and stored later
        audited = plain.client.get("/v3/audit?action=login.second-factor").json()["data"]
        return "tom" in [name for each in audited for name in (each["actor"], *each["detail"].get("names", ()))]

    kafka.wait_until(has_toms_failures, 60, "the audit has the failures", 0.2)


def test_turning_it_on_shows_the_same_secret_after_a_wrong_code_and_ends_other_sessions(
    plain: LiveWeb, clock: Clock
) -> None:
    add_user(plain, "ute")
    client, elsewhere = login(plain, "ute"), login(plain, "ute")
    shown = post(client, "/account/second-factor/start", present=PASSWORD)
    secret = re.search(r"secret=([A-Z2-7]{32})", shown.text)[1]
    sealed = re.search(r'name="sealed" value="([^"]+)"', shown.text)[1]
    again = post(client, "/account/second-factor/on", sealed=sealed, code="000000")
    assert (again.status_code, secret in again.text) == (422, True)
    assert login(plain, "ute").last.status_code == 303, "it is not on yet"
    add_user(plain, "thief")
    other = login(plain, "thief")
    assert post(other, "/account/second-factor/on", sealed=sealed, code=clock.code(secret)).status_code == 422
    clock.forward(31 * 60)
    late = post(login(plain, "ute"), "/account/second-factor/on", sealed=sealed, code=clock.code(secret))
    assert "began too long ago" in late.text
    clock.forward(-31 * 60)
    assert elsewhere.get("/v3/clusters").status_code == 503
    assert post(client, "/account/second-factor/on", sealed=sealed, code=clock.code(secret)).status_code == 200
    assert elsewhere.get("/v3/clusters").status_code == 401
    assert client.get("/v3/clusters").status_code == 503


def test_a_user_without_a_role_of_its_own_sets_one_up(plain: LiveWeb) -> None:
    add_user(plain, "nils", "none")
    client = login(plain, "nils")
    form = {"csrf_token": csrf_of(client.get("/account", headers=FORM).text), "present": PASSWORD, "code": "000000"}
    form["confirmed"] = "yes"
    assert client.post("/account/second-factor/start", data=form, headers=FORM).status_code == 200
    for path in ("on", "codes", "off"):
        answer = client.post(f"/account/second-factor/{path}", data=form, headers=FORM)
        assert answer.status_code == 422, "the form is read, and its content refused"
    assert client.get("/kept-form", headers=FORM).status_code == 200, "so a form kept in a granted cluster is found"


def test_wrong_codes_are_limited(plain: LiveWeb, clock: Clock) -> None:
    client, secret, _ = set_up(plain, clock, "vera")
    post(client, "/logout")
    clock.forward()
    statuses = [second_step(plain, "vera", "000000").status_code for _ in range(6)]
    assert statuses == [401] * 4 + [429] * 2
    limited = second_step(plain, "vera", clock.code(secret))
    assert (limited.status_code, int(limited.headers["Retry-After"]) > 0) == (429, True)


def test_the_step_is_bound_to_user_time_and_password(plain: LiveWeb, clock: Clock) -> None:
    _, secret, _ = set_up(plain, clock, "will")
    _, other, _ = set_up(plain, clock, "xena")
    clock.forward()
    client, form = first_step(plain, "will")
    number, began, signature = form["step"].split(".")
    _, xenas = first_step(plain, "xena")
    for step in (
        "",
        "x",
        f"{number}.{began}",
        f"{number}.{int(began) + 1}.{signature}",
        f"{xenas['step'].split('.')[0]}.{began}.{signature}",
        f"{number}.{began}.{'0' * 64}",
    ):
        for code in (clock.code(secret), clock.code(other)):
            answer = client.post("/login/code", data={**form, "step": step, "code": code}, headers=FORM)
            assert (answer.status_code, "Log in again" in answer.text) == (401, True), step
    clock.forward(301)
    assert client.post("/login/code", data={**form, "code": clock.code(secret)}, headers=FORM).status_code == 401
    client, form = first_step(plain, "will")
    plain.client.patch("/v3/users/will", json={"password": "quite another long one"})
    assert client.post("/login/code", data={**form, "code": clock.code(secret)}, headers=FORM).status_code == 401
    assert SESSION_COOKIE not in client.cookies


def test_a_code_turns_it_off_and_makes_new_recovery_codes(plain: LiveWeb, clock: Clock) -> None:
    client, secret, old = set_up(plain, clock, "yves")
    for path in ("/account/second-factor/off", "/account/second-factor/codes"):
        shown = client.get("/account", headers=FORM).text
        assert (f'action="{path}"' in shown, 'name="code"' in shown) == (True, False)
        asked = post(client, path, code=clock.code(secret))
        assert (asked.status_code, 'name="code"' in asked.text) == (200, True), "a preview, which asks for the code"
        wrong = post(client, path, code="000000", confirmed="yes")
        assert (wrong.status_code, 'name="code"' in wrong.text) == (422, True), "it can be entered again"
    assert post(client, "/account/second-factor/start", present=PASSWORD).status_code == 422, "on already"
    clock.forward()
    renewed = post(client, "/account/second-factor/codes", code=clock.code(secret), confirmed="yes").text
    new = re.findall(r"\b[a-z2-7]{4}(?:-[a-z2-7]{4}){3}\b", renewed)
    assert second_step(plain, "yves", old[0]).status_code == 401
    assert second_step(plain, "yves", new[0]).status_code == 303
    assert post(client, "/account/second-factor/off", code=new[1], confirmed="yes").status_code == 303
    assert login(plain, "yves").last.status_code == 303


def test_an_admin_resets_it_and_a_link_needs_no_code(plain: LiveWeb, clock: Clock) -> None:
    client, _, _ = set_up(plain, clock, "zora")
    url = plain.client.post("/v3/users/zora/login-link").json()["url"]
    by_link = plain.http()
    form = {"token": url.partition("token=")[2], "csrf_token": csrf_of(by_link.get(url, headers=FORM).text)}
    assert by_link.post("/login/link", data=form, headers=FORM).status_code == 303
    boss, _, _ = set_up(plain, clock, "boss", "admin")
    own = boss.delete("/v3/users/boss/second-factor", headers={"X-CSRF-Token": session_token(boss)})
    assert (own.status_code, "with a code" in own.text) == (403, True)
    assert plain.client.delete("/v3/users/zora/second-factor?validate_only=true").status_code == 200
    assert client.get("/v3/clusters").status_code == 503
    asked = post(boss, "/access/users/zora/reset-second-factor")
    assert confirm(boss, asked).status_code == 303
    assert client.get("/v3/clusters").status_code == 401
    assert login(plain, "zora").last.status_code == 303
    assert plain.client.delete("/v3/users/zora/second-factor").status_code == 409
    assert plain.client.delete("/v3/users/boss/second-factor").status_code == 204, "by a token, of another"
    assert plain.client.delete("/v3/users/boss").status_code == 204


def test_the_database_alone_makes_no_code(tmp_path: Path) -> None:
    with running_web(tmp_path, "127.0.0.1:1") as web:
        clock = Clock(web)
        _, secret, codes = set_up(web, clock, "anna")
        web.client.patch("/v3/users/anna", json={"password": PASSWORD})
        clock.forward()
        user = web.call(web.services.security.user("anna"))
        stored = f"{user.totp_secret} {user.recovery_digests}"
        for text in (secret, b32decode(secret).hex(), *codes, digest(totp.normal(codes[0]))):
            assert text not in stored
        web.services.security._key = b"another key of another installation"
        client, form = first_step(web, "anna")
        for code in (clock.code(secret), codes[0]):
            assert client.post("/login/code", data={**form, "code": code}, headers=FORM).status_code == 401
