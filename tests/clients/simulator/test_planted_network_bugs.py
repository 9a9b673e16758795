"""Planted bugs of NetworkClient; the simulator must catch each by the invariant that it breaks."""

import pytest

from kraft_core.clients import network_client
from kraft_core.clients.client_metadata import ClientMetadata
from kraft_core.clients.network_client import NetworkClient
from kraft_core.clients.network_requests import NodeRequest
from tests.clients.simulator.planted import caught

pytestmark = pytest.mark.simulator

FAULTS = ("election", "kill_broker", "reset", "lose_answer", "cut_answer", "cut_request", "stall", "ghost", "slow")


def test_no_alarm_without_a_bug() -> None:
    assert caught("raw", 20, *FAULTS) == ""


def test_requests_of_a_dropped_connection_that_are_not_failed_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = NetworkClient._drop

    def drop(self: NetworkClient, link: network_client._Link, *rest: object, **more: object) -> None:
        link.in_flight.clear()
        original(self, link, *rest, **more)

    monkeypatch.setattr(NetworkClient, "_drop", drop)
    assert "a request is lost" in caught("raw", 20, *FAULTS)


def test_a_request_that_completes_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = NetworkClient._complete

    def complete(self: NetworkClient, request: NodeRequest, now_ms: float) -> None:
        original(self, request, now_ms)
        if request.error is not None and request in self._completed:
            self._completed.append(request)

    monkeypatch.setattr(NetworkClient, "_complete", complete)
    assert "completed twice" in caught("raw", 20, *FAULTS)


def test_more_requests_in_flight_than_allowed_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def can_send(self: NetworkClient, link: network_client._Link, now_ms: float) -> bool:
        return link.state is network_client._State.READY

    monkeypatch.setattr(NetworkClient, "_can_send", can_send)
    assert "too many requests in flight" in caught("raw", 40, *FAULTS)


def test_a_time_out_that_is_not_enforced_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NetworkClient, "_check_times", lambda _self, _link, _now_ms: None)
    assert caught("raw", 20, *FAULTS)


def test_a_deadline_that_stays_in_the_past_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NetworkClient, "_first_chance_ms", lambda _self, now_ms: now_ms)
    assert "spins" in caught("raw", 20, *FAULTS)


def test_metadata_that_is_not_asked_for_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientMetadata, "failed", lambda self, _now_ms: setattr(self, "_is_pending", True))
    assert "do not end" in caught("raw", 20, *FAULTS)
