"""Addresses in requests and answers: Host, Location, the target of a login, and page tokens."""

import base64
import re
import socket
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.app.live import ADMIN_TOKEN, LiveWeb
from tests.app.security.test_logins import FORM, csrf_of, login

APP = Path(__file__).resolve().parents[3] / "app"


def raw(web: LiveWeb, request: bytes) -> bytes:
    """Send one request as it is, and return the whole answer."""
    with socket.create_connection(("127.0.0.1", web.port), timeout=60) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    return answer


def status_for_host(web: LiveWeb, *hosts: str) -> int:
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    return int(raw(web, f"GET /healthz HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode()).split()[1])


@pytest.mark.parametrize("host", ["localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:65535", "[::1]:80"])
def test_requests_for_our_host_names_are_served(web: LiveWeb, host: str) -> None:
    assert status_for_host(web, host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "localhost:@evil.example",
        "localhost:80@evil.example",
        "localhost:80:80",
        "localhost:",
        "localhost:0",
        "localhost:65536",
        "localhost:evil",
        "localhost/evil",
        "[::1]evil",
        "::1",
        "2130706433",
        "",
    ],
)
def test_requests_for_another_host_name_are_refused(web: LiveWeb, host: str) -> None:
    assert status_for_host(web, host) in {400, 421}


def test_a_request_without_a_host_or_with_two_is_refused(web: LiveWeb) -> None:
    assert status_for_host(web) in {400, 421}
    assert status_for_host(web, "localhost", "evil.example") == 400
    assert status_for_host(web, "localhost", "localhost") == 400


@pytest.mark.parametrize("name", ["Łukasz", "日本", "ann marie", "ünï?x=1#y", "a/b"])
def test_a_name_of_any_letters_has_a_location_that_leads_to_it(web: LiveWeb, name: str) -> None:
    for kind, body in (("users", {"name": name, "role": "viewer"}), ("tokens", {"name": name, "role": "viewer"})):
        made = web.client.post(f"/v3/{kind}", json=body)
        assert made.status_code == 201, made.text
        assert made.headers["Location"] == f"{web.url}/v3/{kind}/{quote(name, safe='')}"
        assert made.json()["metadata"]["self"] == made.headers["Location"]


def test_every_location_comes_from_one_helper() -> None:
    """Otherwise a name beyond Latin-1 in a header would be an error after the change was made."""
    pattern = re.compile(r"RedirectResponse\(|[\"'](?:Location|HX-Redirect|HX-Push-Url)[\"']")
    found = {path.name for path in APP.rglob("*.py") if pattern.search(path.read_text())}
    assert found == {"locations.py"}


@pytest.mark.parametrize("address", ["http://[x", "//[x", "http://[::1"])
def test_a_login_with_an_invalid_target_is_a_bad_request(web: LiveWeb, address: str) -> None:
    visitor = web.http()
    shown = visitor.get("/login", params={"next": address}, headers=FORM)
    assert shown.status_code == 400, shown.text
    assert "next" in shown.text
    token = csrf_of(visitor.get("/login", headers=FORM).text)
    form = {"name": "nobody", "password": "x", "next": address, "csrf_token": token}
    assert visitor.post("/login", data=form, headers=FORM).status_code == 400


def test_a_login_redirects_to_a_page_of_this_server_only(web: LiveWeb) -> None:
    assert 'value="/topics?q=ä"' in web.http().get("/login", params={"next": "/topics?q=ä"}, headers=FORM).text


@pytest.mark.parametrize(
    "said", [b"[" * 1_500, b'{"list":' + b"[" * 1_400, b"1" * 1_400, b'{"list": "x", "after": NaN}', b"\xff", b"null"]
)
def test_a_page_token_of_any_content_is_a_bad_request(web: LiveWeb, said: bytes) -> None:
    token = base64.urlsafe_b64encode(said).decode()[:2_000]
    answer = web.client.get(f"{web.cluster}/topics", params={"page_token": token})
    assert answer.status_code == 400, answer.text
    assert "page_token" in answer.json()["message"]


def test_the_login_page_explains_the_login_link(web: LiveWeb) -> None:
    shown = web.http().get("/login", headers=FORM).text
    assert "conclave login-link" in shown
    assert str(web.services.settings.data_dir) not in shown, "a stranger learns no path"


def test_a_refused_login_says_where_to_get_a_link(web: LiveWeb) -> None:
    assert "conclave login-link" in login(web, "nobody", "wrong").last.text


def test_a_page_leads_to_a_name_beyond_latin_1(web: LiveWeb) -> None:
    web.client.post("/v3/users", json={"name": "Grażyna", "role": "viewer"})
    assert web.http(ADMIN_TOKEN).get("/access", headers=FORM).status_code == 200
