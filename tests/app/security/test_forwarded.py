"""A client's address behind proxies counts only if a trusted proxy reports it."""

import ipaddress
from pathlib import Path

import pytest
from starlette.datastructures import Headers

from app.config import SettingsError, load_settings
from app.security.forwarded import Origin, origin_of
from tests.app.live import running_web

PROXIES = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "::1/128")))


def headers(**given: str) -> Headers:
    return Headers({name.replace("_", "-"): value for name, value in given.items()})


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "proto", "origin"),
    [
        ("10.0.0.1", "203.0.113.9", "https", Origin("203.0.113.9", "https")),
        (
            "10.0.0.1",
            "6.6.6.6, 203.0.113.9",
            "https",
            Origin("203.0.113.9", "https"),
        ),  # the first was sent by the client
        ("10.0.0.1", "203.0.113.9, 10.1.2.3", "http", Origin("203.0.113.9", "http")),
        ("10.0.0.1", "203.0.113.9:4711", "https", Origin("203.0.113.9", "https")),
        ("::1", "[2001:db8::7]:4711", "HTTPS", Origin("2001:db8::7", "https")),
        ("::ffff:10.0.0.1", "203.0.113.9", "https", Origin("203.0.113.9", "https")),
        ("10.0.0.1", "203.0.113.9, <script>", "javascript", Origin("10.0.0.1", "http")),
        ("10.0.0.1", "", "", Origin("10.0.0.1", "http")),
        ("10.0.0.1", "10.0.0.2, 10.0.0.3", "https", Origin("10.0.0.2", "https")),
        ("203.0.113.1", "10.0.0.9", "https", Origin("203.0.113.1", "http")),  # not a proxy of ours
        ("local", "10.0.0.9", "https", Origin("local", "http")),
    ],
)
def test_only_headers_of_a_trusted_proxy_count(peer: str, forwarded_for: str, proto: str, origin: Origin) -> None:
    given = headers(x_forwarded_for=forwarded_for, x_forwarded_proto=proto)
    assert origin_of(peer, "http", given, PROXIES) == origin


def test_without_a_trusted_proxy_no_header_counts() -> None:
    given = headers(x_forwarded_for="203.0.113.9", x_forwarded_proto="https")
    assert origin_of("127.0.0.1", "http", given, ()) == Origin("127.0.0.1", "http")


def test_an_invalid_network_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "web.toml"
    path.write_text('bootstrap_controllers = "127.0.0.1:9093"\ntrusted_proxies = "10.0.0.0/33"\n')
    with pytest.raises(SettingsError, match=r"'10\.0\.0\.0/33' is not an IP address or network"):
        load_settings(path)


def test_audit_limits_and_cookies_follow_the_client_behind_the_proxy(tmp_path: Path) -> None:
    with running_web(tmp_path, "127.0.0.1:1", trusted_proxies="127.0.0.1", login_attempts_max=1) as web:
        web.client.post("/v3/users", json={"name": "ann", "role": "viewer"}, headers={"X-Forwarded-For": "203.0.113.9"})
        events = web.client.get("/v3/audit?action=user.create").json()["data"]
        assert [event["source"] for event in events] == ["203.0.113.9"]
        page = web.http().get("/login", headers={"X-Forwarded-Proto": "https"})
        assert "Secure" in page.headers["set-cookie"]
        assert "max-age" in page.headers["Strict-Transport-Security"]
        assert "Strict-Transport-Security" not in web.http().get("/login").headers


def test_a_stranger_cannot_choose_an_address_without_a_trusted_proxy(tmp_path: Path) -> None:
    with running_web(tmp_path, "127.0.0.1:1") as web:
        web.client.post("/v3/users", json={"name": "ann", "role": "viewer"}, headers={"X-Forwarded-For": "203.0.113.9"})
        events = web.client.get("/v3/audit?action=user.create").json()["data"]
        assert [event["source"] for event in events] == ["127.0.0.1"]
        assert (
            "Strict-Transport-Security" not in web.http().get("/login", headers={"X-Forwarded-Proto": "https"}).headers
        )
