"""Changes of the voter set, each written to the audit."""

from typing import Any
from uuid import UUID

from app.actions.audited import Audited, Caller
from app.cluster.quorum import Endpoint
from app.cluster.quorum_text import endpoint_texts
from app.cluster.voter_changes import VoterChange
from kraft_core.protocol.uuids import uuid_to_text


class VoterActions(Audited):
    """Adds and removes voters. Raises VoterChangeRefused when the preconditions of a change do not hold."""

    async def add(
        self,
        caller: Caller,
        voter_id: int,
        directory_id: UUID,
        endpoints: tuple[Endpoint, ...] = (),
        *,
        validate_only: bool = False,
    ) -> VoterChange:
        """Make an observer a voter. Returns the change; its offset is None for a dry run."""
        detail: dict[str, Any] = {
            "directory_id": uuid_to_text(directory_id),
            "endpoints": endpoint_texts(endpoints),
        }
        async with self._audited(caller, "voter.add", f"voter/{voter_id}", detail, validate_only) as outcome:
            change = await self._cluster.admin.voters.add(
                voter_id,
                directory_id,
                endpoints,
                cluster_id=self._cluster.cluster_id,
                validate_only=validate_only,
            )
            outcome.offset = change.offset
            detail["voters"] = list(change.after.voter_ids)
        return change

    async def remove(
        self, caller: Caller, voter_id: int, directory_id: UUID, *, validate_only: bool = False
    ) -> VoterChange:
        """Remove a voter from the quorum. Returns the change; its offset is None for a dry run."""
        detail: dict[str, Any] = {"directory_id": uuid_to_text(directory_id)}
        async with self._audited(caller, "voter.remove", f"voter/{voter_id}", detail, validate_only) as outcome:
            change = await self._cluster.admin.voters.remove(
                voter_id, directory_id, cluster_id=self._cluster.cluster_id, validate_only=validate_only
            )
            outcome.offset = change.offset
            detail["voters"] = list(change.after.voter_ids)
        return change
