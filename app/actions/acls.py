"""Changes of ACLs, each written to the audit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from app.actions.audited import Audited, Caller
from app.cluster.acls import acls_of, filter_of
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import KafkaError

DELETED_AT_ONCE: Final = 100

ImportChange = Literal["CREATE", "NONE", "DELETE"]


@dataclass(frozen=True, slots=True)
class ImportedAcl:
    """An ACL of an import with its change, and what became of it: the offset, or why it was refused.

    The offset is None for a dry run and without a change.
    """

    acl: StandardAcl
    change: ImportChange
    made: int | KafkaError | ConnectionError | None = None


def planned_import(image: MetadataImage, acls: Sequence[StandardAcl], *, remove_others: bool) -> list[ImportedAcl]:
    """Return what an import changes: the listed ACLs, each once, then the others that it deletes."""
    listed = dict.fromkeys(acls)
    others = [acl for acl in acls_of(image, AclFilter()) if acl not in listed] if remove_others else []
    return [
        *(ImportedAcl(acl, "NONE" if image.acls.contains(acl) else "CREATE") for acl in listed),
        *(ImportedAcl(acl, "DELETE") for acl in others),
    ]


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

    async def import_acls(
        self, caller: Caller, acls: Sequence[StandardAcl], *, remove_others: bool, validate_only: bool = False
    ) -> list[ImportedAcl]:
        """Create the ACLs that do not exist, delete the others if wanted, and return the result of each.

        All are validated before anything changes. Others are deleted last: no right that stays is missing meanwhile.
        Raises what `create` raises, before anything is deleted; a refused deletion is the result of its ACLs.
        """
        planned = planned_import(self._cluster.image, acls, remove_others=remove_others)
        await self.create(caller, acls, validate_only=True)
        if validate_only:
            return planned
        new = [each.acl for each in planned if each.change == "CREATE"]
        offset = await self.create(caller, new) if new else None
        listed = [each for each in planned if each.change != "DELETE"]
        kept = [replace(each, made=offset if each.change == "CREATE" else None) for each in listed]
        return kept + await self._delete_others(caller, [each for each in planned if each.change == "DELETE"])

    async def _delete_others(self, caller: Caller, others: Sequence[ImportedAcl]) -> list[ImportedAcl]:
        """Delete ACLs in batches. After a refusal the rest stay, with the same result."""
        done: list[ImportedAcl] = []
        made: int | KafkaError | ConnectionError | None = None
        for batch in _batches(others):
            if not isinstance(made, Exception):
                try:
                    made, _ = await self.delete(caller, *(filter_of(each.acl) for each in batch))
                except (KafkaError, ConnectionError) as refused:
                    made = refused
            done += [replace(each, made=made) for each in batch]
        return done


def _batches(items: Sequence[ImportedAcl]) -> Iterator[Sequence[ImportedAcl]]:
    return (items[start : start + DELETED_AT_ONCE] for start in range(0, len(items), DELETED_AT_ONCE))
