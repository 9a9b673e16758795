"""What all endpoints of the API have in common: prefixes, credentials, HEAD, compression, parameters of lists."""

import base64
import gzip
import json
import re
from typing import Any

import httpx
import pytest

from app.http.compression import BYTES_MIN, accepts_gzip
from app.http.errors import status_of
from app.pages import site
from app.rest import api
from app.rest.fields import members_of
from kraft_core.protocol.errors import ErrorCode
from tests.app.live import ADMIN_TOKEN, LiveWeb
from tests.app.security.test_logins import FORM, add_user, login

TOPIC = "conventions.topic"


@pytest.fixture(scope="module", autouse=True)
def topic(web: LiveWeb) -> None:
    body = {"topic_name": TOPIC, "partitions_count": 2, "configs": [{"name": "cleanup.policy", "value": "compact"}]}
    assert web.client.post(f"{web.cluster}/topics", json=body).status_code == 201


def links_of(value: Any) -> list[str]:
    """Return every address in an answer."""
    if isinstance(value, dict):
        own = [text for name, text in value.items() if name in {"self", "related", "next"} and isinstance(text, str)]
        return own + [each for inner in value.values() for each in links_of(inner)]
    return [each for inner in value for each in links_of(inner)] if isinstance(value, list) else []


# prefixes


@pytest.mark.parametrize("prefix", ["", "/kafka"])
def test_links_keep_the_prefix_under_which_the_caller_asked(web: LiveWeb, prefix: str) -> None:
    ours, cluster = f"{web.url}{prefix}/v3/", f"{prefix}{web.cluster}"
    for path in (
        f"{prefix}/v3/clusters",
        f"{cluster}/topics?page_size=1",
        f"{cluster}/topics/{TOPIC}/configs?page_size=2",
        f"{prefix}/v3/users",
        f"{prefix}/v3/audit?page_size=1",
    ):
        links = links_of(web.client.get(path).json())
        assert links
        assert [each for each in links if not each.startswith(ours)] == [], path
    for path in (f"{cluster}/topics/{TOPIC}/configs?page_size=2", f"{prefix}/v3/audit?page_size=1&actor="):
        assert web.client.get(web.client.get(path).json()["metadata"]["next"]).status_code == 200


def test_a_topic_is_created_and_deleted_under_the_other_prefix(web: LiveWeb) -> None:
    topics = f"/kafka{web.cluster}/topics"
    made = web.client.post(topics, json={"topic_name": "conventions.other"})
    assert (made.status_code, made.headers["Location"]) == (201, f"{web.url}{topics}/conventions.other")
    refused = web.client.post(topics, json={"topic_name": "conventions.other"})
    assert (refused.status_code, refused.json()["error_code"]) == (400, 40002)
    assert web.client.delete(f"{topics}/conventions.other").status_code == 204
    assert web.client.get(f"/kafka{web.cluster}/consumer-groups/a%2Fb").json()["error_code"] == 404


@pytest.mark.parametrize(
    "path", ["/kafka", "/kafka/", "/kafka/topics", "/kafka/v3x", "/kafka/kafka/v3/clusters", "/v3x"]
)
def test_only_the_api_has_the_other_prefix(web: LiveWeb, path: str) -> None:
    assert web.client.get(path).status_code == 404
    assert web.http().get("/kafka/v3/clusters").status_code == 401


# credentials


@pytest.fixture(scope="module")
def secret(web: LiveWeb) -> str:
    made = web.client.post("/v3/tokens", json={"name": "conventions", "role": "editor", "scopes": ["read", "topics"]})
    return str(made.json()["token"])


def basic(web: LiveWeb, key: str, secret: str) -> httpx.Client:
    return web.http(auth=httpx.BasicAuth(key, secret))


