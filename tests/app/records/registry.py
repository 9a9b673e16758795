"""A schema registry of the tests: Confluent's API over real HTTP."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf import descriptor_pb2

LOGIN = "Basic " + base64.b64encode(b"reader:secret").decode()


class Registry(ThreadingHTTPServer):
    """Answers by path with JSON; counts requests. `answers` are by path with its query."""

    daemon_threads = True

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[str] = []
        self.login = ""
        self.status = 200
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.server_port}"

    def add(
        self, number: int, schema: object, kind: str = "AVRO", references: list[dict[str, Any]] | None = None
    ) -> None:
        """Have a schema under an id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        described = {} if kind == "AVRO" else {"schemaType": kind}
        self.answers[f"/schemas/ids/{number}"] = {**described, "schema": text, "references": references or []}

    def add_protobuf(
        self, number: int, file: descriptor_pb2.FileDescriptorProto, references: list[dict[str, Any]] | None = None
    ) -> None:
        """Have a Protobuf schema under an id, as text and serialized."""
        self.add(number, 'syntax = "proto3";', "PROTOBUF", references)
        self.answers[f"/schemas/ids/{number}?format=serialized"] = {
            "schemaType": "PROTOBUF",
            "schema": base64.b64encode(file.SerializeToString()).decode(),
            "references": references or [],
        }


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        answer = self.server.answers.get(self.path)
        status = self.server.status if answer is not None else 404
        if self.server.login and self.headers.get("Authorization") != self.server.login:
            status = 401
        body = json.dumps(answer or {"error_code": 40403, "message": "Schema not found"}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def running_registry() -> Iterator[Registry]:
    """A registry, stopped at the end."""
    registry = Registry()
    thread = threading.Thread(target=registry.serve_forever, args=[0.02], daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        registry.shutdown()
        registry.server_close()
        thread.join(30)
