"""The quorum and its leader epochs, in the style of REST v3."""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import Response

from app.cluster.epochs import Leadership
from app.cluster.latest_snapshot import LatestSnapshot
from app.cluster.observers import Observer, observers_of
from app.cluster.quorum import Replica
from app.cluster.quorum_text import state_text
from app.error_responses import NATIVE
from app.http.errors import NotFoundError
from app.rest.paging import PageDep
from app.rest.responses import answer
from app.rest.routing import JsonRoute
from app.rest.schemas.quorum import QuorumData, QuorumEpochData, QuorumEpochDataList
from app.rest.view import View, ViewDep
from app.services import Reader
from kraft_core.protocol.uuids import ZERO_UUID, uuid_to_text

router = APIRouter(prefix="/v3/clusters/{cluster_id}/quorum", tags=[NATIVE, "quorum"], route_class=JsonRoute)


def _replica(replica: Replica) -> dict[str, Any]:
    return {
        "replica_id": replica.id,
        "directory_id": None if replica.directory_id == ZERO_UUID else uuid_to_text(replica.directory_id),
        "endpoints": [{"name": name, "host": host, "port": port} for name, host, port in replica.endpoints],
        "log_end_offset": replica.log_end_offset,
        "last_fetch_timestamp": replica.last_fetch_timestamp,
        "last_caught_up_timestamp": replica.last_caught_up_timestamp,
        "lag": replica.lag,
        "lag_ms": replica.lag_ms,
        "is_leader": replica.is_leader,
        "is_caught_up": replica.is_caught_up,
        "is_silent": replica.is_silent,
    }


def _observer(observer: Observer) -> dict[str, Any]:
    replica = observer.replica or Replica(
        id=observer.id,
        directory_id=ZERO_UUID,
        endpoints=(),
        log_end_offset=-1,
        last_fetch_timestamp=-1,
        last_caught_up_timestamp=-1,
        lag=None,
        lag_ms=None,
        is_leader=False,
        is_caught_up=False,
    )
    return {**_replica(replica), "kind": observer.kind, "is_fetching": observer.replica is not None}


def _snapshot(snapshot: LatestSnapshot | None) -> dict[str, Any] | None:
    if snapshot is None:
        return None
    return {
        "end_offset": snapshot.end_offset,
        "epoch": snapshot.epoch,
        "size_bytes": snapshot.size_bytes,
        "last_contained_log_timestamp": snapshot.last_timestamp_ms,
    }


@router.get("", responses={200: {"model": QuorumData}})
async def get_quorum(view: ViewDep, _caller: Reader) -> Response:
    """Describe the quorum as its leader reports it, and which voters respond to this process.

    For a past state, what the metadata log says: the leader, its epoch and the voters that it named when elected.
    """
    quorum, is_past = view.cluster.quorum, view.cluster.past is not None
    body = view.resource(
        "KafkaQuorum",
        ("quorum",),
        (("quorum", ""),),
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        kraft_version=quorum.kraft_version,
        log_start_offset=quorum.log_start_offset,
        log_end_offset=quorum.log_end_offset,
        latest_snapshot=_snapshot(quorum.snapshot),
        voters=[_replica(voter) for voter in quorum.voters],
        observers=[_observer(observer) for observer in (() if is_past else observers_of(quorum, view.image))],
        committed_voter_ids=None
        if quorum.committed_voters is None
        else sorted(voter_id for voter_id, _ in quorum.committed_voters),
        is_voter_change_under_way=quorum.is_change_pending,
        majority=quorum.majority,
        failures_tolerated=quorum.failures_tolerated,
        max_follower_lag=quorum.max_follower_lag,
        max_follower_lag_ms=quorum.max_follower_lag_ms,
        state=quorum.standing.upper().replace("-", "_"),
        state_text="" if is_past else state_text(quorum),
        is_live=quorum.is_live,
        error=quorum.error,
    )
    return answer(body, view.offset)


@router.get("/epochs", responses={200: {"model": QuorumEpochDataList}})
async def list_epochs(view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the known leader epochs, newest first. They are kept longer than the log that shows them."""
    return page.answer(
        "KafkaQuorumEpochList",
        view.cluster.epochs.leaderships(),
        lambda leadership: -leadership.epoch.epoch,
        lambda leadership: _epoch(view, leadership),
    )


@router.get("/epochs/{epoch}", responses={200: {"model": QuorumEpochData}, 404: {"description": "not known"}})
async def get_epoch(epoch: Annotated[int, Path(ge=0, le=2**31 - 1)], view: ViewDep, _caller: Reader) -> Response:
    """Describe one leader epoch. Epochs without a leader are not known."""
    for leadership in view.cluster.epochs.leaderships():
        if leadership.epoch.epoch == epoch:
            return answer(_epoch(view, leadership), view.offset)
    raise NotFoundError(f"No leader of epoch {epoch} is known.")


def _epoch(view: View, leadership: Leadership) -> dict[str, Any]:
    epoch = leadership.epoch
    return view.resource(
        "KafkaQuorumEpoch",
        ("quorum", "epochs", epoch.epoch),
        (("quorum", ""), ("epoch", epoch.epoch)),
        leader_epoch=epoch.epoch,
        leader_id=epoch.leader_id,
        start_offset=epoch.start_offset,
        timestamp=epoch.timestamp_ms,
        end_offset=epoch.last_offset + 1 if epoch.last_offset >= 0 else -1,
        last_timestamp=epoch.last_timestamp_ms,
        led_ms=leadership.led_ms,
        voter_ids=list(epoch.voter_ids),
        granting_voter_ids=list(epoch.granting_voter_ids),
        previous_leader_id=leadership.previous_leader_id,
        epochs_without_leader_before=leadership.epochs_before,
        gap_ms=leadership.gap_ms,
        leaderless_ms=leadership.leaderless_ms,
        end_reason=leadership.ended,
        end_detail=leadership.ended_detail,
    )