@pytest.mark.parametrize("prefix", ["", "/kafka"])
def test_a_tokens_name_and_text_are_an_api_key_and_its_secret(web: LiveWeb, secret: str, prefix: str) -> None:
    client = basic(web, "conventions", secret)
    assert client.get(f"{prefix}{web.cluster}/topics/{TOPIC}").status_code == 200
    grown = client.patch(f"{prefix}{web.cluster}/topics/{TOPIC}?validate_only=true", json={"partitions_count": 3})
    assert grown.status_code == 200
    config = client.put(f"{prefix}{web.cluster}/topics/{TOPIC}/configs/retention.ms", json={"value": "1"})
    assert (config.status_code, config.json()["error_code"]) == (403, 40301)
    denied = web.client.get("/v3/audit?actor=token:conventions&result=denied&page_size=1").json()["data"][0]
    assert denied["resource"] == f"{web.cluster}/topics/{TOPIC}/configs/retention.ms"


def test_wrong_keys_and_secrets_are_refused_and_audited_as_wrong_tokens(web: LiveWeb, secret: str) -> None:
    def authorization(text: bytes) -> dict[str, str]:
        return {"Authorization": f"Basic {base64.b64encode(text).decode()}"}

    for headers in (
        authorization(f"other:{secret}".encode()),
        authorization(f":{secret}".encode()),
        authorization(b"conventions:wrong"),
        authorization(b"conventions"),
        authorization(b"\xff:\xff"),
        {"Authorization": "Basic !"},
        {"Authorization": "Basic"},
    ):
        refused = web.http().get("/v3/clusters", headers=headers)
        assert (refused.status_code, refused.json()["error_code"]) == (401, 40101), headers
        event = web.client.get("/v3/audit?action=authenticate&page_size=1").json()["data"][0]
        assert (event["result"], event["error"]) == ("denied", "unknown or expired token")
    on_a_page = basic(web, "conventions", secret).get("/topics", headers={"Accept": "application/json"})
    assert on_a_page.status_code == 401, "pages know no Basic"


def test_a_refusal_names_both_forms_but_not_to_a_browser(web: LiveWeb) -> None:
    both = 'Bearer realm="conclave", Basic realm="conclave", charset="UTF-8"'
    for client in (web.http(), web.http("wrong")):
        assert "Bearer" in client.get("/v3/clusters").headers["WWW-Authenticate"]
        assert "Basic" in client.get("/kafka/v3/clusters").headers["WWW-Authenticate"]
    assert web.http().get("/v3/clusters").headers["WWW-Authenticate"] == both
    for headers in ({"Sec-Fetch-Site": "same-origin"}, {"Cookie": "conclave_session=ended"}):
        assert "Basic" not in web.http().get("/v3/clusters", headers=headers).headers["WWW-Authenticate"]


