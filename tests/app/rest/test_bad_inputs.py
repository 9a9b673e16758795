"""Hostile and mistaken requests: each is refused with one defined answer, and nothing changes."""

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.pages import dashboard
from app.rest import clusters
from tests.app.live import ADMIN_TOKEN, LiveWeb

JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
def nothing_changed(web: LiveWeb):
    before = set(web.services.cluster.image.topics.by_name)
    yield
    assert set(web.services.cluster.image.topics.by_name) == before
    assert web.client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("", 400),
        (".", 400),
        ("..", 400),
        ("a/b", 400),
        ("../../etc/passwd", 400),
        ("a b", 400),
        ("a\x00b", 400),
        ("a\r\nSet-Cookie: x=1", 400),
        ("tést", 400),
        ("<img src=x onerror=alert(1)>", 400),
        ("{{7*7}}", 400),
        ("'; drop table users; --", 400),
        ("x" * 250, 400),
        ("__cluster_metadata", 400),
    ],
)
def test_a_hostile_topic_name_in_a_body_gets_kafkas_error(web: LiveWeb, name: str, status: int) -> None:
    body = json.dumps({"topic_name": name}).encode()
    answer = web.client.post(f"{web.cluster}/topics", content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    assert answer.json()["kafka_error"] in {"INVALID_TOPIC", "INVALID_REQUEST"}


@pytest.mark.parametrize(
    "name",
    [
        "%2e%2e%2f",
        "..%2f..%2fetc%2fpasswd",
        "a%00b",
        "a%0d%0ab",
        "%3Cscript%3E",
        "x" * 250,
        "__cluster_metadata",
        "a%20b",
        "%5c..",
    ],
)
def test_a_hostile_topic_name_in_a_path_gets_kafkas_error(web: LiveWeb, name: str) -> None:
    for path in (name, f"{name}/configs", f"{name}/partitions"):
        connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=60)
        connection.request("GET", f"{web.cluster}/topics/{path}", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
        answer = connection.getresponse()
        body = json.loads(answer.read())
        connection.close()
        assert answer.status == 400, body
        assert body["kafka_error"] in {"INVALID_TOPIC", "INVALID_REQUEST"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b'{"topic_name": "a", "topic_name": "b"}', 400),
        (b'{"topic_name": "a", "partitions_count": NaN}', 400),
        (b'{"topic_name": "a", "partitions_count": Infinity}', 400),
        (b'{"topic_name": "a", "partitions_count": 9223372036854775808}', 400),
        (b'{"topic_name": "a", "partitions_count": 1e999}', 400),
        (b'{"topic_name": "a", "partitions_count": 2147483648}', 400),
        (b'{"topic_name": "a", "partitions_count": 0}', 400),
        (b'{"topic_name": "a", "replication_factor": 40000}', 400),
        (b'{"topic_name": "a", "replication_factor": 2}', 400),
        (b'{"topic_name": "\xff"}', 400),
        (b"[" * 100_000 + b"]" * 100_000, 400),
        (b'{"topic_name": "a", "partitions_count": "3"}', 422),
        (b'{"topic_name": "a", "partitions_count": 1.5}', 422),
        (b'{"topic_name": "a", "partitions_count": true}', 422),
        (b'{"topic_name": 1}', 422),
        (b'{"topic_name": "\\ud800"}', 422),
        (b'{"topic_name": "a", "role": "admin"}', 422),
        (b'{"topic_name": "a", "configs": [{"name": "x", "value": 1}]}', 422),
        (b'{"topic_name": "a", "replicas_assignments": {"zero": [1]}}', 422),
        (b'{"topic_name": "a", "replicas_assignments": {"0": ["1"]}}', 422),
        (b"[]", 422),
        (b'"a"', 422),
        (b"{}", 422),
        (b"", 422),
    ],
    ids=lambda value: value[:40].decode("latin-1") if isinstance(value, bytes) else None,
)
def test_an_invalid_body_is_refused(web: LiveWeb, body: bytes, status: int) -> None:
    answer = web.client.post(f"{web.cluster}/topics", content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    problem = answer.json()
    assert problem["status"] == status
    assert problem["message"] == problem["detail"]
    assert "Traceback" not in answer.text


def test_a_body_above_one_mebibyte_is_refused_before_it_is_read(web: LiveWeb) -> None:
    large = web.client.post(f"{web.cluster}/topics", content=b" " * 1_048_577, headers=JSON)
    assert (large.status_code, large.json()["status"]) == (413, 413)

    def pieces() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 65_536

    try:
        chunked = web.client.post(f"{web.cluster}/topics", content=pieces(), headers=JSON)
    except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
        return  # the server closed the connection while the client was writing
    assert chunked.status_code == 413


def test_requests_and_answers_must_be_json(web: LiveWeb) -> None:
    path = f"{web.cluster}/topics"
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "application/xml", "multipart/form-data"):
        answer = web.client.post(path, content=b'{"topic_name":"a"}', headers={"Content-Type": media_type})
        assert answer.status_code == 415
    assert web.client.get(path, headers={"Accept": "text/csv"}).status_code == 406
    problem = web.client.get(f"{path}/absent", headers={"Accept": "application/problem+json"})
    assert problem.headers["Content-Type"] == "application/problem+json"


