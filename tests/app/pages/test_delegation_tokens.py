"""Delegation tokens on the pages: created with a preview, with an HMAC shown once that renews and expires them."""

import re
from collections.abc import Iterator

import httpx
import pytest
from bs4 import BeautifulSoup

from kraft_core.image.metadata_image import DelegationToken
from tests.app.live import LiveWeb, running_web
from tests.app.security.test_logins import FORM, add_user, csrf_of, login
from tests.security.secure_quorum import secure_quorum, wait_for_voters

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWeb]:
    """Yield a web process that is logged in as User:admin to a controller with delegation tokens enabled."""
    folder = tmp_path_factory.mktemp("tokens")
    secret = {"delegation_token_secret_key": "the secret of all tokens"}
    with secure_quorum(folder, 1, "SASL_PLAINTEXT", "PLAIN", **secret) as quorum:
        quorum.format(1)
        quorum.start(1)
        quorum.wait_for_leader(60)
        wait_for_voters(quorum, 60)
        with running_web(folder, quorum.bootstrap, command_config=quorum.command_config) as running:
            running.wait_ready()
            add_user(running, "xena", "admin")
            yield running


@pytest.fixture
def admin(web: LiveWeb) -> httpx.Client:
    client = login(web, "xena")
    client.follow_redirects = True
    return client


def send(client: httpx.Client, path: str, **form: str) -> BeautifulSoup:
    """Post a form as its button would, and return the next page."""
    token = csrf_of(client.get("/rights", headers=FORM).text)
    answer = client.post(path, data={**form, "csrf_token": token}, headers=FORM)
    assert answer.status_code < 500, answer.text
    return BeautifulSoup(answer.text, "html.parser")


def words(page: BeautifulSoup, selector: str = "main") -> str:
    found = page.select_one(selector)
    assert found is not None, page
    return " ".join(found.get_text(" ").split())


def make(web: LiveWeb, admin: httpx.Client, **form: str) -> tuple[DelegationToken, str]:
    """Return a new token from the image, and its HMAC from the page."""
    page = send(admin, "/rights/tokens", confirmed="yes", **form)
    facts = {label.get_text(): label.find_next("dd").get_text() for label in page.select("dl.plain dt")}  # type: ignore[union-attr]  # each has its dd
    return web.services.cluster.image.delegation_tokens[facts["Token id"]], words(page, "#hmac")


def test_a_token_is_previewed_before_it_is_created(web: LiveWeb, admin: httpx.Client) -> None:
    before = set(web.services.cluster.image.delegation_tokens)
    form = {"owner": "User:alice", "renewers": "User:bob\nUser:CN=c,OU=d\n", "hours": "7"}
    looked = send(admin, "/rights/tokens", **form)
    for expected in (
        "Owner User:alice",
        "Renewers User:bob, User:CN=c,OU=d",
        "Maximum lifetime 7 hours",
        "The HMAC is shown once",
    ):
        assert expected in words(looked)
    assert set(web.services.cluster.image.delegation_tokens) == before
    hidden = {each["name"]: each["value"] for each in looked.select("form[action='/rights/tokens'] input[type=hidden]")}
    done = send(admin, "/rights/tokens", **{name: str(value) for name, value in hidden.items() if name != "csrf_token"})
    ((made,)) = [
        web.services.cluster.image.delegation_tokens[each]
        for each in set(web.services.cluster.image.delegation_tokens) - before
    ]
    assert (made.owner, made.requester, made.renewers) == ("User:alice", "User:admin", ("User:bob", "User:CN=c,OU=d"))
    assert made.max_timestamp - made.issue_timestamp == 7 * HOUR_MS
    assert made.token_id in words(done)
    assert re.search(r"Delegation token created at offset \d+", words(done))
    hmac = words(done, "#hmac")
    for path in ("/rights/tokens", f"/rights/tokens/{made.token_id}/renew", "/changes", "/audit"):
        shown = admin.get(path, headers=FORM)
        assert shown.status_code == 200
        assert hmac not in shown.text, path


