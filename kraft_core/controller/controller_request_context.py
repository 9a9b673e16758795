"""Where a request to the controller came from, and what its sender may do. Source: ControllerRequestContext."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from kraft_core.controller.access.request_access import EVERYTHING, RequestAccess
from kraft_core.protocol.deadlines import NEVER_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

ANONYMOUS: Final = "User:ANONYMOUS"
"""Principal of a connection without authentication. Source: KafkaPrincipal."""
_NO_LOG_LEVELS: Final[Mapping[str, str]] = MappingProxyType({})


class ControllerRequestContext(msgspec.Struct, frozen=True):
    """The sender of a request, its connection and its deadline.

    - `principal`: "User:name".
    - `deadline_ms`: on the node's clock; a request that has not started by then has no effect.
    - `listener_name`: the listener that received the request.
    - `forwarded`: the request came in an Envelope.
    - `access`: what the authorizer allows the sender.
    - `log_levels`: the node's log level of each logger, for a request that lists them.
    - `received_ms`: when the server received the request; None: when the controller got it.
    """

    principal: str = ANONYMOUS
    client_id: str = ""
    host: str = ""
    deadline_ms: int = NEVER_MS
    listener_name: str = ""
    forwarded: bool = False
    security_protocol: int = 0
    token_authenticated: bool = False
    access: RequestAccess = EVERYTHING
    log_levels: Mapping[str, str] = _NO_LOG_LEVELS
    received_ms: int | None = None
