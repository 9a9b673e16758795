"""StandardAuthorizer: who may do what, as a pure function of the ACLs in an image.

An action is judged by the ACLs on the patterns that cover its resource (its own name, its beginnings, "*") whose
principal is the asker's or "User:*" and whose host is the asker's or "*":

1. a super user may do everything;
2. any matching DENY denies;
3. any matching ALLOW allows; READ, WRITE, DELETE and ALTER allow DESCRIBE too, ALTER_CONFIGS allows DESCRIBE_CONFIGS
   (a DENY of those denies nothing but itself);
4. a resource without any ACL, whoever it is for, is open if allow.everyone.if.no.acl.found says so;
5. everything else is denied.

Usage: `StandardAuthorizer(super_users).authorize(image.acls, "User:alice", host, AclOperation.READ, ResourceType.TOPIC,
"orders").allowed`. Kafka judges by what is committed, so `image` should be the committed one.
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
"""Operations that other operations' ALLOW includes."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The answer and its reason: the ACL, or "SuperUser", "DefaultAllow", "DefaultDeny" as Kafka's audit log says."""

    allowed: bool
    rule: StandardAcl | str

    def __str__(self) -> str:
        """Say the rule as Kafka's audit log does."""
        return self.rule if isinstance(self.rule, str) else f"MatchingAcl(acl={self.rule})"


_SUPER_USER: Final = Decision(True, "SuperUser")
_DEFAULT_ALLOW: Final = Decision(True, "DefaultAllow")
_DEFAULT_DENY: Final = Decision(False, "DefaultDeny")


class StandardAuthorizer(msgspec.Struct, frozen=True):
    """The rules above with their two settings: super.users and allow.everyone.if.no.acl.found."""

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
        """Judge one action of `principal` ("User:alice") from `host` (an address as text) on one resource by its name.

        Costs a look-up for each letter of the name and for each pattern that covers it; not the number of ACLs.
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
        """Return what `principal` may do to a resource as bits, bit n for the operation with code n (KIP-430)."""
        bits = 0
        for operation in SUPPORTED_OPERATIONS[resource_type]:
            if self.authorize(acls, principal, host, operation, resource_type, resource_name).allowed:
                bits |= 1 << operation
        return bits


def _covers(acl: StandardAcl, operation: int) -> bool:
    """Say whether an ACL speaks of an operation."""
    if acl.operation in {operation, AclOperation.ALL}:
        return True
    return acl.permission_type == AclPermissionType.ALLOW and acl.operation in _IMPLYING.get(operation, ())


def parse_super_users(text: str) -> frozenset[str]:
    """Read super.users: principals separated by semicolons, so that a name may hold commas.

    Raises ValueError for one that is not "type:name".
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
    """Write an address as Java does, and so as ACLs hold it: "0:0:0:0:0:0:0:1", not "::1"; IPv4 in IPv6 as IPv4."""
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
