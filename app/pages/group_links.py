"""Addresses of groups: an id may have any characters, and most of them fit into a path segment."""

from urllib.parse import quote, urlencode


def group_path(group_id: str) -> str:
    """Return the address of a group's page.

    Browsers resolve `.` and `..`, and an encoded `/` is a separator to the router: such ids stand in the query.
    """
    if group_id in {"", ".", ".."} or "/" in group_id:
        return f"/groups/?{urlencode({'id': group_id})}"
    return f"/groups/{quote(group_id, safe='')}"