def test_a_token_without_an_owner_belongs_to_the_user_of_this_process(web: LiveWeb, admin: httpx.Client) -> None:
    made, _ = make(web, admin)
    assert (made.owner, made.renewers) == ("User:admin", ())


def test_a_token_is_renewed_and_expired_and_the_page_says_what_changed(web: LiveWeb, admin: httpx.Client) -> None:
    made, hmac = make(web, admin, hours="48")
    renew, end = (f"/rights/tokens/{made.token_id}/{kind}" for kind in ("renew", "end"))
    assert {renew, end} <= {
        each["href"]
        for each in BeautifulSoup(admin.get("/rights/tokens", headers=FORM).text, "html.parser").select("#token-list a")
    }
    page = BeautifulSoup(admin.get(renew, headers=FORM).text, "html.parser")
    assert re.search(
        r"Expiry of token \S+ of User:admin \d{4}-\d\d-\d\d \S+ UTC in the given hours, at most until \d{4}-",
        words(page),
    )
    shown = words(send(admin, renew, hmac=hmac, hours="2"))
    assert re.search(
        rf"Token {made.token_id} of User:admin now expires \S+ \S+ UTC \(was \S+ \S+ UTC\), changed at offset \d+\.",
        shown,
    )
    now = web.services.cluster.image.delegation_tokens[made.token_id]
    assert now.expiration_timestamp < made.expiration_timestamp
    shown = words(send(admin, end, hmac=hmac))
    assert f"Token {made.token_id} of User:admin expired at offset" in shown
    assert made.token_id not in web.services.cluster.image.delegation_tokens
    assert admin.get(end, headers=FORM).status_code == 404


def test_the_hmac_of_another_token_is_reported(web: LiveWeb, admin: httpx.Client) -> None:
    made, _ = make(web, admin)
    _, other_hmac = make(web, admin)
    shown = words(send(admin, f"/rights/tokens/{made.token_id}/renew", hmac=other_hmac, hours="2"))
    assert "This is the HMAC of another token" in shown
    assert web.services.cluster.image.delegation_tokens[made.token_id] == made


@pytest.mark.parametrize(
    ("hmac", "hours", "expected"),
    [
        ("not Base64!", "1", "The HMAC is not valid Base64."),
        ("c2VjcmV0", "1", "DELEGATION_TOKEN_NOT_FOUND"),
        ("c2VjcmV0", "soon", "'soon' is not a whole number of hours from 1 to 878400."),
    ],
)
def test_a_refused_change_says_why_and_does_not_repeat_the_hmac(
    web: LiveWeb, admin: httpx.Client, hmac: str, hours: str, expected: str
) -> None:
    made, _ = make(web, admin)
    page = send(admin, f"/rights/tokens/{made.token_id}/renew", hmac=hmac, hours=hours)
    assert expected in words(page, "[role=alert]")
    assert hmac not in str(page)
    assert web.services.cluster.image.delegation_tokens[made.token_id] == made


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"owner": "alice"}, "'alice' is not a principal such as User:alice."),
        ({"renewers": "User:bob\n:c"}, "':c' is not a principal such as User:alice."),
        ({"hours": "0"}, "'0' is not a whole number of hours from 1 to 878400."),
        ({"renewers": "Group:admins", "confirmed": "yes"}, "INVALID_PRINCIPAL_TYPE"),
    ],
)
def test_a_refused_token_says_why(web: LiveWeb, admin: httpx.Client, form: dict[str, str], expected: str) -> None:
    before = set(web.services.cluster.image.delegation_tokens)
    page = send(admin, "/rights/tokens", **form)
    assert expected in words(page, "[role=alert]")
    if "confirmed" not in form:
        shown = page.select_one("#token-owner")
        assert shown is not None
        assert shown["value"] == form.get("owner", ""), "what was typed is kept"
    assert set(web.services.cluster.image.delegation_tokens) == before
