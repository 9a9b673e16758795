"""Send the most expensive request of every API, version and array, and print the wait of others and the memory.

    python -m tests.hostile.explore_costs [API …]

It takes minutes. The tests send the most expensive of them.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kraft_core.broker.apis.kafka_apis import SERVED
from kraft_core.protocol.api_keys import ApiKey, apis_of, request_class
from tests.hostile.costly_requests import Attack, Bystander, array_paths, attack, strike
from tests.interop.conclave import call, create_topics, resident_mb
from tests.interop.embedded.embedded_node import EmbeddedNode, running_node

WORTH_A_LOOK_S = 0.3


def attacks(listener: str, names: set[str]) -> Iterator[Attack]:
    """Yield an attack on every array of every version that the listener serves."""
    for api_key, api in apis_of("broker" if listener == "broker" else "controller").items():
        if (listener == "broker" and api_key not in SERVED) or (names and api_key.name not in names):
            continue
        for version in sorted({api.min_version, api.max_version}):
            for path in array_paths(request_class(api_key), version):
                for manner in ("different", "same", "long"):
                    yield attack(ApiKey(api_key), version, path, manner)


async def explore(node: EmbeddedNode, names: set[str]) -> None:
    """Send them one after another."""
    assert node.process is not None
    await call(node.port, create_topics(["known"], partitions=3), 7)
    for listener, port in (("broker", node.port), ("controller", node.controller_port)):
        for each in attacks(listener, names):
            before, began_s = resident_mb(node.process), time.monotonic()
            async with Bystander(node.port) as client, Bystander(node.controller_port) as admin:
                outcome = await strike(port, each.frame)
            took_s, waited_s = time.monotonic() - began_s, max(client.longest_s, admin.longest_s)
            grown = resident_mb(node.process) - before
            mark = "!" if waited_s > WORTH_A_LOOK_S else " "
            figures = f"others {waited_s:5.2f} s, took {took_s:5.2f} s, {grown:+5.0f} MB"
            print(f"{mark} {figures}  {listener} {each} -> {outcome}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, running_node(Path(folder)) as started:
        asyncio.run(explore(started, set(sys.argv[1:])))
