"""The event stream of open pages, read by a program."""

import json
from collections.abc import Iterator

import httpx
import pytest

from app.pages import live
from kraft_core.protocol.uuids import random_uuid, uuid_to_text
from tests.app.live import LiveWeb


def states(response: httpx.Response) -> Iterator[dict]:
    """Return the data of the events one by one."""
    return (json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: "))


def test_the_first_event_names_the_leader(web: LiveWeb) -> None:
    with web.client.stream("GET", "/events") as response:
        first = next(states(response))
    assert (first["leader_id"], first["state"], first["notice"], first["gone"]) == (1, "live", "", None)
    assert first["leader"] == f"node 1, epoch {first['epoch']}"


def test_a_change_moves_the_stamp_and_the_passing_of_time_does_not(web: LiveWeb) -> None:
    with web.client.stream("GET", "/events") as response:
        heard = states(response)
        stamps = [next(heard)["stamp"] for _ in range(2)]
        while len(stamps) < 30 and stamps[-1] != stamps[-2]:  # what the start has begun may still change
            stamps.append(next(heard)["stamp"])
        assert stamps[-1] == stamps[-2]
        web.client.post(f"{web.cluster}/topics", json={"topic_name": "events.stamp"}).raise_for_status()
        assert any(next(heard)["stamp"] != stamps[-1] for _ in range(5))


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("broker/77", "Broker 77 was unregistered."),
        (f"voter/1/{uuid_to_text(random_uuid(None))}", "is no longer a voter."),
        (f"topic/{uuid_to_text(random_uuid(None))}/gone", "Topic gone was deleted."),
    ],
    ids=["broker", "voter", "topic"],
)
def test_a_missing_subject_is_reported_as_gone(web: LiveWeb, subject: str, words: str) -> None:
    with web.client.stream("GET", "/events", params={"subject": subject}) as response:
        assert words in next(states(response))["gone"]["text"]


def test_the_feed_is_searched_once_for_a_missing_subject(web: LiveWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    searches = []
    found = live.deletion
    monkeypatch.setattr(live, "deletion", lambda *arguments: searches.append(1) or found(*arguments))
    with web.client.stream("GET", "/events", params={"subject": "broker/78"}) as response:
        heard = states(response)
        assert all(next(heard)["gone"] for _ in range(3))
    assert len(searches) == 1


def test_an_existing_subject_is_not_gone(web: LiveWeb) -> None:
    with web.client.stream("GET", "/events", params={"subject": "broker/1"}) as response:
        assert next(states(response))["gone"] is None
