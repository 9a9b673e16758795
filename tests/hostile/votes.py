"""Vote requests of a candidate that does not exist."""

import asyncio

from kraft_core.protocol.messages import VoteRequest, VoteRequestPartitionData, VoteRequestTopicData
from kraft_core.protocol.uuids import uuid_from_text
from tests.interop.conclave import Quorum, call


def ask_for_vote(found: Quorum, voter_id: int, candidate: int, epoch: int) -> tuple[int, bool]:
    """Send a voter a Vote for a candidate with the longest log. `directory_id` is the voter's, as the quorum knows it.

    Return the error of the partition, and whether the vote was granted.
    """
    partition = VoteRequestPartitionData(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=candidate,
        replica_directory_id=uuid_from_text(found.directory_ids[candidate - 1]),
        voter_directory_id=uuid_from_text(found.directory_ids[voter_id - 1]),
        last_offset_epoch=epoch - 1,
        last_offset=2**40,
    )
    request = VoteRequest(
        cluster_id=found.cluster_id,
        voter_id=voter_id,
        topics=(VoteRequestTopicData(topic_name="__cluster_metadata", partitions=(partition,)),),
    )
    answer = asyncio.run(call(found.port_of(voter_id), request, 2)).topics[0].partitions[0]
    return answer.error_code, answer.vote_granted
