"""Records of topics: written as REST v3 does, and read in pages; the offsets of a partition."""

import base64
import binascii
import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import ValidationError

from app.cluster.records import COUNT_MAX, NewRecord, RecordQuery
from app.error_responses import NATIVE
from app.http.errors import ApiError, BadRequestError, FieldError, UnavailableError, UnprocessableError, of_kafka
from app.http.strict_json import json_documents
from app.records.contents import sizes_of
from app.records.filters import FilterTextError, RecordFilters, filter_of
from app.records.formats import json_record
from app.records.positions import AtOffset, AtTime, BeforeEnd, Position
from app.rest.partitions import partition_data
from app.rest.responses import answer, checked, list_body, multi_status
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.topic_records import (
    ContentBody,
    PartitionWithOffsetsData,
    ProduceBatchBody,
    ProduceBatchEntry,
    ProduceBody,
    ProducedBatchData,
    ProducedData,
    RecordBody,
    RecordDataList,
)
from app.rest.view import View, ViewDep
from app.services import Reader, RecordReader, RecordWriter, ServicesDep
from app.texts import plain
from kraft_core.clients.consumer.clipping_decoder import ClippedRecord
from kraft_core.clients.consumer.uniform_records import Raw
from kraft_core.clients.producer.future_record_metadata import RecordMetadata
from kraft_core.image.metadata_image import TopicImage
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics/{topic_name}", route_class=JsonRoute)

RECORDS_MAX: Final = 10_000
FILTERS_MAX: Final = 2_000
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ProduceBody"}}},
    }
}


# Writing


@router.post("/records", tags=["topics"], responses={200: {"model": ProducedData}}, openapi_extra=_BODY)
async def produce(
    request: Request, topic_name: str, view: ViewDep, services: ServicesDep, caller: RecordWriter, validate_only: DryRun
) -> Response:
    """Write one record, or several whose JSON objects follow one another, and answer with an object for each.

    Of several records each has its own `error_code`, and the status is 200. The records are in the order of the body.
    """
    topic = view.topic(topic_name)
    documents = json_documents(await request.body())
    if not documents:
        raise UnprocessableError("Payload error. A request body is required.", error_code=42206)
    if len(documents) > RECORDS_MAX:
        raise BadRequestError(f"Bad Request: {len(documents):,} records; at most {RECORDS_MAX:,} are allowed.")
    given = [_parsed(topic, document, is_single=len(documents) == 1) for document in documents]
    records = [each[1] for each in given if not isinstance(each, ApiError)]
    outcomes: Iterator[RecordMetadata | KafkaError | None] = iter([None] * len(records))
    if not validate_only and records:
        outcomes = iter(await services.actions.records.produce(caller, topic_name, records))
    results = [each if isinstance(each, ApiError) else _result(view, topic, *each, next(outcomes)) for each in given]
    if len(results) == 1:
        (result,) = results
        if isinstance(result, ApiError):
            raise result
        return answer(checked({"error_code": 200, **result}, validate_only=validate_only), None)
    lines = [
        msgspec.json.encode(
            _failure(each) if isinstance(each, ApiError) else {"error_code": 200, **each}, enc_hook=plain
        )
        for each in results
    ]
    return Response(b"\n".join(lines) + b"\n", media_type="application/json")


@router.post("/records:batch", tags=["topics"], status_code=207, responses={207: {"model": ProducedBatchData}})
async def produce_batch(
    topic_name: str,
    body: ProduceBatchBody,
    view: ViewDep,
    services: ServicesDep,
    caller: RecordWriter,
    validate_only: DryRun,
) -> Response:
    """Write several records: each id of an entry is among the `successes` or the `failures` of the answer."""
    topic = view.topic(topic_name)
    repeated = [name for name, count in Counter(entry.id for entry in body.entries).items() if count > 1]
    if repeated:
        raise UnprocessableError(f"Batch entry IDs are not distinct: {repeated[0]}", error_code=42208)
    results: dict[str, dict[str, Any] | ApiError] = {}
    given: list[tuple[ProduceBatchEntry, NewRecord]] = []
    for entry in body.entries:
        try:
            given.append((entry, _new_record(topic, entry)))
        except ApiError as wrong:
            results[entry.id] = wrong
    outcomes: Sequence[RecordMetadata | KafkaError | None] = [None] * len(given)
    if not validate_only and given:
        outcomes = await services.actions.records.produce(caller, topic_name, [record for _, record in given])
    for (entry, record), outcome in zip(given, outcomes, strict=True):
        results[entry.id] = _result(view, topic, entry, record, outcome)
    in_order = [(entry.id, results[entry.id]) for entry in body.entries]
    lists = {
        "successes": [{"id": name, **each} for name, each in in_order if not isinstance(each, ApiError)],
        "failures": [{"id": name, **_failure(each)} for name, each in in_order if isinstance(each, ApiError)],
    }
    return multi_status(checked(lists, validate_only=validate_only), None)


