"""A KafkaConsumer in a process of its own, to be killed: `python -m tests.interop.clients.member_process …`."""

import asyncio
import sys
from collections.abc import Collection
from pathlib import Path

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.kafka_consumer import KafkaConsumer
from tests.interop.kafka import Process


class _Printer:
    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        print("assigned", *sorted(each.partition for each in partitions), flush=True)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        print("revoked", *sorted(each.partition for each in partitions), flush=True)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        print("lost", *sorted(each.partition for each in partitions), flush=True)


def member_process(folder: Path, address: str, group: str, topic: str, *configs: str) -> Process:
    """Start a member that reads a topic and prints its listener's calls; `configs` are KEY=VALUE."""
    command = [sys.executable, "-m", __name__, address, group, topic, *configs]
    return Process("member", command, folder, {"PYTHONPATH": str(Path(__file__).parents[3])})


async def _main(address: str, group: str, topic: str, *configs: str) -> None:
    settings: dict[str, object] = {"bootstrap.servers": address, "group.id": group, "heartbeat.interval.ms": 200}
    settings |= dict(each.split("=", 1) for each in configs)
    async with KafkaConsumer(settings) as consumer:
        consumer.subscribe([topic], _Printer())
        while True:
            await consumer.poll(1_000)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
