"""The metadata log as a feed: committed changes in pages and as server-sent events, with secrets hidden."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Header, Query
from fastapi.responses import Response, StreamingResponse

from app.cluster.differences import Difference, differences
from app.cluster.history import Change, OffsetGone
from app.error_responses import NATIVE
from app.http.errors import BadRequestError
from app.rest.paging import NowPageDep
from app.rest.responses import answer, list_body
from app.rest.routing import JsonRoute
from app.rest.schemas.records import ChangeDataList, DifferenceDataList
from app.rest.view import NowViewDep, View
from app.services import Reader, past_at
from kraft_core.image.changes import is_secret_config
from kraft_core.protocol.metadata_records import (
    ConfigRecord,
    DelegationTokenRecord,
    MetadataRecord,
    RemoveDelegationTokenRecord,
    UserScramCredentialRecord,
)
from kraft_core.protocol.uuids import uuid_to_text

router = APIRouter(prefix="/v3/clusters/{cluster_id}/metadata", tags=[NATIVE, "quorum"], route_class=JsonRoute)

HEARTBEAT_SECONDS: Final = 15.0
CHANGES_MAX: Final = 1_000
HIDDEN: Final = "[hidden]"
_SECRET_FIELDS: Final[dict[type, frozenset[str]]] = {
    UserScramCredentialRecord: frozenset({"salt", "stored_key", "server_key"}),
    DelegationTokenRecord: frozenset({"token_id"}),
    RemoveDelegationTokenRecord: frozenset({"token_id"}),
}


def record_data(offset: int, record: MetadataRecord) -> dict[str, Any]:
    """Return one record: its offset, Kafka's name of its type, and its fields.

    Fields that could be used to log in (keys, salts, token ids, sensitive configs) are hidden.
    """
    secret = _SECRET_FIELDS.get(type(record), frozenset())
    if isinstance(record, ConfigRecord) and is_secret_config(record.name):
        secret = frozenset({"value"})
    data = {name: HIDDEN if name in secret else _plain(getattr(record, name)) for name in record.__struct_fields__}
    return {"offset": offset, "type": type(record).__name__, "data": data}


def _plain(value: Any) -> Any:
    """Return a field's value as JSON can hold it: UUIDs as Kafka writes them, bytes in hexadecimal."""
    if isinstance(value, uuid.UUID):
        return uuid_to_text(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    return value


def change_data(change: Change) -> dict[str, Any]:
    """Return one change with its records."""
    return {
        "kind": "KafkaMetadataChange",
        "first_offset": change.first_offset,
        "offset": change.offset,
        "leader_epoch": change.epoch,
        "timestamp": change.timestamp_ms,
        "lines": list(change.lines),
        "records": [record_data(offset, record) for offset, record in change.records],
    }


@router.get("/records", responses={200: {"model": ChangeDataList}, 410: {"description": "no longer kept"}})
async def list_changes(
    view: NowViewDep,
    _caller: Reader,
    from_offset: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
    limit: Annotated[int, Query(ge=1, le=CHANGES_MAX)] = 100,
) -> Response:
    """List committed changes from an offset, oldest first. 410 when that offset is no longer kept.

    Without `from_offset` the list begins with the oldest change that is kept. NoOp records and transaction markers are
    left out.
    """
    history = view.cluster.history
    start = history.oldest_offset if from_offset is None else from_offset
    changes = history.since(start, limit)
    url = view.url("metadata", "records")
    following = f"{url}?from_offset={changes[-1].offset + 1}&limit={limit}" if len(changes) == limit else None
    body = list_body("KafkaMetadataChangeList", url, [change_data(change) for change in changes], following)
    return answer({**body, "oldest_offset": history.oldest_offset}, view.offset)


@router.get("/diff", responses={200: {"model": DifferenceDataList}, 410: {"description": "no longer kept"}})
async def compare(
    view: NowViewDep,
    page: NowPageDep,
    _caller: Reader,
    from_offset: Annotated[int, Query(ge=0, le=2**63 - 1)],
    to_offset: Annotated[int | None, Query(ge=0, le=2**63 - 1, description="by default the newest")] = None,
) -> Response:
    """List the resources that differ between the states at two offsets, by kind and name."""
    archive = view.cluster.archive
    last = view.offset if to_offset is None else to_offset
    states = [(await past_at(archive.at_offset(offset))).image for offset in (from_offset, last)]
    found = await asyncio.to_thread(differences, *states)
    page.check_after(int, str, str)
    body = page.body("KafkaMetadataDifferenceList", found, lambda each: each.key, _difference_data)
    return answer({**body, "from_offset": from_offset, "to_offset": last}, view.offset)


def _difference_data(found: Difference) -> dict[str, Any]:
    return {
        "kind": "KafkaMetadataDifference",
        "resource_type": found.kind,
        "resource_name": found.name,
        "change": found.how,
        "lines": found.lines,
    }


@router.get("/watch", response_class=StreamingResponse, responses={410: {"description": "no longer kept"}})
async def watch(
    view: NowViewDep,
    _caller: Reader,
    from_offset: Annotated[int | None, Query(ge=0, le=2**63 - 1, description="first offset wanted")] = None,
    last_event_id: Annotated[str | None, Header(description="offset of the last event received")] = None,
) -> Response:
    """Stream committed changes as server-sent events. The id of an event is its offset, so that a reader can resume.

    The stream begins with the next change unless `from_offset` or `Last-Event-ID` is given. 410 when that offset is no
    longer kept.
    """
    after = None if from_offset is None else from_offset - 1
    if last_event_id:
        if not last_event_id.isascii() or not last_event_id.isdigit() or len(last_event_id) > 18:
            raise BadRequestError(f"Bad Request: Last-Event-ID {last_event_id[:40]!r} is not an offset.")
        after = int(last_event_id)
    oldest = view.cluster.history.oldest_offset
    if after is not None and after + 1 < oldest:
        raise OffsetGone(after + 1, oldest)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_stream(view, after), media_type="text/event-stream", headers=headers)


async def _stream(view: View, after: int | None) -> AsyncIterator[bytes]:
    """Yield events; an event `gone` ends the stream of a reader that falls behind what the history keeps."""
    yield b"retry: 1000\n\n"
    try:
        async for changes in view.cluster.events(after, HEARTBEAT_SECONDS):
            if not changes:
                yield b": heartbeat\n\n"
            for change in changes:
                data = msgspec.json.encode(change_data(change))
                yield b"id: %d\nevent: change\ndata: %s\n\n" % (change.offset, data)
    except OffsetGone as gone:
        body = msgspec.json.encode({"message": str(gone), "oldest_offset": gone.oldest})
        yield b"event: gone\ndata: %s\n\n" % body