def _parsed(topic: TopicImage, document: Any, *, is_single: bool) -> tuple[ProduceBody, NewRecord] | ApiError:
    """Return one record of a request, or what is wrong with it."""
    try:
        body = ProduceBody.model_validate(document)
        if not is_single and "validate_only" in body.model_fields_set:
            raise UnprocessableError("validate_only of several records must be in the query")
        return body, _new_record(topic, body)
    except ValidationError as wrong:
        errors = tuple(FieldError("/" + "/".join(map(str, each["loc"])), each["msg"]) for each in wrong.errors()[:5])
        text = "; ".join(f"{each.pointer} {each.message}" for each in errors)
        return UnprocessableError(f"Payload error. {text[:1_000]}", errors=errors)
    except ApiError as wrong:
        return wrong


def _new_record(topic: TopicImage, body: RecordBody) -> NewRecord:
    """Return the record of a body. Raises ApiError."""
    if body.partition_id is not None and body.partition_id not in topic.partitions:
        error = KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Topic '{topic.name}' has no partition {body.partition_id}; it has {len(topic.partitions)} from 0.",
        )
        raise of_kafka(error, v3=True)[0]
    timestamp = None
    if body.timestamp is not None:
        moment = body.timestamp if body.timestamp.tzinfo else body.timestamp.replace(tzinfo=dt.UTC)
        timestamp = (moment - _EPOCH) // dt.timedelta(milliseconds=1)
        if timestamp < 0:
            raise UnprocessableError(f"timestamp {body.timestamp.isoformat()} is before 1970", errors=())
    return NewRecord(
        key=_bytes("key", body.key),
        value=_bytes("value", body.value),
        headers=tuple((each.name, _from_base64(f"header {each.name[:100]}", each.value)) for each in body.headers),
        partition=body.partition_id,
        timestamp_ms=timestamp,
    )


def _bytes(what: str, content: ContentBody | None) -> bytes | None:
    if content is None or content.data is None:
        return None
    try:
        if content.type == "JSON":
            return json.dumps(content.data, ensure_ascii=False, separators=(",", ":")).encode()
        if not isinstance(content.data, str):
            raise UnprocessableError(f"{what}: the data of {content.type} must be a string")
        return content.data.encode() if content.type == "STRING" else _from_base64(what, content.data)
    except UnicodeEncodeError:
        raise UnprocessableError(f"{what}: the text cannot be written as UTF-8") from None


def _from_base64(what: str, text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError):
        raise UnprocessableError(f"{what}: '{text[:40]}' is not base64") from None


def _result(
    view: View, topic: TopicImage, body: RecordBody, record: NewRecord, outcome: RecordMetadata | KafkaError | None
) -> dict[str, Any] | ApiError:
    if isinstance(outcome, KafkaError):
        return of_kafka(outcome, v3=True)[0]

    def content(given: ContentBody | None, data: bytes | None) -> dict[str, Any] | None:
        return None if given is None or data is None else {"type": given.type, "size": len(data)}

    written_ms = None if outcome is None else outcome.timestamp
    return {
        "cluster_id": view.cluster_id,
        "topic_name": topic.name,
        "partition_id": record.partition if outcome is None else outcome.partition,
        "offset": None if outcome is None else outcome.offset,
        "timestamp": None if written_ms is None else _iso(written_ms),
        "key": content(body.key, record.key),
        "value": content(body.value, record.value),
    }


def _iso(timestamp_ms: int) -> str | None:
    try:
        moment = _EPOCH + dt.timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _failure(error: ApiError) -> dict[str, Any]:
    return {"error_code": error.error_code, "message": error.message}


# Reading


