"""The quorum, its leaderships, and the metadata log as a feed: what REST v3 lacks, in its style."""

import dataclasses
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from app.answers import NATIVE
from app.cluster.epochs import Leadership
from app.cluster.history import Change, OffsetGone
from app.cluster.latest_snapshot import LatestSnapshot
from app.cluster.observers import Observer, observers_of
from app.cluster.quorum import Replica
from app.cluster.quorum_words import state_text
from app.http.errors import ApiError
from app.rest.common import PageDep, View, ViewDep, answer, list_body
from app.rest.records import record_data
from app.rest.routing import JsonRoute
from app.rest.schemas.quorum import QuorumData, QuorumEpochData, QuorumEpochDataList
from app.rest.schemas.records import ChangeDataList
from app.services import Reader
from kraft_core.protocol.uuids import ZERO_UUID, uuid_to_text

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=[NATIVE, "quorum"], route_class=JsonRoute)

HEARTBEAT_SECONDS: Final = 15.0
CHANGES_MAX: Final = 1_000


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


def _snapshot(found: LatestSnapshot | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "end_offset": found.end_offset,
        "epoch": found.epoch,
        "size_bytes": found.size_bytes,
        "last_contained_log_timestamp": found.last_timestamp_ms,
    }


@router.get("/quorum", responses={200: {"model": QuorumData}})
async def get_quorum(view: ViewDep, _caller: Reader) -> Response:
    """Describe the quorum: as its leader does while one answers, and which of its voters answer this process."""
    quorum = view.cluster.quorum
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
        observers=[_observer(observer) for observer in observers_of(quorum, view.image)],
        committed_voter_ids=None
        if quorum.committed_voters is None
        else sorted(voter_id for voter_id, _ in quorum.committed_voters),
        is_voter_change_under_way=quorum.is_change_under_way,
        majority=quorum.majority,
        failures_tolerated=quorum.failures_tolerated,
        max_follower_lag=quorum.max_follower_lag,
        max_follower_lag_ms=quorum.max_follower_lag_ms,
        state=quorum.standing.upper().replace("-", "_"),
        state_text=state_text(quorum),
        is_live=quorum.is_live,
        error=quorum.error,
    )
    return answer(body, view.offset)


@router.get("/quorum/epochs", responses={200: {"model": QuorumEpochDataList}})
async def list_epochs(request: Request, view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the leaderships known, newest first: as the log tells of them, and kept beyond its retention."""
    body = list_body(
        request,
        view,
        "KafkaQuorumEpochList",
        view.cluster.history.epochs.leaderships(),
        page,
        lambda leadership: -leadership.epoch.epoch,
        lambda leadership: _epoch(view, leadership),
    )
    return answer(body, view.offset)


@router.get("/quorum/epochs/{epoch}", responses={200: {"model": QuorumEpochData}, 404: {"description": "not known"}})
async def get_epoch(epoch: Annotated[int, Path(ge=0, le=2**31 - 1)], view: ViewDep, _caller: Reader) -> Response:
    """Describe one leadership. Epochs that nobody won are not known."""
    for leadership in view.cluster.history.epochs.leaderships():
        if leadership.epoch.epoch == epoch:
            return answer(_epoch(view, leadership), view.offset)
    raise ApiError(404, f"No leader of epoch {epoch} is known.")


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


def change_data(change: Change) -> dict[str, Any]:
    """Return one change with its records, secrets left out."""
    return {
        "kind": "KafkaMetadataChange",
        "first_offset": change.first_offset,
        "offset": change.offset,
        "leader_epoch": change.epoch,
        "timestamp": change.timestamp_ms,
        "lines": list(change.lines),
        "records": [record_data(offset, record) for offset, record in change.records],
    }


@router.get("/metadata/records", responses={200: {"model": ChangeDataList}, 410: {"description": "too old"}})
async def list_changes(
    view: ViewDep,
    _caller: Reader,
    from_offset: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
    limit: Annotated[int, Query(ge=1, le=CHANGES_MAX)] = 100,
) -> Response:
    """List committed changes from an offset on, oldest first; 410 when they are kept no more.

    Without `from_offset` it begins with the oldest change that is kept. NoOps and transaction marks are left out.
    """
    history = view.cluster.history
    start = history.oldest_offset if from_offset is None else from_offset
    changes = history.since(start, limit)
    url = view.url("metadata", "records")
    following = f"{url}?from_offset={changes[-1].offset + 1}&limit={limit}" if len(changes) == limit else None
    body = {
        "kind": "KafkaMetadataChangeList",
        "metadata": {"self": url, "next": following},
        "data": [change_data(change) for change in changes],
        "oldest_offset": history.oldest_offset,
    }
    return answer(body, view.offset)


@router.get("/metadata/watch", response_class=StreamingResponse, responses={410: {"description": "too old"}})
async def watch(
    view: ViewDep,
    _caller: Reader,
    from_offset: Annotated[int | None, Query(ge=0, le=2**63 - 1, description="first offset wanted")] = None,
    last_event_id: Annotated[str | None, Header(description="offset of the last event seen")] = None,
) -> Response:
    """Stream committed changes as server-sent events; each event's id is its offset, so a reader resumes exactly.

    Begins at the present unless `from_offset` or `Last-Event-ID` says otherwise; 410 when that is kept no more.
    """
    after = None if from_offset is None else from_offset - 1
    if last_event_id:
        if not last_event_id.isascii() or not last_event_id.isdigit() or len(last_event_id) > 18:
            raise ApiError(400, "Bad Request: Last-Event-ID is not an offset.")
        after = int(last_event_id)
    oldest = view.cluster.history.oldest_offset
    if after is not None and after + 1 < oldest:
        raise OffsetGone(after + 1, oldest)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_stream(view, after), media_type="text/event-stream", headers=headers)


async def _stream(view: View, after: int | None) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    try:
        async for changes in view.cluster.events(after, HEARTBEAT_SECONDS):
            if not changes:
                yield b": still here\n\n"
            for change in changes:
                data = msgspec.json.encode(change_data(change))
                yield b"id: %d\nevent: change\ndata: %s\n\n" % (change.offset, data)
    except OffsetGone as gone:  # the reader was slower than the log for too long
        body = json.dumps(dataclasses.asdict(_Gone(str(gone), gone.oldest)))
        yield f"event: gone\ndata: {body}\n\n".encode()


@dataclasses.dataclass(frozen=True, slots=True)
class _Gone:
    message: str
    oldest_offset: int
