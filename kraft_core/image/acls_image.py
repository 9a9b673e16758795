"""The ACLs of an image, by id and by resource pattern.

The second map, pattern → principal → ACLs, makes the cost of an authorization independent of the number of ACLs. Both
are persistent maps and always change together. Source: AclsImage, AclCache, StandardAcl, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from rpds import HashTrieMap

from kraft_core.protocol.acl import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    Entries = HashTrieMap[str, tuple["StandardAcl", ...]]

_ANY: Final = 1
_LITERAL: Final = int(PatternType.LITERAL)
_PREFIXED: Final = int(PatternType.PREFIXED)  # plain numbers, as an enum's members are slow to look up

Pattern = tuple[int, int, str]
"""(resource type, pattern type, resource name)."""


class StandardAcl(msgspec.Struct, frozen=True, gc=False):
    """One access control entry; the enums are Kafka's codes. Source: StandardAcl."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    @property
    def pattern(self) -> Pattern:
        """The entry's resource pattern."""
        return self.resource_type, self.pattern_type, self.resource_name

    def __str__(self) -> str:
        """Return the text of Kafka's audit log."""
        return (
            f"StandardAcl[resourceType={ResourceType(self.resource_type).name}, resourceName={self.resource_name}, "
            f"patternType={PatternType(self.pattern_type).name}, principal={self.principal}, host={self.host}, "
            f"operation={AclOperation(self.operation).name}, "
            f"permissionType={AclPermissionType(self.permission_type).name}]"
        )


class AclFilter(msgspec.Struct, frozen=True, gc=False):
    """A filter of ACLs; None and ANY match every value of a field. Source: AclBindingFilter, ResourcePatternFilter."""

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission_type: int = AclPermissionType.ANY

    def matches_entry(self, acl: StandardAcl) -> bool:
        """Return whether all fields except the resource pattern match."""
        return (
            (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and self.operation in {AclOperation.ANY, acl.operation}
            and self.permission_type in {AclPermissionType.ANY, acl.permission_type}
        )

    def matches_pattern(self, resource_type: int, pattern_type: int, name: str) -> bool:
        """Return whether the resource pattern matches."""
        if self.resource_type not in (_ANY, resource_type):  # a tuple is faster than a new set
            return False
        if self.pattern_type not in (_ANY, PatternType.MATCH, pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type != PatternType.MATCH:
            return self.resource_name == name
        if pattern_type == PatternType.PREFIXED:
            return self.resource_name.startswith(name)
        return name in {self.resource_name, WILDCARD}

    def patterns(self) -> list[Pattern] | None:
        """Return the only patterns that can match; None when any can."""
        name = self.resource_name
        if name is None or self.resource_type == ResourceType.ANY:
            return None
        if self.pattern_type == PatternType.MATCH:
            return list(patterns_covering(self.resource_type, name))
        kinds = (
            (PatternType.LITERAL, PatternType.PREFIXED)
            if self.pattern_type == PatternType.ANY
            else (PatternType(self.pattern_type),)
        )
        return [(self.resource_type, kind, name) for kind in kinds]


def patterns_covering(resource_type: int, name: str) -> Iterator[Pattern]:
    """Yield the patterns that cover a resource: its name, every prefix of it, and the wildcard."""
    yield resource_type, _LITERAL, name
    for end in range(1, len(name) + 1):
        yield resource_type, _PREFIXED, name[:end]
    if name != WILDCARD:
        yield resource_type, _LITERAL, WILDCARD


_NO_ENTRIES: Entries = HashTrieMap()


class AclsImage(msgspec.Struct, frozen=True, eq=False):
    """All ACLs: `by_id`, and `by_pattern` by principal. Equality compares `by_id`, which determines the other."""

    by_id: HashTrieMap[UUID, StandardAcl] = HashTrieMap()
    by_pattern: HashTrieMap[Pattern, Entries] = HashTrieMap()

    def __eq__(self, other: object) -> bool:
        """Compare content."""
        return isinstance(other, AclsImage) and (self is other or self.by_id == other.by_id)

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash(self.by_id)

    def __len__(self) -> int:
        """Return the number of ACLs."""
        return len(self.by_id)

    def contains(self, acl: StandardAcl) -> bool:
        """Return whether an ACL with this content exists, with any id."""
        return acl in self.by_pattern.get(acl.pattern, _NO_ENTRIES).get(acl.principal, ())

    def insert(self, acl_id: UUID, acl: StandardAcl) -> AclsImage:
        """Return the ACLs with this one, which replaces one with the same id."""
        before = self.remove(acl_id) if acl_id in self.by_id else self
        entries: Entries = before.by_pattern.get(acl.pattern, _NO_ENTRIES)
        entries = entries.insert(acl.principal, (*entries.get(acl.principal, ()), acl))
        return AclsImage(before.by_id.insert(acl_id, acl), before.by_pattern.insert(acl.pattern, entries))

    def remove(self, acl_id: UUID) -> AclsImage:
        """Return the ACLs without this one. Raises KeyError for an unknown id."""
        acl = self.by_id[acl_id]
        entries = self.by_pattern[acl.pattern]
        others = list(entries[acl.principal])
        others.remove(acl)
        entries = entries.insert(acl.principal, tuple(others)) if others else entries.remove(acl.principal)
        by_pattern = self.by_pattern
        by_pattern = by_pattern.insert(acl.pattern, entries) if len(entries) else by_pattern.remove(acl.pattern)
        return AclsImage(self.by_id.remove(acl_id), by_pattern)

    def matching(self, wanted: AclFilter) -> Iterator[StandardAcl]:
        """Yield the ACLs that match a filter, in arbitrary order. Fast when the filter has a resource name and type."""
        named = wanted.patterns()
        groups = (
            (entries for pattern, entries in self.by_pattern.items() if wanted.matches_pattern(*pattern))
            if named is None
            else (self.by_pattern.get(pattern, _NO_ENTRIES) for pattern in named)
        )
        for entries in groups:
            found = entries.values() if wanted.principal is None else (entries.get(wanted.principal, ()),)
            for acls in found:
                yield from filter(wanted.matches_entry, acls)
