"""A real OpenID issuer on this machine: code flow with PKCE, its own RSA keys, groups, and faults on demand."""

import base64
import hashlib
import hmac
import json
import secrets
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from joserfc import jws
from joserfc.jwk import RSAKey

CLIENT_ID = "conclave-test"
CLIENT_SECRET = "a secret: with a colon & more"


@dataclass
class Issuer:
    """The state of the issuer. `claims` are of the next login, and `change` makes its ID token wrong."""

    url: str = ""
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "1", "preferred_username": "ann", "groups": []})
    userinfo: dict[str, Any] | None = None
    change: dict[str, Any] = field(default_factory=dict)
    signs_with: str = "RS256"
    is_published: bool = True
    keys: list[RSAKey] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def new_key(self) -> None:
        """Sign with a new key from now on; the old ones are gone."""
        self.keys = [RSAKey.generate_key(2048, {"kid": secrets.token_hex(4), "use": "sig"})]

    def logs_in(self, name: str, *groups: str, sub: str | None = None) -> None:
        """Let the next login be that of this user, with a good token."""
        self.claims = {"sub": sub or f"sub-{name}", "preferred_username": name, "groups": list(groups)}
        self.change, self.signs_with, self.userinfo = {}, "RS256", None

    def id_token(self, nonce: str) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce, **self.claims}
        claims = {name: value for name, value in {**claims, **self.change}.items() if value is not None}
        key = self.keys[-1]
        if self.signs_with in {"none", "HS256"}:
            text = ".".join(_base64(json.dumps(each)) for each in ({"alg": self.signs_with, "kid": key.kid}, claims))
            public = hmac.digest(key.as_pem(private=False), text.encode(), "sha256")
            return f"{text}.{'' if self.signs_with == 'none' else _base64(public)}"
        if self.signs_with == "stranger":
            return jws.serialize_compact(
                {"alg": "RS256", "kid": key.kid}, json.dumps(claims), RSAKey.generate_key(2048)
            )
        header = {"alg": self.signs_with, "kid": key.kid}
        return jws.serialize_compact(header, json.dumps(claims), key, algorithms=[self.signs_with])


def _base64(data: str | bytes) -> str:
    return base64.urlsafe_b64encode(data.encode() if isinstance(data, str) else data).decode().rstrip("=")


class Handler(BaseHTTPRequestHandler):
    issuer: Issuer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.issuer.asked.append(parts.path)
        match parts.path:
            case "/realm/.well-known/openid-configuration":
                self.answer(200, self.document())
            case "/realm/keys":
                odd = [None, {"kty": ["RSA"]}, {"kty": "RSA", "n": ["x" * 400], "e": 3, "use": ["sig"]}]
                self.answer(200, {"keys": [*odd, *(key.as_dict(private=False) for key in self.issuer.keys)]})
            case "/realm/userinfo":
                self.answer(200, self.issuer.userinfo or {})
            case "/realm/login" if "user" in query:
                self.give_code(query)
            case "/realm/login":
                fields = "".join(f'<input type="hidden" name="{n}" value="{escape(v)}">' for n, v in query.items())
                self.answer(200, f'<form>{fields}<button name="user" value="x">Enter the company</button></form>')
            case _:
                self.answer(404, {})

    def document(self) -> dict[str, Any]:
        url = self.issuer.url
        return {
            "issuer": url,
            "authorization_endpoint": f"{url}/login?tenant=1",
            "token_endpoint": f"{url}/token",
            "jwks_uri": f"{url}/keys",
            "userinfo_endpoint": f"{url}/userinfo",
            "authorization_response_iss_parameter_supported": True,
        }

    def give_code(self, query: dict[str, str]) -> None:
        assert query["tenant"] == "1"
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(8)
        self.issuer.codes[code] = query
        back = urlencode({"code": code, "state": query["state"], "iss": self.issuer.url})
        self.send_response(302)
        self.send_header("Location", f"{query['redirect_uri']}?{back}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        given = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        if [unquote_plus(part) for part in given.split(":")] != [CLIENT_ID, CLIENT_SECRET]:
            self.answer(401, {"error": "invalid_client"})
            return
        asked = self.issuer.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if (
            asked is None
            or form["grant_type"] != "authorization_code"
            or form["redirect_uri"] != asked["redirect_uri"]
            or _base64(digest) != asked["code_challenge"]
        ):
            self.answer(400, {"error": "invalid_grant", "error_description": "<b>a secret</b>"})
            return
        token = self.issuer.id_token(asked["nonce"])
        self.answer(200, {"access_token": "an-access-token", "token_type": "Bearer", "id_token": token})

    def answer(self, status: int, content: Any) -> None:
        body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if isinstance(content, str) else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def running_issuer(tls: ssl.SSLContext | None = None, host: str = "localhost", port: int = 0) -> Iterator[Issuer]:
    """An issuer on a port of its own, below a path."""
    issuer = Issuer()
    issuer.new_key()
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Bound", (Handler,), {"issuer": issuer}))
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    issuer.url = f"{'http' if tls is None else 'https'}://{host}:{server.server_address[1]}/realm"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
