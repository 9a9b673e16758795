"""Requests that arrive while the broker starts, which takes as long as the quorum has no leader."""

from typing import Final

from kraft_core.server.network.request import Request

_SLACK_REQUESTS: Final = 1_000
_SLACK_BYTES: Final = 1024 * 1024


class WaitingRequests:
    """Queues requests in order and drops those whose connection has closed.

    The queue holds at most twice what open connections have sent, plus 1,000 requests and 1 MiB. The listener bounds
    what open connections send.
    """

    def __init__(self) -> None:
        self._requests: list[Request] = []
        self._bytes = 0
        self._most_requests, self._most_bytes = _SLACK_REQUESTS, _SLACK_BYTES

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: Request) -> None:
        """Queue a request."""
        self._requests.append(request)
        self._bytes += request.size
        if len(self._requests) > self._most_requests or self._bytes > self._most_bytes:
            self._requests = self.open()
            self._bytes = sum(each.size for each in self._requests)
            self._most_requests = 2 * len(self._requests) + _SLACK_REQUESTS
            self._most_bytes = 2 * self._bytes + _SLACK_BYTES

    def open(self) -> list[Request]:
        """Return the queued requests whose connection is open."""
        return [request for request in self._requests if not request.is_abandoned]
