"""Requests that the controller answers, forwarded in an Envelope with the client's principal and address.

Source: ForwardingManager and EnvelopeUtils, Kafka 4.3.1; KIP-590.
"""

import asyncio
import struct
from ipaddress import ip_address
from typing import Final

from kraft_core.broker.apis.context import BrokerContext
from kraft_core.protocol.codec import encode
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse
from kraft_core.server.network.large_requests import LargeRequests
from kraft_core.server.network.request import Request

_PRINCIPAL_VERSION: Final = 0
_RETRY_BACKOFF_S: Final = 0.1
_SIZE: Final = struct.Struct(">i")


class ForwardingHandler:
    """Forwards requests to the active controller.

    If none answers in time, the connection is closed and the client retries.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._large = LargeRequests()

    def handle(self, request: Request) -> None:
        """Forward the request; it is answered when the controller has answered. Large ones are forwarded one by one."""
        if request.is_large:
            self._large.submit(request, lambda: self._context.spawn(self._forward_large(request)))
        else:
            self._context.spawn(self._forward(request))

    async def _forward_large(self, request: Request) -> None:
        try:
            await self._forward(request)
        finally:
            self._large.done()

    async def _forward(self, request: Request) -> None:
        envelope = EnvelopeRequest(
            request_data=request.frame,
            request_principal=_principal(request.principal),
            client_host_address=_address(request.client_host),
        )
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._context.config.request_timeout_ms / 1000
        while True:
            left_ms = int((deadline - loop.time()) * 1000)
            if left_ms <= 0:
                request.close("the controller did not answer in time")
                return
            try:
                response = await self._context.controller.request(envelope, EnvelopeResponse, left_ms)
            except KafkaError as error:
                request.close(f"the controller cannot be reached: {error}")
                return
            if response.error_code != ErrorCode.NOT_CONTROLLER:
                break
            await asyncio.sleep(_RETRY_BACKOFF_S)
        self._respond(request, response)

    @staticmethod
    def _respond(request: Request, response: EnvelopeResponse) -> None:
        if response.error_code != ErrorCode.NONE or response.response_data is None:
            request.close(f"the controller refused the envelope with error {response.error_code}")
            return
        request.respond_bytes(_SIZE.pack(len(response.response_data)) + response.response_data)


def _principal(principal: str) -> bytes:
    kind, _, name = principal.partition(":")
    body = encode(DefaultPrincipalData(type=kind, name=name), _PRINCIPAL_VERSION)
    return struct.pack(">h", _PRINCIPAL_VERSION) + body


def _address(host: str) -> bytes:
    """Return the client's address in binary form; the loopback address for a Unix socket, which has none."""
    try:
        return ip_address(host.split("%", 1)[0]).packed
    except ValueError:
        return ip_address("127.0.0.1").packed
