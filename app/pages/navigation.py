"""The navigation of every page: its groups, entries and icons."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.security.roles import Role
from app.texts import phrase


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: address, text, the name of a symbol in static/icons.svg, and the least role that may open it.

    With `own` it is the user's own role, which grants do not raise.
    """

    href: str
    label: str
    icon: str
    role: Role = Role.VIEWER
    own: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Entries under one heading."""

    title: str
    entries: Sequence[Entry]


NAVIGATION: Final = (
    Group(
        phrase("Observe"),
        (
            Entry("/", phrase("Dashboard"), "gauge"),
            Entry("/topics", phrase("Topics"), "layers"),
            Entry("/groups", phrase("Groups"), "groups"),
            Entry("/transactions", phrase("Transactions"), "transactions"),
            Entry("/brokers", phrase("Brokers"), "server"),
            Entry("/quorum", phrase("Quorum"), "quorum"),
            Entry("/changes", phrase("Changes"), "history"),
            Entry("/reports", phrase("Reports"), "chart"),
        ),
    ),
    Group(
        phrase("Change"),
        (
            Entry("/plans", phrase("Plans"), "moves"),
            Entry("/features", phrase("Features"), "flag"),
        ),
    ),
    Group(
        phrase("Admin"),
        (
            Entry("/clusters", phrase("Clusters"), "clusters", Role.NONE),
            Entry("/rights", phrase("Access control"), "shield", Role.ADMIN),
            Entry("/access", phrase("Users and tokens"), "users", Role.ADMIN, own=True),
            Entry("/audit", phrase("Audit"), "list", Role.ADMIN, own=True),
            Entry("/explorer", phrase("API explorer"), "code"),
        ),
    ),
)


def navigation_of(role: Role, own_role: Role) -> list[Group]:
    """Return the groups with the entries that these roles may open, without empty groups."""
    groups = [
        Group(group.title, [each for each in group.entries if (own_role if each.own else role) >= each.role])
        for group in NAVIGATION
    ]
    return [group for group in groups if group.entries]
