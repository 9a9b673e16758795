"""Serves the metrics for Prometheus over HTTP/1.1, for GET and HEAD of one path, if `conclave.metrics.port` is set.

Not a general web server: each connection sends one request head, within bounds of bytes and time, and is closed after
the answer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

log = logging.getLogger(__name__)

PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
HEAD_BYTES_MAX: Final = 8 * 1024
TIMEOUT_SECONDS: Final = 10.0
READERS_MAX: Final = 16

Page = Callable[[], Awaitable[bytes]]
"""Returns the current metrics; called for each request."""
Gauge = tuple[str, str, float]
"""Name, help text and value of a gauge."""


class MetricsHttpServer:
    """Listens from `start` to `stop`. For `port` 0 a free port is taken, which is `.port` after `start`."""

    def __init__(self, host: str, port: int, page: Page) -> None:
        self.host = host
        self.port = port
        self._page = page
        self._server: asyncio.Server | None = None
        self._readers: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen. Raises OSError if the address cannot be bound."""
        self._server = await asyncio.start_server(self._accept, self.host, self.port, limit=HEAD_BYTES_MAX)
        self.port = self._server.sockets[0].getsockname()[1]
        log.info("metrics_served", extra={"host": self.host, "port": self.port})

    async def stop(self) -> None:
        """Stop listening and abort open connections."""
        if self._server is not None:
            self._server.close()
            for reader in tuple(self._readers):
                reader.cancel()
            await asyncio.gather(*self._readers, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._readers) >= READERS_MAX:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._readers.add(task)
        task.add_done_callback(self._readers.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head))
                await writer.drain()
            writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.transport.abort()  # the client is too slow, its head too long, or it is gone
        except Exception:  # a failing metric must not stop the node
            log.exception("metrics_failed")
            writer.transport.abort()
        finally:
            if not writer.is_closing():  # cancelled
                writer.transport.abort()

    async def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        target, _, version = rest.rpartition(b" ")
        if not version.startswith(b"HTTP/1."):
            return _response("400 Bad Request")
        if target.partition(b"?")[0] != PATH.encode():
            return _response("404 Not Found")
        if method not in {b"GET", b"HEAD"}:
            return _response("405 Method Not Allowed", extra="Allow: GET, HEAD\r\n")
        return _response("200 OK", await self._page(), is_head=method == b"HEAD")


def _response(status: str, body: bytes = b"", *, is_head: bool = False, extra: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n"
        f"X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n{extra}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + (b"" if is_head else body)
