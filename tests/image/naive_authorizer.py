"""A slow second implementation of StandardAuthorizer's rules, without an index: it checks every ACL."""

from collections.abc import Collection

from kraft_core.image.metadata_image import StandardAcl
from kraft_core.protocol.acl import AclOperation, AclPermissionType, PatternType

ALLOWED_BY = {
    AclOperation.DESCRIBE: {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER", "ALL"},
    AclOperation.DESCRIBE_CONFIGS: {"DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALL"},
}


def is_on(acl: StandardAcl, resource_type: int, name: str) -> bool:
    if acl.resource_type != resource_type:
        return False
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def is_for(acl: StandardAcl, principal: str, host: str) -> bool:
    return acl.principal in (principal, "User:*") and acl.host in (host, "*")


def naive_authorize(
    acls: Collection[StandardAcl],
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: int,
    name: str,
    *,
    super_users: Collection[str] = (),
    default: bool = False,
) -> bool:
    if principal in super_users:
        return True
    on_resource = [acl for acl in acls if is_on(acl, resource_type, name)]
    if not on_resource:
        return default
    mine = [acl for acl in on_resource if is_for(acl, principal, host)]
    denied = {operation.name, "ALL"}
    if any(
        acl.permission_type == AclPermissionType.DENY and AclOperation(acl.operation).name in denied for acl in mine
    ):
        return False
    allowed = ALLOWED_BY.get(operation, {operation.name, "ALL"})
    return any(
        acl.permission_type == AclPermissionType.ALLOW and AclOperation(acl.operation).name in allowed for acl in mine
    )
