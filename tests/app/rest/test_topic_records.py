"""Records over REST: written as REST v3 does, read in pages, the offsets of a partition."""

import base64
import json
import time

import pytest

from app.rest.schemas.topic_records import PartitionWithOffsetsData, ProducedBatchData, ProducedData, RecordDataList
from tests.app.live import CombinedNode, LiveWeb
from tests.app.messages import create, write


@pytest.fixture(scope="module")
def topic(web: LiveWeb) -> str:
    return create(web, "rest-records", 2)


def produce(web: LiveWeb, topic: str, *bodies: object, query: str = "") -> list[dict[str, object]]:
    """Write records and return the answer's objects."""
    content = b"".join(body if isinstance(body, bytes) else json.dumps(body).encode() for body in bodies)
    answer = web.client.post(
        f"{web.cluster}/topics/{topic}/records{query}", content=content, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def read(web: LiveWeb, topic: str, partition: int, query: str = "") -> dict[str, object]:
    """Return a page of records."""
    answer = web.client.get(f"{web.cluster}/topics/{topic}/partitions/{partition}/records{query}")
    assert answer.status_code == 200, answer.text
    RecordDataList.model_validate_json(answer.content)
    return answer.json()


def test_a_record_is_written_and_read_with_all_its_parts(web: LiveWeb, topic: str) -> None:
    timestamp_ms = int(time.time()) * 1_000
    body = {
        "partition_id": 1,
        "key": {"type": "STRING", "data": "ключ"},
        "value": {"type": "JSON", "data": {"a": [1, 2.5, None, "ü"]}},
        "headers": [{"name": "h", "value": base64.b64encode(b"\xff").decode()}, {"name": "null"}],
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(timestamp_ms // 1_000)),
    }
    (done,) = produce(web, topic, body)
    ProducedData.model_validate(done)
    assert (done["partition_id"], done["key"], done["value"]) == (
        1,
        {"type": "STRING", "size": 8},
        {"type": "JSON", "size": 23},
    )
    page = read(web, topic, 1, f"?offset={done['offset']}&limit=1")
    assert page["data"] == [
        {
            "topic": topic,
            "partition": 1,
            "offset": done["offset"],
            "timestamp_ms": timestamp_ms,
            "timestamp_type": "CreateTime",
            "key": "ключ",
            "value": '{"a":[1,2.5,null,"ü"]}',
            "headers": [{"name": "h", "value_base64": "/w=="}, {"name": "null", "value": None}],
            "key_size": 8,
            "value_size": 23,
            "is_truncated": False,
        }
    ]


def test_each_entry_of_a_batch_is_among_the_successes_or_the_failures(web: LiveWeb, topic: str) -> None:
    address = f"{web.cluster}/topics/{topic}/records:batch"

    def entry(name: str, **rest: object) -> dict[str, object]:
        return {"id": name, "partition_id": 0, "value": {"type": "STRING", "data": name}, **rest}

    entries = [entry("a"), entry("b", partition_id=7), entry("c", value={"type": "BINARY", "data": "%"}), entry("d")]
    before = web.client.get(f"{web.cluster}/topics/{topic}/partitions/0/offset").json()["latest_offset"]
    dry = web.client.post(f"{address}?validate_only=true", json={"entries": entries})
    done = web.client.post(address, json={"entries": entries})
    assert (dry.status_code, done.status_code) == (207, 207), done.text
    lists = ProducedBatchData.model_validate_json(done.content)
    assert [(each.id, each.offset, each.partition_id) for each in lists.successes] == [
        ("a", before, 0),
        ("d", before + 1, 0),
    ]
    assert [(each.id, each.error_code) for each in lists.failures] == [("b", 40403), ("c", 422)]
    planned = dry.json()
    assert planned["validated"] is True
    assert [(each["id"], each["offset"]) for each in planned["successes"]] == [("a", None), ("d", None)]
    for wrong, named in (
        ([], "entries"),
        ([entry("a"), entry("a")], "not distinct: a"),
        ([entry("a b")], "/entries/0/id"),
        ([entry("x" * 81)], "/entries/0/id"),
        ([{**entry("a"), "id": 1}], "/entries/0/id"),
        ([entry("a", partition=1)], "/entries/0/partition"),
    ):
        refused = web.client.post(address, json={"entries": wrong})
        assert (refused.status_code in {400, 422}, named in refused.text) == (True, True), refused.text


def test_several_records_have_an_answer_each_and_keep_their_order(web: LiveWeb, topic: str) -> None:
    def value(text: str) -> dict[str, object]:
        return {"partition_id": 0, "value": {"type": "STRING", "data": text}}

    results = produce(
        web,
        topic,
        value("first"),
        {"partition_id": 7, "value": {"type": "STRING", "data": "nowhere"}},
        b" \n",
        {"value": {"type": "AVRO", "data": 1}},
        {"value": {"type": "BINARY", "data": "%%%"}},
        {"validate_only": True},
        {"value": {"type": "STRING", "data": "\ud800"}},
        value("last"),
    )
    codes = [each["error_code"] for each in results]
    assert codes == [200, 40403, 422, 422, 422, 422, 200]
    assert results[6]["offset"] == results[0]["offset"] + 1
    assert "has no partition 7; it has 2 from 0" in results[1]["message"]
    assert "'%%%' is not base64" in results[3]["message"]
    found = read(web, topic, 0, f"?offset={results[0]['offset']}")
    assert [each["value"] for each in found["data"]] == ["first", "last"]


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (b"", 422, "A request body is required"),
        (b"[]", 422, "Payload error"),
        (b"{", 400, "not valid JSON"),
        (b'{"value": {"type": "STRING", "data": "a"}} x', 400, "not valid JSON"),
        (b'{"key": 1, "key": 2}', 400, "a key occurs twice"),
        (b'{"nonsense": 1}', 422, "nonsense"),
        (b'{"partition_id": -1}', 422, "partition_id"),
        (b'{"partition_id": 99}', 404, "has no partition 99"),
        (b'{"timestamp": "1969-12-31T00:00:00Z"}', 422, "before 1970"),
        (b'{"timestamp": "yesterday"}', 422, "timestamp"),
        (b"{}" * 10_001, 400, "10,001 records; at most 10,000 are allowed"),
        (b'{"value": {"type": "STRING", "data": 5}}', 422, "the data of STRING must be a string"),
        (b'{"value": ' + b"[" * 2_000 + b"]" * 2_000 + b"}", 400, "nested too deeply"),
        (b"[" * 200_000, 400, ""),
    ],
)
def test_a_wrong_record_is_refused(web: LiveWeb, topic: str, content: bytes, status: int, message: str) -> None:
    address = f"{web.cluster}/topics/{topic}/records"
    answer = web.client.post(address, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert message in answer.json()["message"]


def test_several_documents_are_allowed_for_records_only(web: LiveWeb) -> None:
    answer = web.client.post(
        f"{web.cluster}/topics", content=b'{"topic_name": "a"}{"topic_name": "b"}',
        headers={"Content-Type": "application/json"},
    )  # fmt: skip
    assert answer.status_code == 400
    assert "not valid JSON" in answer.json()["message"]


def test_pages_reach_every_record(web: LiveWeb, node: CombinedNode) -> None:
    topic = create(web, "rest-pages")
    write(node.broker, topic, [{"value": b"v%d" % n, "key": None} for n in range(25)], compression_type="gzip")
    query, values = "?limit=10&filter=value~^v", []
    while query:
        page = read(web, topic, 0, query)
        values += [each["value"] for each in page["data"]]
        following = page["metadata"]["next"]
        query = "" if following is None else "?" + following.partition("?")[2]
    assert values == [f"v{n}" for n in range(25)]
    assert [each["offset"] for each in read(web, topic, 0, "?newest=3")["data"]] == [22, 23, 24]
    assert [each["offset"] for each in read(web, topic, 0, "?newest=1&filter=value==v7")["data"]] == [7]
    assert read(web, topic, 0, f"?timestamp={int(time.time() * 1_000) + 60_000}")["data"] == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?offset=1&newest=2", "offset and newest exclude each other"),
        ("?newest=1001", "newest"),
        ("?limit=0", "limit"),
        ("?filter=nonsense", "invalid filter 'nonsense'"),
        (f"?filter={'x' * 2_048}", "filter"),
        ("?isolation_level=none", "isolation_level"),
        ("?from=1", "unknown query parameter 'from'"),
    ],
)
def test_a_wrong_query_is_refused(web: LiveWeb, topic: str, query: str, message: str) -> None:
    answer = web.client.get(f"{web.cluster}/topics/{topic}/partitions/0/records{query}")
    assert answer.status_code == 400
    assert message in answer.json()["message"]


