"""What groups of an identity provider give: a role everywhere, in one cluster, or there for a prefix of topics.

A setting names it as GROUP=ROLE, GROUP=ROLE@CLUSTER or GROUP=ROLE@CLUSTER/PREFIX. A group may have any characters, also
`=`, `@` and `/`: what it gives stands behind the last `=`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_FORMS: Final = "GROUP=ROLE, GROUP=ROLE@CLUSTER or GROUP=ROLE@CLUSTER/PREFIX"
_CLUSTER: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class GroupRole:
    """A role that a group gives. Without a `cluster` it is valid in all; with a `topic_prefix` only for such topics."""

    group: str
    role: str
    cluster: str = ""
    topic_prefix: str = ""


def group_role(text: str, roles: Sequence[str]) -> GroupRole:
    """Return what one entry of the setting says. Raises ValueError, which says what is allowed."""
    group, _, given = text.rpartition("=")
    role, at, place = given.partition("@")
    cluster, slash, prefix = place.partition("/")
    if not group or role not in roles:
        raise ValueError(f"'{text}' must be {_FORMS} with one of the roles {', '.join(roles)}")
    if at and _CLUSTER.fullmatch(cluster) is None:
        raise ValueError(
            f"'{text}': '{cluster}' is no key of a cluster; 1 to 32 of a-z, 0-9 and - are allowed, as in its address "
            "/c/KEY/, or default for that of the settings"
        )
    if slash and _PREFIX.fullmatch(prefix) is None:
        raise ValueError(
            f"'{text}': '{prefix}' starts no topic name; 1 to 249 of letters, digits, '.', '_' and '-' are allowed"
        )
    return GroupRole(group, role, cluster, prefix)
