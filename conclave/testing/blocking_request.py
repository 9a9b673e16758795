"""One request to a node on a connection of its own, without an event loop."""

import socket

from kraft_core.protocol.framing import decode_response, encode_request
from kraft_core.protocol.wire import Message


def ask(port: int, message: Message, version: int, timeout_s: float = 10) -> Message:
    """Send a request to a port of 127.0.0.1 and return the response.

    Raises ConnectionError if the node cannot be reached or closes the connection, TimeoutError without a response.
    """
    with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
        connection.sendall(encode_request(message, version, 1, "conclave-testing"))
        with connection.makefile("rb") as stream:
            size = stream.read(4)
            body = stream.read(int.from_bytes(size))
            if len(size) < 4 or len(body) < int.from_bytes(size):
                raise ConnectionResetError(f"127.0.0.1:{port} closed the connection before it answered")
            return decode_response(message.API_KEY, version, body)[1]