def test_offsets_of_a_partition(web: LiveWeb, topic: str) -> None:
    before = read(web, topic, 1)["end_offset"]
    produce(web, topic, {"partition_id": 1})
    answer = web.client.get(f"{web.cluster}/topics/{topic}/partitions/1/offset?offset_type=earliest_and_latest")
    found = PartitionWithOffsetsData.model_validate_json(answer.content)
    assert (found.earliest_offset, found.latest_offset) == (0, before + 1)


def test_a_role_that_may_not_read_or_write_records_is_refused(web: LiveWeb, topic: str) -> None:
    made = web.client.post("/v3/tokens", json={"name": "rest-viewer", "role": "viewer"}).json()
    scoped = web.client.post("/v3/tokens", json={"name": "rest-topics", "role": "admin", "scopes": ["topics"]}).json()
    for token in (made["token"], scoped["token"]):
        caller = web.http(token)
        assert caller.get(f"{web.cluster}/topics/{topic}/partitions/0/records").status_code == 403
        assert caller.post(f"{web.cluster}/topics/{topic}/records", json={}).status_code == 403


def test_writing_is_audited_without_content(web: LiveWeb, topic: str) -> None:
    (done,) = produce(web, topic, {"value": {"type": "STRING", "data": "very-secret-value"}})
    (event, *_) = [
        each for each in web.client.get("/v3/audit?page_size=20").json()["data"] if each["action"] == "records.produce"
    ]
    assert event["detail"] == {"records": 1, "bytes": 17, "written": [f"{done['partition_id']}:{done['offset']}"]}
    assert "very-secret" not in json.dumps(event)
