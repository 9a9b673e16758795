"""Changes of ACLs, each written to the audit."""

from collections.abc import Sequence
from typing import Any

from app.actions.audited import Audited, Caller
from kraft_core.image.acls_image import AclFilter, StandardAcl


class AclActions(Audited):
    """Creates and deletes ACLs."""

    async def create(self, caller: Caller, acls: Sequence[StandardAcl], *, validate_only: bool = False) -> int | None:
        """Create ACLs. Returns the offset, None for a dry run."""
        detail = {"acls": [str(acl) for acl in acls]}
        async with self._audited(caller, "acls.create", "acl/*", detail, validate_only) as outcome:
            outcome.offset = offset = await self._cluster.admin.acls.create(acls, validate_only=validate_only)
        return offset

    async def delete(
        self, caller: Caller, *wanted: AclFilter, validate_only: bool = False
    ) -> tuple[int | None, list[StandardAcl]]:
        """Delete the ACLs that match any filter. Returns the offset, None for a dry run, and the deleted ACLs."""
        detail: dict[str, Any] = {"filter": ", ".join(map(repr, wanted))}
        async with self._audited(caller, "acls.delete", "acl/*", detail, validate_only) as outcome:
            outcome.offset, deleted = await self._cluster.admin.acls.delete(*wanted, validate_only=validate_only)
            detail["acls"] = [str(acl) for acl in deleted]
        return outcome.offset, deleted
