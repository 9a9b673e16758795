"""Reassignments and leader elections, each written to the audit."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.actions.audited import Audited, Caller
from app.cluster.partitions import Outcome, Partition
from kraft_core.clients.admin.partitions import ElectionType, Reassignments
from kraft_core.protocol.errors import KafkaError


class PartitionActions(Audited):
    """Reassigns replicas and elects leaders."""

    async def alter_reassignments(
        self, caller: Caller, wanted: Reassignments, *, may_change_factor: bool = True, validate_only: bool = False
    ) -> Outcome:
        """Start or cancel reassignments. See PartitionAdmin."""
        detail = {
            f"{topic}-{index}": "cancel" if replicas is None else list(replicas)
            for (topic, index), replicas in wanted.items()
        }
        resource = _resource_of(list(wanted))
        async with self._audited(caller, "partitions.reassign", resource, detail, validate_only) as outcome:
            done = await self._cluster.admin.partitions.alter_reassignments(
                wanted, may_change_factor=may_change_factor, validate_only=validate_only
            )
            outcome.offset, outcome.error = done.offset, _failures_text(done.failures)
        return done

    async def elect_leaders(
        self, caller: Caller, election: ElectionType, partitions: Sequence[Partition], *, validate_only: bool = False
    ) -> Outcome:
        """Elect leaders. See PartitionAdmin."""
        detail: dict[str, Any] = {
            "election_type": election.name,
            "partitions": [f"{topic}-{index}" for topic, index in partitions],
        }
        resource = _resource_of(partitions)
        async with self._audited(caller, "partitions.elect", resource, detail, validate_only) as outcome:
            done = await self._cluster.admin.partitions.elect_leaders(election, partitions, validate_only=validate_only)
            outcome.offset, outcome.error = done.offset, _failures_text(done.failures)
        return done


def _resource_of(partitions: Sequence[Partition]) -> str:
    """Return the resource for the audit: the topic, or `topic/*` for several."""
    topics = {topic for topic, _ in partitions}
    return f"topic/{topics.pop() if len(topics) == 1 else '*'}"


def _failures_text(failures: Mapping[Partition, KafkaError]) -> str | None:
    return "; ".join(f"{topic}-{index}: {error.message}" for (topic, index), error in failures.items()) or None
