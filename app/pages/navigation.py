"""The navigation of every page: its groups, entries and icons."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.security.roles import Role


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: address, text, the name of a symbol in static/icons.svg, and the least role that may open it."""

    href: str
    label: str
    icon: str
    role: Role = Role.VIEWER


@dataclass(frozen=True, slots=True)
class Group:
    """Entries under one heading."""

    title: str
    entries: Sequence[Entry]


NAVIGATION: Final = (
    Group(
        "Observe",
        (
            Entry("/", "Dashboard", "gauge"),
            Entry("/topics", "Topics", "layers"),
            Entry("/groups", "Groups", "groups"),
            Entry("/transactions", "Transactions", "transactions"),
            Entry("/brokers", "Brokers", "server"),
            Entry("/quorum", "Quorum", "quorum"),
            Entry("/changes", "Changes", "history"),
            Entry("/reports", "Reports", "chart"),
        ),
    ),
    Group(
        "Change",
        (
            Entry("/plans", "Plans", "moves"),
            Entry("/features", "Features", "flag"),
        ),
    ),
    Group(
        "Admin",
        (
            Entry("/rights", "Access control", "shield", Role.ADMIN),
            Entry("/access", "Users and tokens", "users", Role.ADMIN),
            Entry("/audit", "Audit", "list", Role.ADMIN),
        ),
    ),
)


def navigation_of(role: Role) -> list[Group]:
    """Return the groups with the entries that this role may open, without empty groups."""
    groups = [Group(group.title, [each for each in group.entries if role >= each.role]) for group in NAVIGATION]
    return [group for group in groups if group.entries]
