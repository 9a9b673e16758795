"""Path segments that stay percent-encoded until the route has matched: ids of groups, their members and transactions.

Such an id may have any characters, also `/`, a line break, or be `.`: after decoding, the path would be another one.
Their routes decode the segment themselves.
"""

from typing import Final
from urllib.parse import quote, unquote

_GROUPS: Final = "consumer-groups"
_WITH_IDS: Final = frozenset({_GROUPS, "transactions"})
_PREFIX_LENGTH: Final = 5  # of ["", "v3", "clusters", CLUSTER, "consumer-groups"]


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
    return quote(text, safe=":-") if text not in {".", ".."} else text.replace(".", "%2E")


def quoted_path(routed: str) -> str:
    """Return a path of the router as an address has it."""
    segments = routed.split("/")
    kept = encoded_segments(segments)
    return "/".join(each if index in kept else quote(each, safe=":-") for index, each in enumerate(segments))
