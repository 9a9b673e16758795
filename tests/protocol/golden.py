"""Access to the golden files: see tests/golden/README.md."""

import gzip
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

GOLDEN = Path(__file__).parents[1] / "golden"
METADATA_LOG = GOLDEN / "metadata" / f"{0:020}.log"
SNAPSHOT = GOLDEN / "metadata" / f"{58:020}-{1:010}.checkpoint"
FORMAT_SNAPSHOT = GOLDEN / "metadata" / f"{0:020}-{0:010}.checkpoint"
BOOTSTRAP = GOLDEN / "metadata" / "bootstrap.checkpoint"
TOPIC_LOG = GOLDEN / "topic" / f"{0:020}.log"
MARKER_LOG = GOLDEN / "topic" / f"{120:020}.log"


class Vector(NamedTuple):
    """A message as Kafka's class wrote it."""

    name: str
    version: int
    data: bytes
    shown: dict[str, Any]


def vectors() -> list[Vector]:
    """All lines of messages.txt.gz."""
    found = []
    for line in gzip.decompress((GOLDEN / "messages.txt.gz").read_bytes()).decode().splitlines():
        name, version, data, shown = line.split(" ", 3)
        found.append(Vector(name, int(version), bytes.fromhex(data), json.loads(shown)))
    return found


def headers() -> dict[tuple[int, int], tuple[bytes, bytes, bytes]]:
    """(api key, version) -> headers of a request by "größe-1", one without a client id, a response; all number 77."""
    found = {}
    for line in gzip.decompress((GOLDEN / "headers.txt.gz").read_bytes()).decode().splitlines():
        key, version, named, nameless, answer = line.split(" ")
        found[int(key), int(version)] = (bytes.fromhex(named), bytes.fromhex(nameless), bytes.fromhex(answer))
    return found


def snake_case(name: str) -> str:
    """The class name for a name in Kafka's schemas: KRaft is one word."""
    name = name.replace("KRaft", "Kraft").replace("kRaft", "kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
