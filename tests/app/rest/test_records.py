"""The change feed: every commit once, in order, resumable by offset; 410 for offsets no longer kept."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.http import server as http_server
from tests.app.live import CombinedNode, LiveWeb, running_web


def events(response: httpx.Response) -> Iterator[tuple[int, dict]]:
    """Yield (id, data) of each change event."""
    event_id = -1
    for line in response.iter_lines():
        if line.startswith("id: "):
            event_id = int(line[4:])
        elif line.startswith("data: "):
            yield event_id, json.loads(line[6:])


def create(web: LiveWeb, name: str) -> int:
    answer = web.client.post(f"{web.cluster}/topics", json={"topic_name": name})
    assert answer.status_code == 201, answer.text
    return int(answer.headers["X-Metadata-Offset"])


def test_a_watcher_receives_a_change_when_it_is_committed(web: LiveWeb) -> None:
    with web.client.stream("GET", f"{web.cluster}/metadata/watch") as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        offset = create(web, "watch.live")
        event_id, data = next(event for event in events(response) if event[0] >= offset)
    assert event_id == offset == data["offset"]
    assert data["lines"][0] == "topic watch.live: created"
    assert data["records"][0]["type"] == "TopicRecord"


def test_a_watcher_resumes_after_its_last_event_without_gap_or_repeat(web: LiveWeb) -> None:
    first = create(web, "watch.resume.1")
    expected = [create(web, f"watch.resume.{number}") for number in (2, 3)]
    headers = {"Last-Event-ID": str(first)}
    with web.client.stream("GET", f"{web.cluster}/metadata/watch", headers=headers) as response:
        received = events(response)
        assert [next(received)[0] for _ in expected] == expected
        later = create(web, "watch.resume.4")
        assert next(received)[0] == later


def test_records_from_an_offset_continue_page_by_page(web: LiveWeb) -> None:
    offsets = [create(web, f"watch.page.{number}") for number in range(3)]
    url = f"{web.cluster}/metadata/records?from_offset={offsets[0]}&limit=1"
    found = []
    while url and len(found) < 3:
        page = web.client.get(url).json()
        found += [change["offset"] for change in page["data"]]
        url = page["metadata"]["next"]
    assert found == offsets


def test_a_bad_last_event_id_is_a_bad_request(web: LiveWeb) -> None:
    answer = web.client.get(f"{web.cluster}/metadata/watch", headers={"Last-Event-ID": "x"})
    assert answer.status_code == 400


def test_an_offset_that_is_no_longer_kept_is_gone(node: CombinedNode, tmp_path: Path) -> None:
    with running_web(tmp_path, node.bootstrap, history_records_max=100) as small:
        small.wait_ready()
        for number in range(12):
            body = {"topic_name": f"watch.gone.{tmp_path.name[-1]}.{number}", "partitions_count": 10}
            small.client.post(f"{small.cluster}/topics", json=body)
        gone = small.client.get(f"{small.cluster}/metadata/records?from_offset=0")
        assert gone.status_code == 410
        oldest = gone.json()["oldest_offset"]
        assert small.client.get(f"{small.cluster}/metadata/records?from_offset={oldest}").status_code == 200
        headers = {"Last-Event-ID": "0"}
        assert small.client.get(f"{small.cluster}/metadata/watch", headers=headers).status_code == 410


def test_an_open_watch_does_not_delay_the_shutdown(
    node: CombinedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "SHUTDOWN_SECONDS", 600)
    with contextlib.ExitStack() as stack:
        web = stack.enter_context(running_web(tmp_path, node.bootstrap))
        web.wait_ready()
        client = web.http(web.client.headers["Authorization"].removeprefix("Bearer "))
        response = stack.enter_context(client.stream("GET", f"{web.cluster}/metadata/watch"))
        lines = response.iter_lines()
        assert next(lines) == "retry: 1000"
        web._loop.call_soon_threadsafe(web._server.stop)
        with contextlib.suppress(httpx.RemoteProtocolError):
            for _ in lines:
                continue
        web._thread.join(60)
        assert not web._thread.is_alive(), "the shutdown waits for the watcher"
