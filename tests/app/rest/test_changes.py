"""Changes through REST: committed, visible to the next read, answered with the offset of the change."""

import concurrent.futures
import itertools

import httpx
import pytest

from app.rest.schemas.deletions import TopicDeletionDataList
from app.rest.schemas.topics import TopicData
from tests.app.live import LiveWeb

_numbers = itertools.count()


@pytest.fixture
def topic(web: LiveWeb) -> str:
    name = f"changes.{next(_numbers)}"
    answer = web.client.post(f"{web.cluster}/topics", json={"topic_name": name, "partitions_count": 2})
    assert answer.status_code == 201, answer.text
    return name


def test_a_created_topic_is_read_by_the_next_request(web: LiveWeb) -> None:
    name = f"changes.{next(_numbers)}"
    body = {"topic_name": name, "partitions_count": 3, "replication_factor": 1}
    answer = web.client.post(f"{web.cluster}/topics", json=body)
    created = TopicData.model_validate_json(answer.content)
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"{web.url}{web.cluster}/topics/{name}"
    assert (created.partitions_count, created.replication_factor) == (3, 1)
    read = web.client.get(f"{web.cluster}/topics/{name}")
    assert read.status_code == 200
    assert read.headers["ETag"] == answer.headers["ETag"]
    assert read.json()["topic_id"] == created.topic_id


def test_the_answer_has_the_offset_of_the_committed_change(web: LiveWeb, topic: str) -> None:
    answer = web.client.put(f"{web.cluster}/topics/{topic}/configs/retention.ms", json={"value": "12345"})
    assert answer.status_code == 204
    offset = int(answer.headers["X-Metadata-Offset"])
    changes = web.client.get(f"{web.cluster}/metadata/records?from_offset={offset}&limit=1").json()["data"]
    assert changes[0]["offset"] == offset
    assert changes[0]["lines"] == [f"config of topic {topic}: retention.ms set to 12345"]
    audited = web.client.get(f"/v3/audit?resource=topic/{topic}&page_size=1").json()["data"][0]
    assert (audited["metadata_offset"], audited["result"]) == (offset, "ok")


def test_explicit_assignments_override_the_counts(web: LiveWeb) -> None:
    name = f"changes.{next(_numbers)}"
    body = {"topic_name": name, "partitions_count": 9, "replicas_assignments": {"0": [1], "1": [1]}}
    assert web.client.post(f"{web.cluster}/topics", json=body).json()["partitions_count"] == 2


def test_partitions_are_added_and_never_removed(web: LiveWeb, topic: str) -> None:
    path = f"{web.cluster}/topics/{topic}"
    assert web.client.patch(path, json={"partitions_count": 5}).json()["partitions_count"] == 5
    refused = web.client.patch(path, json={"partitions_count": 4})
    assert (refused.status_code, refused.json()["kafka_error"]) == (400, "INVALID_PARTITIONS")
    assert web.client.get(path).json()["partitions_count"] == 5


def test_a_deleted_topic_is_gone_for_the_next_request(web: LiveWeb, topic: str) -> None:
    path = f"{web.cluster}/topics/{topic}"
    assert web.client.delete(path).status_code == 204
    assert web.client.get(path).status_code == 404
    again = web.client.delete(path)
    assert (again.status_code, again.json()["error_code"]) == (404, 40403)


def test_validate_only_changes_nothing(web: LiveWeb, topic: str) -> None:
    """REST v3 ignores `validate_only` for brokers and clusters and makes the change; this API does not."""
    before = web.client.get(f"{web.cluster}/metadata/records?from_offset=0&limit=1000").json()["data"]
    alter = {"data": [{"name": "log.cleaner.threads", "value": "3"}], "validate_only": True}
    topic_alter = {"data": [{"name": "retention.ms", "value": "3"}], "validate_only": True}
    answers = [
        web.client.post(f"{web.cluster}/topics", json={"topic_name": "changes.dry", "validate_only": True}),
        web.client.patch(f"{web.cluster}/topics/{topic}", json={"partitions_count": 9, "validate_only": True}),
        web.client.post(f"{web.cluster}/topics/{topic}/configs:alter", json=topic_alter),
        web.client.post(f"{web.cluster}/brokers/1/configs:alter", json=alter),
        web.client.post(f"{web.cluster}/broker-configs:alter", json=alter),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 204, 204, 204]
    after = web.client.get(f"{web.cluster}/metadata/records?from_offset=0&limit=1000").json()["data"]
    assert after == before


def test_validate_only_refuses_an_invalid_change(web: LiveWeb, topic: str) -> None:
    body = {"data": [{"name": "retention.ms", "value": "never"}], "validate_only": True}
    refused = web.client.post(f"{web.cluster}/topics/{topic}/configs:alter", json=body)
    assert (refused.status_code, refused.json()["kafka_error"]) == (400, "INVALID_CONFIG")