def test_a_change_with_basic_credentials_does_not_come_from_another_site(web: LiveWeb, secret: str) -> None:
    client, url = basic(web, "conventions", secret), f"{web.cluster}/topics?validate_only=true"
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        refused = client.post(url, json={"topic_name": "conventions.x"}, headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:conclave:error:csrf")
    assert client.post(url, json={"topic_name": "conventions.x"}, headers={"Origin": web.url}).status_code == 200
    bearer = web.http(ADMIN_TOKEN).post(url, json={"topic_name": "conventions.x"}, headers={"Origin": "null"})
    assert bearer.status_code == 200, "no browser sends a bearer token on its own"


# HEAD


def test_every_get_has_a_head_without_a_body(web: LiveWeb) -> None:
    add_user(web, "head", "admin")
    client = login(web, "head")
    for route in [route for router in (*api.ROUTERS, *site.ROUTERS) for route in router.routes]:
        if "GET" not in (getattr(route, "methods", None) or ()):
            continue
        path = getattr(route, "path", "").replace("{cluster_id}", web.cluster.rpartition("/")[2])
        path = path.replace("{topic_name}", TOPIC).replace("{name}", "cleanup.policy")
        answer = client.head(re.sub(r"\{\w+\}", "1", path), headers=FORM)
        assert (answer.status_code == 405 or answer.status_code >= 500, answer.content) == (False, b""), path
    assert web.client.delete("/v3/users/head").status_code == 204


def test_the_head_of_an_event_stream_ends(web: LiveWeb) -> None:
    answer = web.client.head(f"{web.cluster}/metadata/watch", headers={"Accept": "text/event-stream"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    assert web.client.get("/healthz").status_code == 200, "the connection can be used"


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_a_head_has_the_headers_of_its_get(web: LiveWeb, coding: str) -> None:
    for path in (f"/topics/{TOPIC}", f"/topics/{TOPIC}/configs", "/topics/absent"):
        answers = [
            web.client.request(method, web.cluster + path, headers={"Accept-Encoding": coding})
            for method in ("GET", "HEAD")
        ]
        got, head = ({name: each.headers.get(name) for name in ("ETag", "Content-Encoding")} for each in answers)
        assert (answers[0].status_code, got) == (answers[1].status_code, head)
        if answers[0].status_code == 200:
            assert answers[0].headers["Content-Length"] == answers[1].headers["Content-Length"]


# gzip


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("*", True),
        ("gzip;q=0.001", True),
        ("GZIP; q=0.5", True),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("identity;q=1, gzip;q=0.5", False),
        ("gzip;q=high", False),
        ("br", False),
        ("", False),
    ],
)
def test_gzip_is_accepted_by_its_quality(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


def raw(web: LiveWeb, path: str, client: httpx.Client | None = None, **headers: str) -> tuple[httpx.Response, bytes]:
    with (client or web.client).stream("GET", path, headers={"Accept-Encoding": "gzip", **headers}) as answer:
        return answer, b"".join(answer.iter_raw())


@pytest.mark.parametrize("path", [f"/topics/{TOPIC}/configs", "/brokers/-/configs"])
def test_a_large_answer_is_compressed_where_asked(web: LiveWeb, path: str) -> None:
    plain = web.client.get(web.cluster + path, headers={"Accept-Encoding": "identity"})
    answer, content = raw(web, web.cluster + path)
    assert "Content-Encoding" not in plain.headers
    assert (answer.headers["Content-Encoding"], answer.headers["Vary"]) == ("gzip", "Accept-Encoding")
    assert int(answer.headers["Content-Length"]) == len(content) < len(plain.content) / 3
    assert gzip.decompress(content) == plain.content
    assert answer.headers["X-Metadata-Offset"]


def test_what_is_small_or_could_reveal_a_secret_is_not_compressed(web: LiveWeb) -> None:
    add_user(web, "press", "viewer")
    visitor, path = login(web, "press"), f"{web.cluster}/topics/{TOPIC}/configs"
    page, _ = raw(web, "/topics", visitor, Accept="text/html")
    assert (page.status_code, "Content-Encoding" in page.headers) == (200, False)
    assert int(page.headers["Content-Length"]) > BYTES_MIN
    small, _ = raw(web, "/v3/clusters/x")
    assert "Content-Encoding" not in small.headers
    foreign, _ = raw(web, path, **{"Sec-Fetch-Site": "cross-site"})
    assert (foreign.status_code, "Content-Encoding" in foreign.headers) == (200, False)
    body = {"topic_name": "conventions.press", "configs": [{"name": "x" * 200, "value": "y" * 2_000}]}
    change = web.client.post(f"{web.cluster}/topics", json=body, headers={"Accept-Encoding": "gzip"})
    assert (change.status_code, "Content-Encoding" in change.headers) == (400, False)
    assert web.client.delete("/v3/users/press").status_code == 204


def test_a_compressed_answer_keeps_its_entity_tag(web: LiveWeb) -> None:
    path = "/static/app.css"
    plain = web.client.get(path, headers={"Accept-Encoding": "identity"})
    answer, content = raw(web, path)
    assert (gzip.decompress(content), answer.headers["ETag"]) == (plain.content, f"W/{plain.headers['ETag']}")
    for response in (plain, answer):
        assert response.headers["Vary"] == "Accept-Encoding"
        for coding in ("identity", "gzip"):
            again = {"If-None-Match": response.headers["ETag"], "Accept-Encoding": coding}
            assert web.client.get(path, headers=again).status_code == 304
    tag = web.client.get(f"{web.cluster}/topics/{TOPIC}").headers["ETag"]
    for header in (tag, f"W/{tag}", f'"x", W/{tag}', "*"):
        seen = web.client.get(f"{web.cluster}/topics/{TOPIC}", headers={"If-None-Match": header})
        assert (seen.status_code, seen.content) == (304, b"")


# lists and resources


def test_an_answer_has_the_members_that_are_asked_for(web: LiveWeb) -> None:
    topic = f"{web.cluster}/topics/{TOPIC}"
    whole = web.client.get(topic)
    some = web.client.get(f"{topic}?fields=topic_name,partitions_count")
    assert some.json() == {name: whole.json()[name] for name in ("topic_name", "partitions_count")}
    assert some.headers["X-Metadata-Offset"]
    assert web.client.get(f"{topic}?fields=kind", headers={"If-None-Match": some.headers["ETag"]}).status_code == 304
    listed = web.client.get(f"{topic}/configs?fields=name,value&page_size=2").json()
    assert [set(each) for each in listed["data"]] == [{"name", "value"}] * 2
    following = web.client.get(listed["metadata"]["next"]).json()
    assert (following["kind"], set(following["data"][0])) == ("KafkaTopicConfigList", {"name", "value"})
    assert web.client.get(f"{web.cluster}/topics/absent?fields=topic_name").json()["error_code"] == 40403


@pytest.mark.parametrize("fields", ["nothing", "topic_name,nothing", "", "topic_name,,kind", "data", "validated"])
def test_an_unknown_member_is_refused_with_those_that_exist(web: LiveWeb, fields: str) -> None:
    for path in ("", f"/{TOPIC}"):
        refused = web.client.get(f"{web.cluster}/topics{path}?fields={fields}")
        assert (refused.status_code, refused.json()["type"]) == (400, "urn:conclave:error:unknown-field")
        assert "allowed here: metadata, " in refused.json()["message"]
        assert "partitions_count" in refused.json()["message"]


def test_every_read_with_a_model_takes_fields(web: LiveWeb) -> None:
    described = web.http().get("/openapi.json").json()["paths"]
    for route in [route for router in api.ROUTERS for route in router.routes]:
        if "GET" not in route.methods or "model" not in route.responses.get(200, {}):
            continue
        assert members_of(route.responses[200]["model"])
        assert "fields" in {each["name"] for each in described[route.path]["get"]["parameters"]}, route.path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("resource_type", "ResourceType"),
        ("pattern_type", "PatternType"),
        ("operation", "Operation"),
        ("permission", "Permission"),
    ],
)
def test_an_unknown_word_of_a_filter_is_not_found_as_in_rest_v3(web: LiveWeb, name: str, kind: str) -> None:
    refused = web.client.get(f"{web.cluster}/acls?{name}=teapot")
    assert (refused.status_code, refused.json()["error_code"]) == (404, 404)
    assert refused.json()["message"] == f"The valid values for {kind} do not include 'teapot'"
    assert refused.json()["errors"][0]["pointer"] == f"?{name}"
    assert web.client.get(f"{web.cluster}/acls?{name}=any").status_code == 200


def test_a_fault_of_the_caller_is_no_internal_error(web: LiveWeb) -> None:
    body = {"topic_name": "conventions.wrong", "replicas_assignments": {"0": [1, 1]}}
    refused = web.client.post(
        f"{web.cluster}/topics", content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert (refused.status_code, refused.json()["kafka_error"]) == (400, "INVALID_REPLICA_ASSIGNMENT")
    assert refused.json()["error_code"] == 40002


def test_the_code_of_a_callers_fault_is_none_of_the_server() -> None:
    faults = {code: status_of(code, v3=True) for code in ErrorCode}
    assert [code for code, (status, error_code) in faults.items() if status < 500 <= error_code // 100] == []
    assert faults[ErrorCode.NO_REASSIGNMENT_IN_PROGRESS] == (404, 404)
    assert faults[ErrorCode.INVALID_REPLICATION_FACTOR] == (400, 40002)
    assert faults[ErrorCode.NOT_CONTROLLER] == (503, 50003)
