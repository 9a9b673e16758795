"""Adds and removes voters through the leader, after a plan whose preconditions must hold.

A change is finished when this process has read the new voter set in the log, so its offset is the record's own. Raises
VoterChangeRefused when preconditions do not hold, KafkaError when the leader refuses, and a subclass of ConnectionError
when there is none. After REQUEST_TIMED_OUT it is unknown whether the change took effect.
"""

import asyncio
import dataclasses
import uuid
from collections.abc import Callable
from typing import Final

from app.cluster.changes import Changes, raise_for
from app.cluster.quorum import Endpoint, Quorum
from app.cluster.voter_changes import VoterChange, VoterChangeRefused, plan_add, plan_remove
from kraft_core.clients.admin.cluster import add_raft_voter_request
from kraft_core.clients.kafka_client import NoActiveController
from kraft_core.protocol.control_records import VotersRecord
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)

DESCRIBE_TIMEOUT_MS: Final = 2_000


class VoterAdmin(Changes):
    """Changes of the voter set."""

    async def add(
        self,
        voter_id: int,
        directory_id: uuid.UUID,
        endpoints: tuple[Endpoint, ...] = (),
        *,
        cluster_id: str | None = None,
        validate_only: bool = False,
    ) -> VoterChange:
        """Make an observer a voter. Without `endpoints`, those of its registration are used.

        Raises KafkaError DUPLICATE_VOTER, UNSUPPORTED_VERSION, INVALID_REQUEST, REQUEST_TIMED_OUT.
        """
        quorum = await self._fresh_quorum()
        registration = self._observer.image.cluster.controllers.get(voter_id)
        plan = plan_add(quorum, registration, voter_id, directory_id, endpoints)
        if plan.failed:
            raise VoterChangeRefused(plan)
        if validate_only:
            return plan
        request = add_raft_voter_request(
            voter_id, directory_id, plan.endpoints, cluster_id=cluster_id, timeout_ms=self._timeout_ms
        )
        before = self._history.newest_offset
        answer = await self._ask(request, AddRaftVoterResponse)
        raise_for(answer.error_code, answer.error_message)
        return await self._done(plan, before, lambda voters: (voter_id, directory_id) in _keys(voters))

    async def remove(
        self, voter_id: int, directory_id: uuid.UUID, *, cluster_id: str | None = None, validate_only: bool = False
    ) -> VoterChange:
        """Remove a voter. Raises KafkaError VOTER_NOT_FOUND, UNSUPPORTED_VERSION, REQUEST_TIMED_OUT."""
        plan = plan_remove(await self._fresh_quorum(), voter_id, directory_id)
        if plan.failed:
            raise VoterChangeRefused(plan)
        if validate_only:
            return plan
        request = RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id)
        before = self._history.newest_offset
        answer = await self._ask(request, RemoveRaftVoterResponse)
        raise_for(answer.error_code, answer.error_message)
        return await self._done(plan, before, lambda voters: (voter_id, directory_id) not in _keys(voters))

    async def _fresh_quorum(self) -> Quorum:
        if not self._observer.is_ready:
            raise NoActiveController("the metadata has not been read from the quorum yet")
        return await self._quorum.get(DESCRIBE_TIMEOUT_MS)

    async def _done(self, plan: VoterChange, before: int, wanted: Callable[[VotersRecord], bool]) -> VoterChange:
        """Wait until this process has read the change in the log. Returns the plan with its offset."""
        deadline = asyncio.get_running_loop().time() + self._timeout_ms / 1000
        while (offset := self._history.find_voters(before, wanted)) is None:
            voters = self._observer.voters
            if voters is not None and wanted(voters) and self._history.oldest_offset > before + 1:
                offset = self._observer.applied_offset  # a snapshot replaced the record
                break
            seen, remaining = self._history.newest_offset, deadline - asyncio.get_running_loop().time()
            if remaining <= 0 or not await self._history.wait_beyond(seen, remaining):
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT, "The change is committed, but this process has not read it yet."
                )
        await self._observer.wait_for_offset(offset, self._timeout_ms)
        await self._quorum.get(DESCRIBE_TIMEOUT_MS)
        return dataclasses.replace(plan, offset=offset)


def _keys(voters: VotersRecord) -> set[tuple[int, uuid.UUID]]:
    return {(voter.voter_id, voter.voter_directory_id) for voter in voters.voters}