def test_a_batch_of_configs_is_all_or_none(web: LiveWeb, topic: str) -> None:
    path = f"{web.cluster}/topics/{topic}/configs"
    body = {"data": [{"name": "retention.ms", "value": "7"}, {"name": "segment.bytes", "value": "none"}]}
    assert web.client.post(f"{path}:alter", json=body).status_code == 400
    assert web.client.get(f"{path}/retention.ms").json()["source"] != "DYNAMIC_TOPIC_CONFIG"
    good = {"data": [{"name": "retention.ms", "value": "7"}, {"name": "segment.bytes", "value": "2000000"}]}
    assert web.client.post(f"{path}:alter", json=good).status_code == 204
    assert web.client.get(f"{path}/segment.bytes").json()["value"] == "2000000"
    reset = {"data": [{"name": "retention.ms", "operation": "DELETE"}]}
    assert web.client.post(f"{path}:alter", json=reset).status_code == 204
    assert web.client.get(f"{path}/retention.ms").json()["source"] != "DYNAMIC_TOPIC_CONFIG"


def test_a_batch_of_topics_fails_per_topic(web: LiveWeb, topic: str) -> None:
    entry = {"configs": [{"name": "retention.ms", "value": "99"}]}
    body = {"data": [{"topic_name": topic, **entry}, {"topic_name": "changes.absent", **entry}]}
    answer = web.client.post(f"{web.cluster}/topics/-/configs:alter", json=body)
    assert answer.status_code == 207
    failures = answer.json()["failures"]
    assert [(failure["topic_name"], failure["error_code"]) for failure in failures] == [("changes.absent", 40403)]
    assert web.client.get(f"{web.cluster}/topics/{topic}/configs/retention.ms").json()["value"] == "99"


