"""Reassignments and leader elections, each written to the audit."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from app.actions.audited import Audited, Caller
from app.cluster.elections import batches
from app.cluster.partitions import Outcome, Partition
from kraft_core.clients.admin.partitions import ElectionType, Reassignments
from kraft_core.protocol.errors import ErrorCode, KafkaError

NAMED_MAX: Final = 1_000
"""Partitions that an audit event of an election names."""


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
        resource = resource_of(list(wanted))
        async with self._audited(caller, "partitions.reassign", resource, detail, validate_only) as outcome:
            done = await self._cluster.admin.partitions.alter_reassignments(
                wanted, may_change_factor=may_change_factor, validate_only=validate_only
            )
            outcome.offset, outcome.error = done.offset, failures_text(done.failures)
        return done

    async def elect_leaders(
        self, caller: Caller, election: ElectionType, partitions: Sequence[Partition], *, validate_only: bool = False
    ) -> Outcome:
        """Elect leaders, in batches, so that many do not keep the controller from other requests. See PartitionAdmin.

        A batch that cannot be sent after others were ends the election: its partitions and those after it have failed.
        """
        detail = election_detail(election, partitions)
        made: list[Outcome] = []
        resource = resource_of(partitions)
        async with self._audited(caller, "partitions.elect", resource, detail, validate_only) as outcome:
            for some in batches(partitions):
                try:
                    done = await self._cluster.admin.partitions.elect_leaders(
                        election, some, validate_only=validate_only
                    )
                except (ConnectionError, KafkaError) as error:
                    if some[0] == partitions[0]:
                        raise
                    rest = partitions[partitions.index(some[0]) :]
                    made.append(Outcome(offset=None, failures=dict.fromkeys(rest, _as_kafka_error(error))))
                    break
                await asyncio.sleep(0)  # a dry run awaits nothing else
                made.append(done)
            all_done = Outcome.of_batches(made)
            outcome.offset, outcome.error = all_done.offset, failures_text(all_done.failures)
        return all_done


def _as_kafka_error(error: ConnectionError | KafkaError) -> KafkaError:
    return error if isinstance(error, KafkaError) else KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error))


def election_detail(election: ElectionType, partitions: Sequence[Partition]) -> dict[str, Any]:
    """Return what the audit says of an election."""
    return {
        "election_type": election.name,
        "count": len(partitions),
        "partitions": [f"{topic}-{index}" for topic, index in partitions[:NAMED_MAX]],
    }


def resource_of(partitions: Sequence[Partition]) -> str:
    """Return the resource for the audit: the topic, or `topic/*` for several."""
    topics = {topic for topic, _ in partitions}
    return f"topic/{topics.pop() if len(topics) == 1 else '*'}"


def failures_text(failures: Mapping[Partition, KafkaError]) -> str | None:
    """Return what was refused, None without anything."""
    named = [f"{topic}-{index}: {error.message}" for (topic, index), error in islice(failures.items(), NAMED_MAX)]
    more = len(failures) - len(named)
    return "; ".join([*named, *([f"{more} more"] if more else [])]) or None
