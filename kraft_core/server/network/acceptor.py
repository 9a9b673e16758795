"""Acceptor: accepts the connections of one listener, as many as the quotas allow.

asyncio's servers accept without limit, and spin when descriptors run out. This one pauses until there is room;
connections wait in the system's backlog meanwhile.
"""

import asyncio
import errno
import logging
import math
import socket
from collections.abc import Callable
from typing import Final

from kraft_core.server.network.connection_quotas import NO_FILES_PAUSE_S, Admission, ConnectionQuotas

log = logging.getLogger(__name__)

BACKLOG: Final = 512
SETTLE_S: Final = 0.005
"""Pause after a connection that replaced another, so that the other is closed by then."""
ACCEPTED_PER_TURN: Final = 64
"""Connections accepted in one turn of the loop, so that a flood of them does not block it."""
_NO_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_GONE: Final = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH})
"""Errors of a connection that ended before it was accepted."""


class Acceptor:
    """The listening sockets of one listener. `make_protocol` is called with the client's address."""

    def __init__(
        self,
        listener_name: str,
        quotas: ConnectionQuotas,
        make_protocol: Callable[[str], asyncio.Protocol],
    ) -> None:
        self._name = listener_name
        self._quotas = quotas
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_accepting = False
        self._is_started = False

    async def bind(self, host: str, port: int) -> int:
        """Bind every address of a host ("" for all) and return the port. Raises OSError with the address."""
        found = await self._loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                self._sockets.append(_bound(family, kind, protocol, (address[0], port, *address[2:])))
                port = self._sockets[0].getsockname()[1]
        except OSError:
            self.stop()
            raise
        return port

    def start(self) -> None:
        """Listen and start accepting."""
        self._is_started = True
        for listening in self._sockets:
            listening.listen(BACKLOG)
        self._accept_again()

    def stop(self) -> None:
        """Close the listening sockets. Connections in the middle of being accepted still reach their protocols.

        Their tasks are not cancelled: a transport cancelled after connection_made never calls connection_lost.
        """
        self._pause(math.inf)
        self._is_started = False
        for listening in self._sockets:
            listening.close()
        self._sockets = []

    def resume(self) -> None:
        """Accept again after SETTLE_S, in which more connections may end."""
        if self._is_started and not self._is_accepting:
            self._set_timer(SETTLE_S)

    def _accept_again(self) -> None:
        self._timer = None
        self._is_accepting = True
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _pause(self, seconds: float) -> None:
        """Stop accepting for so many seconds, or until `resume`."""
        if self._is_accepting:
            self._is_accepting = False
            for listening in self._sockets:
                self._loop.remove_reader(listening)
        self._set_timer(seconds)

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds < math.inf:
            self._timer = self._loop.call_later(seconds, self._accept_again)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            if not self._is_accepting:
                return
            wait_s = self._quotas.wait_s(self._name)
            if wait_s > 0:
                self._pause(wait_s)
                return
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _NO_FILES:
                    self._quotas.out_of_files(self._name)
                    self._pause(NO_FILES_PAUSE_S)
                    return
                if error.errno in _GONE:
                    continue
                raise
            self._take(accepted, str(address[0]))

    def _take(self, accepted: socket.socket, address: str) -> None:
        admission = self._quotas.admit(self._name, address, accepted.fileno())
        if admission is Admission.EXCHANGED:
            self._pause(SETTLE_S)
        elif admission is Admission.NO_FILES:
            self._pause(NO_FILES_PAUSE_S)
        if admission in (Admission.REFUSED, Admission.NO_FILES):
            accepted.close()
            return
        accepted.setblocking(False)
        task = self._loop.create_task(self._connect(accepted, address))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, accepted: socket.socket, address: str) -> None:
        protocol = self._make_protocol(address)
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, accepted)
        except OSError as error:  # the client closed it already
            log.debug("connection_not_made", extra={"listener": self._name, "cause": str(error)})
            accepted.close()
            self._quotas.release(self._name, address)


def _bound(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"cannot bind {address[0]}:{address[1]}: {error.strerror}") from None
    return listening