@router.get("/partitions/{partition_id}/records", tags=[NATIVE, "topics"], responses={200: {"model": RecordDataList}})
async def list_records(
    topic_name: str,
    partition_id: int,
    view: ViewDep,
    services: ServicesDep,
    caller: RecordReader,
    offset: Annotated[int | None, Query(ge=0, le=2**63 - 1, description="first offset")] = None,
    timestamp: Annotated[int | None, Query(ge=0, le=2**63 - 1, description="first time in ms since 1970")] = None,
    newest: Annotated[int | None, Query(ge=1, le=COUNT_MAX, description="the last records, as many as match")] = None,
    limit: Annotated[int, Query(ge=1, le=COUNT_MAX)] = 100,
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed",
    filter: Annotated[  # noqa: A002 - the parameter's name in the API
        str | None, Query(max_length=FILTERS_MAX, description="as --filter of conclave consume")
    ] = None,
) -> Response:
    """Read records of a partition from an offset, a time, or the newest; by default from the beginning."""
    view.partition(topic_name, partition_id)
    found = await services.actions.records.read(
        caller,
        RecordQuery(
            topic=view.topic(topic_name),
            partitions=(partition_id,),
            start=_start(offset, timestamp, newest),
            is_backwards=newest is not None,
            count=limit if newest is None else newest,
            is_committed=isolation_level == "read_committed",
            filters=_filters(filter),
        ),
    )
    if partition_id in found.errors:
        raise UnavailableError(
            f"Partition {topic_name}-{partition_id} cannot be read: {found.errors[partition_id]}.",
            code="partition-unavailable",
            retry_after_seconds=1,
        )
    window, part = found.window, found.window.parts[partition_id]
    records = sorted(window.records, key=lambda record: record.offset)
    url = view.url("topics", topic_name, "partitions", partition_id, "records")
    following = None
    if newest is None and part.following < part.end:
        others = {"limit": limit, "isolation_level": isolation_level, **({} if filter is None else {"filter": filter})}
        following = f"{url}?{urlencode({'offset': part.following, **others})}"
    body = list_body("KafkaRecordList", url, [record_data(record) for record in records], following)
    more = {
        "beginning_offset": part.first,
        "end_offset": part.end,
        "scanned": window.scanned,
        "scanned_to": part.following,
        "stopped": window.stopped or None,
    }
    return answer({**body, **more}, view.offset)


def record_data(record: Raw) -> dict[str, Any]:
    """Return a record as `conclave consume --json` prints it, with the sizes of key and value."""
    key_size, value_size = sizes_of(record)
    is_cut = isinstance(record, ClippedRecord)
    return {**json_record(record), "key_size": key_size, "value_size": value_size, "is_truncated": is_cut}


def _start(offset: int | None, timestamp: int | None, newest: int | None) -> Position:
    given = {"offset": offset, "timestamp": timestamp, "newest": newest}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise BadRequestError(f"Bad Request: {' and '.join(chosen)} exclude each other.")
    if offset is not None:
        return AtOffset(offset)
    if timestamp is not None:
        return AtTime(timestamp)
    return None if newest is None else BeforeEnd(0)


def _filters(text: str | None) -> RecordFilters:
    wanted: Sequence[str] = () if text is None else (text,)
    try:
        return RecordFilters(filter_of(each) for each in wanted)
    except FilterTextError as wrong:
        raise BadRequestError(f"Bad Request: {str(wrong)[:1_000]}.") from None


@router.get("/partitions/{partition_id}/offset", tags=["topics"], responses={200: {"model": PartitionWithOffsetsData}})
async def get_offsets(
    topic_name: str,
    partition_id: int,
    view: ViewDep,
    services: ServicesDep,
    _caller: Reader,
    _offset_type: Annotated[
        Literal["earliest_and_latest"], Query(alias="offset_type", description="the only value")
    ] = "earliest_and_latest",
) -> Response:
    """Describe one partition with its first offset and the one behind its last record, as its leader knows them."""
    found = view.partition(topic_name, partition_id)
    offsets = await services.cluster.records.offsets(view.topic(topic_name), partition_id)
    data = partition_data(view, topic_name, partition_id, found)
    at = {"earliest_offset": offsets.first, "latest_offset": offsets.end}
    return answer({**data, "kind": "KafkaPartitionWithOffsets", **at}, view.offset)
