"""Changes of groups, each written to the audit."""

from collections.abc import Mapping, Sequence

from app.actions.audited import Audited, Caller
from app.cluster.group_changes import Failures
from kraft_core.clients.admin.offset_reset import OffsetReset
from kraft_core.clients.client_metadata import TopicPartition

PARTITIONS_MAX = 1_000
"""The most partitions that one audit event names."""
REASON = "Removed with Conclave"


class GroupActions(Audited):
    """Sets and deletes committed offsets, removes static members, deletes groups. See GroupAdmin."""

    async def reset(self, caller: Caller, group_id: str, plan: Sequence[OffsetReset]) -> Failures:
        """Commit the offsets of a plan. Returns the partitions that were refused."""
        detail = {_text(each.partition): f"{each.committed} → {each.new_offset}" for each in plan[:PARTITIONS_MAX]}
        async with self._audited(caller, "group.reset", f"group/{group_id}", {"offsets": detail}) as outcome:
            failed = await self._cluster.admin.groups.reset(group_id, plan)
            outcome.error = _failures_text(failed)
        return failed

    async def delete(self, caller: Caller, group_id: str, *, validate_only: bool = False) -> None:
        """Delete a group without members and all its committed offsets."""
        async with self._audited(caller, "group.delete", f"group/{group_id}", {}, validate_only):
            await self._cluster.admin.groups.delete(group_id, validate_only=validate_only)

    async def delete_offsets(self, caller: Caller, group_id: str, committed: Mapping[TopicPartition, int]) -> Failures:
        """Delete committed offsets, given with their values. Returns the partitions that were refused."""
        detail = {_text(each): offset for each, offset in list(committed.items())[:PARTITIONS_MAX]}
        async with self._audited(caller, "group.delete-offsets", f"group/{group_id}", {"offsets": detail}) as outcome:
            failed = await self._cluster.admin.groups.delete_offsets(group_id, tuple(committed))
            outcome.error = _failures_text(failed)
        return failed

    async def remove_member(self, caller: Caller, group_id: str, instance_id: str) -> None:
        """Remove a static member by its instance id."""
        detail = {"group_instance_id": instance_id}
        async with self._audited(caller, "group.remove-member", f"group/{group_id}", detail):
            await self._cluster.admin.groups.remove_member(group_id, instance_id, REASON)


def _text(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _failures_text(failures: Failures) -> str | None:
    return "; ".join(f"{_text(each)}: {error.message}" for each, error in failures.items()) or None
