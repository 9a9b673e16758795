"""StandardAuthorizer: authorization as a pure function of the ACLs in an image.

Rules
-----
The ACLs that matter are on patterns that cover the resource (its name, its prefixes, "*"), for the client's principal
or "User:*", and for the client's host or "*":

1. a super user is always allowed;
2. any matching DENY denies;
3. any matching ALLOW allows; an ALLOW of READ, WRITE, DELETE or ALTER includes DESCRIBE, one of ALTER_CONFIGS includes
   DESCRIBE_CONFIGS (a DENY includes nothing else);
4. a resource without any ACL is allowed for everyone if allow.everyone.if.no.acl.found is set;
5. everything else is denied.

Usage
-----
`StandardAuthorizer(super_users).authorize(image.acls, "User:alice", host, AclOperation.READ, ResourceType.TOPIC,
"orders").allowed`. Kafka uses committed ACLs, so `image` should be the committed one.
Source: StandardAuthorizer and StandardAuthorizerData, Kafka 4.3.1.
"""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Final

import msgspec

from kraft_core.image.acls_image import AclsImage, StandardAcl, patterns_covering
from kraft_core.protocol.acl import (
    SUPPORTED_OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    AclPermissionType,
    ResourceType,
)

_IMPLYING: Final[dict[int, frozenset[int]]] = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}),
}
"""The operations whose ALLOW includes the key's operation."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The decision and its reason: the ACL, or "SuperUser", "DefaultAllow", "DefaultDeny" as in Kafka's audit log."""

    allowed: bool
    rule: StandardAcl | str

    def __str__(self) -> str:
        """Return the reason as in Kafka's audit log."""
        return self.rule if isinstance(self.rule, str) else f"MatchingAcl(acl={self.rule})"


_SUPER_USER: Final = Decision(True, "SuperUser")
_DEFAULT_ALLOW: Final = Decision(True, "DefaultAllow")
_DEFAULT_DENY: Final = Decision(False, "DefaultDeny")


class StandardAuthorizer(msgspec.Struct, frozen=True):
    """The authorizer with its two settings: super.users and allow.everyone.if.no.acl.found."""

    super_users: frozenset[str] = frozenset()
    allow_everyone_if_no_acl_is_found: bool = False

    def authorize(
        self,
        acls: AclsImage,
        principal: str,
        host: str,
        operation: int,
        resource_type: int,
        resource_name: str,
    ) -> Decision:
        """Decide on one operation of `principal` ("User:alice") from `host` (an address as text) on one resource.

        The cost grows with the length of the name and the ACLs on patterns that cover it, not with all ACLs.
        """
        if principal in self.super_users:
            return _SUPER_USER
        hosts = (WILDCARD, host_address(host))
        allowed_by: StandardAcl | None = None
        is_known = False
        by_pattern = acls.by_pattern
        for pattern in patterns_covering(resource_type, resource_name):
            entries = by_pattern.get(pattern)
            if entries is None:
                continue
            is_known = True
            for acl in (*entries.get(principal, ()), *entries.get(WILDCARD_PRINCIPAL, ())):
                if acl.host not in hosts or not _covers(acl, operation):
                    continue
                if acl.permission_type != AclPermissionType.ALLOW:
                    return Decision(False, acl)
                allowed_by = acl
        if allowed_by is not None:
            return Decision(True, allowed_by)
        return _DEFAULT_ALLOW if self.allow_everyone_if_no_acl_is_found and not is_known else _DEFAULT_DENY

    def authorized_operations(
        self, acls: AclsImage, principal: str, host: str, resource_type: ResourceType, resource_name: str
    ) -> int:
        """Return the operations allowed for `principal` as bits, bit n for the operation with code n (KIP-430)."""
        bits = 0
        for operation in SUPPORTED_OPERATIONS[resource_type]:
            if self.authorize(acls, principal, host, operation, resource_type, resource_name).allowed:
                bits |= 1 << operation
        return bits


def _covers(acl: StandardAcl, operation: int) -> bool:
    """Return whether an ACL applies to an operation."""
    if acl.operation in {operation, AclOperation.ALL}:
        return True
    return acl.permission_type == AclPermissionType.ALLOW and acl.operation in _IMPLYING.get(operation, ())


def parse_super_users(text: str) -> frozenset[str]:
    """Read super.users: principals separated by semicolons, since a name may contain commas.

    Raises ValueError for a principal that is not "type:name".
    """
    users = [each.strip() for each in text.split(";") if each.strip()]
    for user in users:
        parse_principal(user)
    return frozenset(users)


def parse_principal(text: str) -> tuple[str, str]:
    """Split "User:alice" into type and name. Raises ValueError without a colon."""
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return kind, name


def host_address(host: str) -> str:
    """Return an address as Java and so ACLs write it: "0:0:0:0:0:0:0:1", not "::1"; IPv4 in IPv6 as IPv4."""
    if ":" not in host:
        return host
    address, percent, scope = host.partition("%")
    try:
        number = IPv6Address(address)
    except ValueError:
        return host
    if number.ipv4_mapped is not None:
        return str(number.ipv4_mapped)
    groups = ":".join(f"{int(group, 16):x}" for group in number.exploded.split(":"))
    return groups + percent + scope
