"""Entity tags: which answer a client already has."""


def is_among(etag: str, header: str | None) -> bool:
    """Return whether a header such as If-None-Match names the state of this tag.

    The comparison is weak: a compressed answer has the tag of its state with `W/`.
    """
    return header is not None and (header.strip() == "*" or _opaque(etag) in map(_opaque, header.split(",")))


def weak(etag: str) -> str:
    """Return the tag of another representation of the same state."""
    return etag if etag.startswith("W/") else f"W/{etag}"


def _opaque(tag: str) -> str:
    return tag.strip().removeprefix("W/")
