"""Addresses of several clusters: /c/KEY/… is the page /… of the cluster KEY, without it that of the settings' cluster.

Routes, handlers and templates do not know the prefix. It is taken off the path of a request, and put before the
addresses of this server in the answer: in its headers, and in the attributes of its pages. Texts of users cannot be
mistaken for an attribute, since templates escape their quotes.
"""

import re
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import Scope

PREFIX: Final = "/c/"
HOME: Final = "default"
"""The key by which pages of other clusters link to the cluster of the settings, whose addresses have no prefix."""
KEY: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_ADDRESS: Final = re.compile(
    r'\b(href|action|formaction|hx-get|hx-post|data-live|data-source|data-tail|data-root)="/(?!/|c/|static/)'
)
_HEADERS: Final = ("location", "hx-redirect", "hx-push-url")


def key_of(name: str) -> str:
    """Return the key of a cluster from the name that forms and settings use, which is HOME for that of the settings."""
    return "" if name == HOME else name


def cluster_key(scope: Scope) -> str | None:
    """Return the key in the path of a request, None if it has none. A percent-encoded key is not recognised."""
    if not scope["path"].startswith(PREFIX):
        return None
    key: str = scope["path"].removeprefix(PREFIX).partition("/")[0]
    raw = f"{PREFIX}{key}".encode()
    is_plain = scope["raw_path"] == raw or scope["raw_path"].startswith(raw + b"/")
    return key if is_plain and KEY.fullmatch(key) else None


def strip_root(scope: Scope, root: str) -> None:
    """Take a cluster's prefix off the path of a request."""
    scope["path"] = scope["path"].removeprefix(root) or "/"
    scope["raw_path"] = scope["raw_path"].removeprefix(root.encode()) or b"/"


def root_of_key(key: str) -> str:
    """Return the prefix of a cluster's addresses, "" for the cluster of the settings."""
    return f"{PREFIX}{key}" if key else ""


def under_root(root: str, html: str) -> str:
    """Return a page whose addresses are those of the cluster with this prefix."""
    return _ADDRESS.sub(rf'\1="{root}/', html) if root else html


def address_under_root(root: str, address: str) -> str:
    """Return the address of a page as one of the cluster with this prefix; other addresses stay as they are."""
    is_own = address.startswith("/") and not address.startswith(("//", PREFIX, "/static/"))
    return f"{root}{address}" if is_own else address


def mark_headers(root: str, headers: MutableHeaders) -> None:
    """Put the prefix before the addresses in the headers of an answer."""
    if not root:
        return
    for name in _HEADERS:
        if name in headers:
            headers[name] = address_under_root(root, headers[name])