def test_unknown_paths_and_methods_are_404_and_405(web: LiveWeb) -> None:
    assert web.client.get("/v3/teapots").json()["error_code"] == 404
    wrong = web.client.put(f"{web.cluster}/topics", json={})
    assert wrong.status_code == 405
    assert wrong.headers["Allow"] == "GET, POST"
    assert web.client.patch(f"{web.cluster}/topics/t/configs/k", json={}).headers["Allow"] == "DELETE, GET, PUT"
    assert web.client.post(f"{web.cluster}/topics/t", json={}).headers["Allow"] == "DELETE, GET, PATCH"


@pytest.mark.parametrize(
    "query",
    [
        "page_size=0",
        "page_size=-1",
        "page_size=1001",
        "page_size=1000000000",
        "page_size=x",
        "page_token=x",
        "page_token=eyJhZnRlciI6IHt9fQ==",
        "page_token=eyJhZnRlciI6IDF9",
        "min_offset=x",
    ],
)
def test_invalid_paging_parameters_are_a_bad_request(web: LiveWeb, query: str) -> None:
    assert web.client.get(f"{web.cluster}/topics?{query}").status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/brokers/x",
        "/brokers/99",
        "/brokers/-1",
        "/brokers/99999999999999999999",
        "/topics/absent",
        "/broker-configs/absent",
    ],
)
def test_a_missing_resource_is_not_found(web: LiveWeb, path: str) -> None:
    assert web.client.get(web.cluster + path).status_code == 404
    assert web.client.get("/v3/clusters/other/topics").json()["message"] == "Cluster other cannot be found."


def test_a_host_header_of_another_site_is_refused(web: LiveWeb) -> None:
    answer = web.client.get("/v3/clusters", headers={"Host": "evil.example"})
    assert answer.status_code == 421
    assert "evil" not in answer.text


def test_errors_carry_an_id_and_no_internals(web: LiveWeb) -> None:
    answer = web.client.get("/v3/clusters/x")
    assert answer.json()["instance"] == f"/requests/{answer.headers['X-Request-Id']}"
    assert str(Path(clusters.__file__).parent) not in answer.text
    assert ".py" not in answer.text


def test_an_unexpected_error_shows_only_the_request_id(
    web: LiveWeb, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_about: object) -> dict[str, object]:
        raise RuntimeError("the secret of /etc/conclave")

    monkeypatch.setattr(clusters, "cluster_data", fail)
    monkeypatch.setattr(dashboard, "dashboard_view", fail)
    for path, accept in ((web.cluster, "application/json"), ("/", "text/html")):
        answer = web.client.get(path, headers={"Accept": accept})
        assert answer.status_code == 500
        assert answer.headers["X-Request-Id"] in answer.text
        for inside in ("secret", "/etc", "RuntimeError", "Traceback", ".py"):
            assert inside not in answer.text
    assert any("the secret of /etc/conclave" in str(record.exc_info) for record in caplog.records)


def test_a_line_break_never_reaches_a_header(web: LiveWeb) -> None:
    """Neither from an address, nor from a request header, nor through a redirect or a Location."""
    evil = "x%0d%0aX-Evil:%201"
    for path in (
        f"/topics/{evil}",
        f"/login?next=/{evil}",
        f"{web.cluster}/topics/{evil}",
        f"{web.cluster}/acls/{evil}",
    ):
        for headers in ({"Accept": "text/html"}, {}):
            answer = web.client.get(path, headers=headers)
            assert "x-evil" not in answer.headers
    target = f"{web.cluster}/topics".encode()
    body = b'{"topic_name": "line.break"}'
    raw = (
        b"POST " + target + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer " + ADMIN_TOKEN.encode() + b"\r\nIdempotency-Key: a\rX-Evil: 1\r\n"
        b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
    )
    with socket.create_connection(("127.0.0.1", web.port), timeout=60) as sent:
        sent.sendall(raw)
        answered = sent.recv(65_536)
    assert answered.startswith(b"HTTP/1.1 400")
    assert web.client.get(f"{web.cluster}/topics/line.break").status_code == 404


def test_pipelined_and_smuggled_requests_end_the_connection(web: LiveWeb) -> None:
    """Transfer-Encoding with Content-Length is request smuggling: 400, and nothing after it is read."""
    smuggled = (
        b"POST /v3/clusters HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", web.port), timeout=60) as connection:
        connection.sendall(smuggled)
        answer = connection.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'"ok"' not in answer


def test_hundreds_of_idle_connections_do_not_stop_others(web: LiveWeb) -> None:
    idle = [socket.create_connection(("127.0.0.1", web.port), timeout=60) for _ in range(300)]
    try:
        with web.http() as other:  # a separate connection
            assert other.get("/healthz").status_code == 200
    finally:
        for connection in idle:
            connection.close()
