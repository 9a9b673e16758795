"""Logins in Chromium: at an OpenID issuer of another site, and with a second factor."""

from base64 import b32decode
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from app.security.totp import STEP_SECONDS, code_at
from tests.app.live import LiveWeb, running_web
from tests.app.security.oidc_issuer import Issuer, running_issuer
from tests.app.security.test_logins import PASSWORD, add_user
from tests.app.security.test_logins import login as log_in_by_password
from tests.app.security.test_oidc import oidc_settings
from tests.browser.axe import violations
from tests.browser.conftest import Watch

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as running:
        yield running


@pytest.fixture(scope="module")
def company(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    """A web process at 127.0.0.1 whose issuer is at localhost: another site for a browser."""
    with running_web(tmp_path_factory.mktemp("company"), "127.0.0.1:1", **oidc_settings(issuer)) as web:
        yield web


@pytest.fixture
def visitor(company: LiveWeb, chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(base_url=company.url)
    watch = Watch(context)
    yield context.new_page()
    context.close()
    assert watch.complaints == []


def test_a_visitor_logs_in_at_the_issuer_and_lands_on_the_page_asked_for(visitor: Page, issuer: Issuer) -> None:
    issuer.logs_in("ann", "kafka-admins")
    visitor.goto("/account")
    expect(visitor.get_by_role("heading", name="Conclave")).to_be_visible()
    assert violations(visitor) == []
    visitor.get_by_role("link", name="Log in with single sign-on").click()
    visitor.get_by_role("button", name="Enter the company").click()
    expect(visitor).to_have_url(f"{visitor.url.partition('/account')[0]}/account")
    expect(visitor.get_by_text("You log in at the login service")).to_be_visible()
    visitor.goto("/access")
    expect(visitor.get_by_role("cell", name="at the login service").first).to_be_visible()
    visitor.get_by_role("button", name="Log out").click()
    expect(visitor.get_by_label("Password")).to_be_visible()


def test_an_admin_sees_which_roles_of_a_user_come_from_groups(visitor: Page, issuer: Issuer) -> None:
    for name, group in (("pia", "payments"), ("ann", "kafka-admins")):
        issuer.logs_in(name, group)
        visitor.goto("/login")
        visitor.get_by_role("link", name="Log in with single sign-on").click()
        visitor.get_by_role("button", name="Enter the company").click()
        expect(visitor.get_by_role("button", name="Log out")).to_be_visible()
        if name == "pia":
            visitor.get_by_role("button", name="Log out").click()
            expect(visitor.get_by_label("Password")).to_be_visible()
    visitor.goto("/access")
    expect(visitor.get_by_text("no cluster has this key")).to_be_visible()
    assert violations(visitor) == []
    visitor.get_by_role("row", name="pia").get_by_role("link", name="3 more roles").click()
    expect(visitor.get_by_role("cell", name="group payments")).to_have_count(3)
    expect(visitor.get_by_role("button", name="Take…")).to_have_count(0)
    assert violations(visitor) == []


def test_an_admin_sees_who_is_logged_in_and_ends_a_session(visitor: Page, company: LiveWeb, issuer: Issuer) -> None:
    add_user(company, "walter")
    browser = company.http()
    browser.headers["User-Agent"] = "A browser of walter"
    log_in_by_password(company, "walter", client=browser)
    issuer.logs_in("ann", "kafka-admins")
    visitor.goto("/login")
    visitor.get_by_role("link", name="Log in with single sign-on").click()
    visitor.get_by_role("button", name="Enter the company").click()
    expect(visitor.get_by_role("button", name="Log out")).to_be_visible()
    visitor.goto("/access")
    visitor.get_by_role("row", name="walter").get_by_role("link", name="Sessions").click()
    expect(visitor.get_by_role("row", name="A browser of walter")).to_contain_text("password")
    assert violations(visitor) == []
    visitor.get_by_role("link", name="Show those of all users").click()
    expect(visitor.get_by_text("this session")).to_be_visible()
    visitor.get_by_role("row", name="A browser of walter").get_by_role("button").click()
    expect(visitor.get_by_role("cell", name="A browser of walter from 127.0.0.1")).to_be_visible()
    assert violations(visitor) == []
    visitor.get_by_role("button", name="End session").click()
    expect(visitor.get_by_role("status").filter(has_text="Session ended.")).to_be_visible()
    expect(visitor.get_by_role("row", name="A browser of walter")).to_have_count(0)
    assert browser.get("/v3/clusters").status_code == 401


def test_a_refused_login_says_why_and_offers_both_ways(visitor: Page, issuer: Issuer) -> None:
    issuer.logs_in("stranger", "no-group-of-ours")
    visitor.goto("/login")
    visitor.get_by_role("link", name="Log in with single sign-on").click()
    visitor.get_by_role("button", name="Enter the company").click()
    expect(visitor.get_by_role("alert")).to_contain_text("none of your groups has a role here")
    assert violations(visitor) == []
    visitor.get_by_role("link", name="Log in with a password").click()
    expect(visitor.get_by_label("Password")).to_be_visible()


def test_a_user_sets_up_a_second_factor_and_logs_in_with_it(
    visitor: Page, company: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = company.services.security.now()
    monkeypatch.setattr(company.services.security, "_clock", lambda: now)  # so that the code stays right
    add_user(company, "paula")
    visitor.goto("/account")
    visitor.get_by_label("Name").fill("paula")
    visitor.get_by_label("Password").fill(PASSWORD)
    visitor.get_by_role("button", name="Log in").click()
    panel = visitor.locator("section.panel", has=visitor.get_by_role("heading", name="Second factor"))
    panel.get_by_label("Current password").fill(PASSWORD)
    panel.get_by_role("button", name="Set up").click()
    image = visitor.get_by_role("img", name="QR code")
    expect(image).to_be_visible()
    assert image.evaluate("each => each.naturalWidth") > 100, "the content policy lets it through"
    assert violations(visitor) == []
    text = visitor.locator("details pre").text_content() or ""
    secret = b32decode(parse_qs(urlsplit(text).query)["secret"][0])
    visitor.get_by_label("Code").fill(code_at(secret, int(now.timestamp()) // STEP_SECONDS))
    visitor.get_by_role("button", name="Turn on").click()
    expect(visitor.get_by_text("Each of these codes logs you in once")).to_be_visible()
    code = (visitor.locator("pre").text_content() or "").split()[0]
    assert violations(visitor) == []
    visitor.goto("/account")
    assert violations(visitor) == []
    visitor.get_by_role("button", name="Log out").click()
    visitor.get_by_label("Name").fill("paula")
    visitor.get_by_label("Password").fill(PASSWORD)
    visitor.get_by_role("button", name="Log in").click()
    expect(visitor.get_by_label("Code")).to_be_focused()
    assert violations(visitor) == []
    visitor.get_by_label("Code").fill(code)
    visitor.get_by_role("button", name="Log in").click()
    expect(visitor.get_by_role("button", name="Log out")).to_be_visible()
