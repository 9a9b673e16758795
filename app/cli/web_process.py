"""The web process as commands use it: its REST API with an API token, as a script would."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import typer

from conclave.contexts import load_contexts

TIMEOUT_SECONDS: Final = 30
DEFAULT_URL: Final = "http://127.0.0.1:8080"


class WebError(ConnectionError):
    """The web process did not accept the request. The message is one line."""


def chosen_address(url: str | None, token: str | None, context: str | None) -> tuple[str, str]:
    """Return the address and the token of a command's options. See `WebProcess.chosen`."""
    if url is not None and context is not None:
        raise typer.BadParameter("a context has an address of its own: give one of them", param_hint="--url")
    kept = load_contexts().chosen(context) if url is None else None
    bearer = token or (kept.token if kept is not None else os.environ.get("CONCLAVE_ADMIN_TOKEN"))
    if not bearer:
        raise WebError(
            "an API token is needed: --token, CONCLAVE_ADMIN_TOKEN in the environment, or `conclave context add`"
        )
    return url or (DEFAULT_URL if kept is None else kept.url), bearer


class WebProcess:
    """A web process and a token for it. `offset` is the metadata offset that its last answer reflects."""

    def __init__(self, url: str, token: str, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Raise WebError for an address that is none."""
        self._base = url.rstrip("/")
        if not self._base.startswith(("http://", "https://")):
            raise WebError(f"{url}: it must begin with http:// or https://")
        self._bearer = token
        self._timeout_seconds = timeout_seconds
        self._cluster = ""
        self.offset: int | None = None

    @classmethod
    def chosen(
        cls, url: str | None, token: str | None, context: str | None, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> "WebProcess":
        """Return the web process of a command's options.

        Without `url` it is that of the named context, else of the current one, else DEFAULT_URL. A context's token is
        sent to its own address only; without one the token is the environment's CONCLAVE_ADMIN_TOKEN. Raises WebError,
        ContextError, and typer.BadParameter for a URL beside the name of a context.
        """
        return cls(*chosen_address(url, token, context), timeout_seconds)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Request `path` below the cluster, and return the JSON. Raises WebError."""
        if not self._cluster:
            ids = self.cluster_ids()
            if not ids:
                raise WebError(f"{self._base} has not reached its quorum yet")
            self._cluster = f"{self._base}/v3/clusters/{ids[0]}"
        return self._request(method, f"{self._cluster}{path}", body)

    def call_own(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Request `path` below `/v3`, of the web process itself, and return the JSON. Raises WebError."""
        return self._request(method, f"{self._base}/v3{path}", body)

    def pages(self, path: str, query: Mapping[str, str], size: int) -> Iterator[Any]:
        """Yield the items of a list below the cluster, page by page. Raises WebError."""
        answer = self.call("GET", f"{path}?{urlencode({**query, 'page_size': size})}")
        while True:
            yield from answer["data"]
            following = answer["metadata"]["next"]
            if following is None:
                return
            answer = self.call("GET", f"{path}?{urlsplit(following).query}")

    @property
    def cluster_id(self) -> str:
        """The id of the cluster of `call`, "" before the first."""
        return self._cluster.rpartition("/")[2]

    def cluster_ids(self) -> list[str]:
        """Return the ids of the clusters that the web process knows. Raises WebError."""
        return [each["cluster_id"] for each in self.call_own("GET", "/clusters")["data"]]

    def _request(self, method: str, url: str, body: Mapping[str, Any] | None) -> Any:
        headers = {"Authorization": f"Bearer {self._bearer}", "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310  # checked above
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_seconds) as answer:  # noqa: S310  # see above
                text, offset = answer.read(), answer.headers.get("X-Metadata-Offset")
                self.offset = None if offset is None else int(offset)
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            raise WebError(f"{method} {url}: {error.code} {_detail(error)}") from error
        except urllib.error.URLError as error:
            raise WebError(f"{method} {url}: {error.reason}") from error
        except ValueError as error:
            raise WebError(f"{method} {url}: the response is not JSON") from error


def _detail(error: urllib.error.HTTPError) -> str:
    """Return the server's reason in one line: from problem+json, else the reason phrase of the status."""
    try:
        problem = json.load(error)
        return str(problem.get("detail") or problem.get("message") or problem.get("title") or error.reason)
    except (ValueError, AttributeError):
        return str(error.reason)
