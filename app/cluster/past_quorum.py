"""The quorum as the metadata log tells it for a past offset: its leader, epoch and voters, and nothing of their state.

The leader's first record names the voters. Whether they answered, how far they had read, who else read the log, and the
level of kraft.version are not in the metadata.
"""

from typing import Final

from app.cluster.epochs import EpochHistory
from app.cluster.quorum import Quorum, unmeasured
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.uuids import ZERO_UUID

KRAFT_VERSION_UNKNOWN: Final = -1


def past_quorum(image: MetadataImage, offset: int, time_ms: int, epochs: EpochHistory) -> Quorum:
    """Return the quorum at an offset; `epochs` end there."""
    known = epochs.epochs
    newest = known[0] if known else None
    voters = () if newest is None else tuple(sorted({*newest.voter_ids, newest.leader_id}))
    controllers = image.cluster.controllers

    def endpoints(node_id: int) -> tuple[tuple[str, str, int], ...]:
        found = controllers.get(node_id)
        return () if found is None else tuple((at.name, at.host, at.port) for at in found.listeners)

    return Quorum(
        leader_id=None if newest is None else newest.leader_id,
        leader_epoch=-1 if newest is None else newest.epoch,
        high_watermark=offset + 1,
        kraft_version=KRAFT_VERSION_UNKNOWN,
        voters=tuple(
            unmeasured(each, ZERO_UUID, endpoints(each), is_leader=newest is not None and each == newest.leader_id)
            for each in voters
        ),
        observers=(),
        committed_voters=None,
        log_start_offset=-1,
        snapshot=None,
        is_live=False,
        error=None,
        asked_at_ms=time_ms,
    )
