"""Paths of the API: its second prefix, and segments that stay percent-encoded until the route has matched.

Confluent Server has REST v3 under `/kafka`, the proxy has it at the root: each path of the API answers under both.

Ids of groups, their members and transactions may have any characters, also `/`, a line break, or be `.`: after
decoding, the path would be another one. Their routes decode the segment themselves.
"""

import re
from typing import Final
from urllib.parse import quote, unquote

from starlette.types import Scope

API: Final = "/v3"
PREFIX: Final = "/kafka"
_GROUPS: Final = "consumer-groups"
_WITH_IDS: Final = frozenset({_GROUPS, "transactions"})
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
"""Segments that stay as they are, such as the names of topics: most of them, so they are recognised fast."""
_PREFIX_LENGTH: Final = 5  # of ["", "v3", "clusters", CLUSTER, "consumer-groups"]


def strip_prefix(scope: Scope) -> str:
    """Remove the prefix from the path of a request to the API, and return it; else return nothing.

    A prefix with percent-encoded letters is not recognised: the path would be another one to a proxy.
    """
    raw: bytes = scope["raw_path"]
    if not is_api(scope["path"].removeprefix(PREFIX)) or not raw.startswith(PREFIX.encode() + b"/"):
        return ""
    scope["path"] = scope["path"].removeprefix(PREFIX)
    scope["raw_path"] = raw.removeprefix(PREFIX.encode())
    return PREFIX


def is_api(path: str) -> bool:
    """Return whether a path without the prefix is one of the API."""
    return path == API or path.startswith(f"{API}/")


def encoded_segments(segments: list[str]) -> frozenset[int]:
    """Return the indexes of the segments that stay encoded, of a path that is split at `/`."""
    if len(segments) <= _PREFIX_LENGTH or segments[1:3] != ["v3", "clusters"] or segments[4] not in _WITH_IDS:
        return frozenset()
    is_member = len(segments) > 7 and segments[4] == _GROUPS and segments[6] == "consumers"
    return frozenset({5, 7} if is_member else {5})


def routed_path(raw_path: str) -> str | None:
    """Return the path for the router, None if it has no segment that stays encoded."""
    segments = raw_path.split("/")
    kept = encoded_segments(segments)
    if not kept:
        return None
    return "/".join(
        segment_of(unquote(each)) if index in kept else unquote(each) for index, each in enumerate(segments)
    )


def segment_of(text: str) -> str:
    """Return an id as one path segment. Clients resolve `.` and `..`, so that these are encoded too."""
    if _PLAIN.fullmatch(text):
        return text
    return quote(text, safe=":-") if text not in {".", ".."} else text.replace(".", "%2E")


def quoted_path(routed: str) -> str:
    """Return a path of the router as an address has it."""
    segments = routed.split("/")
    kept = encoded_segments(segments)
    return "/".join(each if index in kept else quote(each, safe=":-") for index, each in enumerate(segments))