def test_broker_and_cluster_configs_are_set_and_reset(web: LiveWeb) -> None:
    for path, source in (
        ("/brokers/1/configs/log.cleaner.threads", "DYNAMIC_BROKER_CONFIG"),
        ("/broker-configs/log.cleaner.threads", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    ):
        assert web.client.put(web.cluster + path, json={"value": "2"}).status_code == 204
        config = web.client.get(web.cluster + path).json()
        assert (config["value"], config["source"]) == ("2", source)
        assert web.client.delete(web.cluster + path).status_code == 204
    assert web.client.get(f"{web.cluster}/broker-configs/log.cleaner.threads").status_code == 404


def test_an_unknown_config_is_not_found_before_kafka_is_asked(web: LiveWeb, topic: str) -> None:
    refused = web.client.put(f"{web.cluster}/topics/{topic}/configs/tea.pot", json={"value": "1"})
    assert refused.status_code == 404
    assert refused.json()["message"].startswith(f"Config tea.pot cannot be found for TOPIC {topic}")


def test_a_change_with_an_older_etag_is_refused(web: LiveWeb, topic: str) -> None:
    path = f"{web.cluster}/topics/{topic}"
    seen = web.client.get(path).headers["ETag"]
    assert web.client.get(path, headers={"If-None-Match": seen}).status_code == 304
    assert web.client.patch(path, json={"partitions_count": 3}, headers={"If-Match": seen}).status_code == 200
    stale = web.client.patch(path, json={"partitions_count": 4}, headers={"If-Match": seen})
    assert (stale.status_code, stale.json()["status"]) == (412, 412)
    assert web.client.delete(path, headers={"If-Match": seen}).status_code == 412
    config = web.client.put(f"{path}/configs/retention.ms", json={"value": "1"}, headers={"If-Match": seen})
    assert config.status_code == 412


def test_the_same_idempotency_key_has_one_effect_and_one_answer(web: LiveWeb) -> None:
    name = f"changes.{next(_numbers)}"
    headers = {"Idempotency-Key": f"key-{name}"}
    first = web.client.post(f"{web.cluster}/topics", json={"topic_name": name}, headers=headers)
    again = web.client.post(f"{web.cluster}/topics", json={"topic_name": name}, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotent-Replayed"] == "true"
    other = web.client.post(f"{web.cluster}/topics", json={"topic_name": name + "x"}, headers=headers)
    assert other.status_code == 422


def test_several_topics_are_deleted_in_one_call_with_a_result_for_each(web: LiveWeb, topic: str) -> None:
    url, names = f"{web.cluster}/topics:delete", [topic, "changes.absent", f"changes.{next(_numbers)}", "a/b"]
    assert web.client.post(f"{web.cluster}/topics", json={"topic_name": names[2]}).status_code == 201
    body = {"data": [{"topic_name": name} for name in names]}
    headers = {"Idempotency-Key": f"delete-{topic}"}

    def results(answer: httpx.Response) -> list[tuple[str, int | None, str | None]]:
        assert answer.status_code == 207, answer.text
        data = TopicDeletionDataList.model_validate_json(answer.content).data
        assert [each.metadata_offset is None for each in data] == [dry or each.error_code is not None for each in data]
        return [(each.topic_name, each.error_code, each.kafka_error) for each in data]

    expected = [
        (topic, None, None),
        ("changes.absent", 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        (names[2], None, None),
        ("a/b", 400, "INVALID_TOPIC"),
    ]
    dry = True
    assert results(web.client.post(f"{url}?validate_only=true", json=body, headers=headers)) == expected
    assert web.client.get(f"{web.cluster}/topics/{topic}").status_code == 200
    dry = False
    done = web.client.post(url, json=body, headers=headers)
    assert results(done) == expected
    assert done.headers["X-Metadata-Offset"] == str(max(each["metadata_offset"] or 0 for each in done.json()["data"]))
    for name, error, _ in expected[:3]:
        assert web.client.get(f"{web.cluster}/topics/{name}").status_code == 404
        audited = web.client.get(f"/v3/audit?resource=topic/{name}&page_size=1").json()["data"][0]
        assert (audited["action"], audited["result"]) == ("topic.delete", "failed" if error else "ok")
    assert web.client.post(f"{web.cluster}/topics", json={"topic_name": topic}).status_code == 201
    again = web.client.post(url, json=body, headers=headers)
    assert (again.json(), again.headers["Idempotent-Replayed"]) == (done.json(), "true")
    assert web.client.get(f"{web.cluster}/topics/{topic}").status_code == 200, "the new topic is another one"
    whole = web.client.post(url, json={"data": [{"topic_name": topic}]})
    assert (whole.status_code, whole.json()["data"][0]["error_code"]) == (200, None)
    twice = web.client.post(url, json={"data": [{"topic_name": topic}] * 2})
    assert (twice.status_code, twice.json()["kafka_error"]) == (400, "INVALID_REQUEST")
    for wrong in ({"data": []}, {"data": [{"topic_name": f"t{number}"} for number in range(1_001)]}):
        assert web.client.post(url, json=wrong).status_code == 422


def test_parallel_requests_with_one_idempotency_key_create_once(web: LiveWeb) -> None:
    name = f"changes.{next(_numbers)}"

    def create(_: int) -> int:
        with web.http(web.client.headers["Authorization"].removeprefix("Bearer ")) as client:
            headers = {"Idempotency-Key": f"parallel-{name}"}
            return client.post(f"{web.cluster}/topics", json={"topic_name": name}, headers=headers).status_code

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(create, range(8)))
    assert set(statuses) <= {201, 409}
    assert 201 in statuses


def test_a_refusal_is_replayed_too(web: LiveWeb, topic: str) -> None:
    headers = {"Idempotency-Key": f"refused-{topic}"}
    first = web.client.post(f"{web.cluster}/topics", json={"topic_name": topic}, headers=headers)
    assert (first.status_code, first.json()["error_code"]) == (400, 40002)
    web.client.delete(f"{web.cluster}/topics/{topic}")
    again = web.client.post(f"{web.cluster}/topics", json={"topic_name": topic}, headers=headers)
    assert again.json() == first.json()


def test_a_read_waits_for_the_offset_that_it_requests(web: LiveWeb, topic: str) -> None:
    offset = int(web.client.get(f"{web.cluster}/topics/{topic}").headers["X-Metadata-Offset"])
    later = web.client.get(f"{web.cluster}/topics/{topic}?min_offset={offset + 1}")
    assert later.status_code == 200, "the idle NoOps move the log on within half a second"
    assert int(later.headers["X-Metadata-Offset"]) > offset
    assert web.client.get(f"{web.cluster}/topics?min_offset={10**12}").status_code == 504


@pytest.mark.parametrize(
    ("path", "name", "good", "error", "resource"),
    [
        ("consumer-groups/{}/configs", "consumer.session.timeout.ms", "50000", "INVALID_CONFIG", "group"),
        ("client-metrics/{}/configs", "interval.ms", "60000", "INVALID_REQUEST", "client-metrics"),
    ],
    ids=["group", "client-metrics"],
)
def test_configs_of_groups_and_client_metrics_are_set_validated_and_reset(
    web: LiveWeb, path: str, name: str, good: str, error: str, resource: str
) -> None:
    owner = f"owner.{next(_numbers)}"
    configs = f"{web.cluster}/{path.format(owner)}"
    assert web.client.get(f"{configs}/{name}").json()["is_default"]
    dry = web.client.post(f"{configs}:alter", json={"data": [{"name": name, "value": good}], "validate_only": True})
    assert (dry.status_code, web.client.get(f"{configs}/{name}").json()["is_default"]) == (204, True)
    assert web.client.put(f"{configs}/{name}", json={"value": good}).status_code == 204
    assert web.client.get(f"{configs}/{name}").json()["value"] == good
    refused = web.client.put(f"{configs}/{name}", json={"value": "1"})
    assert (refused.status_code, refused.json()["kafka_error"]) == (400, error)
    assert web.client.put(f"{configs}/no.such", json={"value": "1"}).status_code == 404
    assert web.client.delete(f"{configs}/{name}").status_code == 204
    assert web.client.get(f"{configs}/{name}").json()["is_default"]
    audited = web.client.get(f"/v3/audit?resource={resource}/{owner}").json()["data"]
    assert [row["result"] for row in audited] == ["ok", "failed", "ok"]
