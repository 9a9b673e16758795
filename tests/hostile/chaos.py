"""Three controllers under clients, kills, pauses and broken links, drawn from a seed; then the accounts are settled.

`python -m tests.hostile.chaos --seed 7 --seconds 90` runs one and prints what was done. Judged (RELIABILITY 2, live):
every acknowledged create and delete is there at the end and after a kill of all three, topic ids are unique for ever,
producer id blocks never overlap, one leader an epoch, the logs are byte-identical over the common prefix.
"""

import argparse
import asyncio
import contextlib
import itertools
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    AllocateProducerIdsRequest,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
)
from kraft_core.server.kafka_client import ControllerClient
from kraft_core.server.metadata_observer import MetadataObserver
from kraft_core.storage.format import parse_initial_controllers
from tests.hostile.faulty_links import FaultyLinks
from tests.interop import kafka
from tests.interop.conclave import Quorum, RawBroker, controller_client, create_topics, describe_quorum
from tests.interop.log_files import raw_batches

FAILURES = (ConnectionError, KafkaError, OSError)
# many small snapshots and segments, and a log that is soon shorter than its history: a lagging node needs a snapshot
SMALL_LOG = {
    "metadata.log.max.record.bytes.between.snapshots": 60_000,
    "internal.metadata.log.segment.bytes": 50_000,
    "metadata.max.retention.bytes": 150_000,
    "metadata.log.max.snapshot.interval.ms": 5_000,
}


class ProxiedQuorum(Quorum):
    """A quorum whose voters know each other by the addresses of proxies."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.proxy_ports = kafka.free_ports(self.size)
        for node_id in self.node_ids:
            text = self.config_of(node_id).read_text()
            mine = self.port_of(node_id)
            text = text.replace(
                f"advertised.listeners=CONTROLLER://127.0.0.1:{mine}",
                f"advertised.listeners=CONTROLLER://127.0.0.1:{self.proxy_ports[node_id - 1]}",
            ).replace(
                f"bootstrap.servers={self.bootstrap}",
                "bootstrap.servers=" + ",".join(f"127.0.0.1:{port}" for port in self.proxy_ports),
            )
            self.config_of(node_id).write_text(text)
        assert parse_initial_controllers(self.initial_controllers, "CONTROLLER")

    @property
    def initial_controllers(self) -> str:
        """The voter set with the proxies' ports."""
        return ",".join(
            f"{node_id}@127.0.0.1:{self.proxy_ports[node_id - 1]}:{self.directory_ids[node_id - 1]}"
            for node_id in self.node_ids
        )


@dataclass
class Accounts:
    """What was acknowledged, and what is unknown because no answer came."""

    created: dict[str, UUID] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    delete_unknown: set[str] = field(default_factory=set)
    blocks: list[tuple[int, int, float, float]] = field(default_factory=list)  # first id, length, sent, answered
    leaders: dict[int, set[int]] = field(default_factory=dict)
    failed: int = 0

    def settle(self, names: dict[str, UUID]) -> list[str]:
        """Compare with the topics there are; each difference is a line."""
        wrong = [
            f"created topic {name} is gone"
            for name in self.created
            if name not in names and name not in self.deleted and name not in self.delete_unknown
        ]
        wrong += [
            f"topic {name} has another id"
            for name, topic_id in self.created.items()
            if names.get(name, topic_id) != topic_id
        ]
        wrong += [f"deleted topic {name} is back" for name in self.deleted if name in names]
        if len(set(self.created.values())) != len(self.created):
            wrong.append("two topics got one id")
        blocks = sorted(self.blocks)
        wrong += [
            f"producer id blocks {one} and {two} overlap"
            for one, two in itertools.pairwise(blocks)
            if one[0] + one[1] > two[0]
        ]
        wrong += [
            f"block {two} was given after {one} was answered"
            for one, two in itertools.pairwise(blocks)
            if two[3] < one[2]
        ]
        return wrong + [f"epoch {epoch} had leaders {ids}" for epoch, ids in self.leaders.items() if len(ids) > 1]


async def write_topics(quorum: Quorum, accounts: Accounts, writer: int, dice: random.Random) -> None:
    """Create topics and delete some, until cancelled."""
    client = controller_client(quorum.bootstrap)
    mine: list[str] = []
    number = 0
    while True:
        await asyncio.sleep(0.01)
        try:
            if mine and dice.random() < 0.2:
                name = mine.pop(dice.randrange(len(mine)))
                accounts.delete_unknown.add(name)
                doomed = DeleteTopicsRequestDeleteTopicState(name=name)
                gone = await client.request(DeleteTopicsRequest(topics=(doomed,), timeout_ms=5_000), timeout_ms=6_000)
                if gone.responses[0].error_code == ErrorCode.NONE:
                    accounts.deleted.add(name)
                continue
            name = f"topic-{writer}-{number}"
            number += 1
            answer = await client.request(create_topics([name], partitions=2), timeout_ms=6_000)
            if answer.topics[0].error_code == ErrorCode.NONE:
                accounts.created[name] = answer.topics[0].topic_id
                mine.append(name)
            else:
                accounts.failed += 1
        except FAILURES:
            accounts.failed += 1


async def take_blocks(quorum: Quorum, accounts: Accounts, broker: RawBroker) -> None:
    """Take producer id blocks, until cancelled."""
    client = controller_client(quorum.bootstrap)
    while True:
        await asyncio.sleep(0.05)
        sent = time.monotonic()
        with contextlib.suppress(*FAILURES):
            asked = AllocateProducerIdsRequest(broker_id=broker.broker_id, broker_epoch=broker.epoch)
            got = await client.request(asked, timeout_ms=5_000)
            if got.error_code == ErrorCode.NONE:
                accounts.blocks.append((got.producer_id_start, got.producer_id_len, sent, time.monotonic()))


async def watch_leaders(quorum: Quorum, accounts: Accounts, frozen: set[int]) -> None:
    """Note every sighting of a leader, until cancelled."""
    while True:
        await asyncio.sleep(0.1)
        for node_id in quorum.node_ids:
            if node_id not in frozen and quorum.processes[node_id].alive:
                found = await describe_quorum(quorum.port_of(node_id))
                if found is not None:
                    accounts.leaders.setdefault(found.leader_epoch, set()).add(found.leader_id)


class Tormentor:
    """Draws faults and heals them. `done` names what it did."""

    def __init__(self, quorum: ProxiedQuorum, links: FaultyLinks, dice: random.Random) -> None:
        self.quorum, self.links, self.dice = quorum, links, dice
        self.frozen: set[int] = set()
        self.done: dict[str, int] = {}

    async def torment(self, seconds: float) -> None:
        """One fault after the other."""
        end = time.monotonic() + seconds
        faults = (self.kill, self.kill, self.kill_all, self.freeze, self.freeze, self.cut, self.stall, self.one_way,
                  self.delay, self.reset, self.lag)  # fmt: skip
        while time.monotonic() < end:
            fault = self.dice.choice(faults)
            self.done[fault.__name__] = self.done.get(fault.__name__, 0) + 1
            await fault()
            await asyncio.sleep(self.dice.uniform(0.3, 2.5))

    def _victim(self) -> int:
        return self.dice.choice(list(self.quorum.node_ids))

    async def _hold(self, low: float = 0.2, high: float = 4.0) -> None:
        await asyncio.sleep(self.dice.uniform(low, high))

    async def kill(self) -> None:
        """SIGKILL one; back after a while."""
        victim = self._victim()
        self.quorum.processes[victim].kill()
        await self._hold(0.0, 2.0)
        self.quorum.start(victim)

    async def kill_all(self) -> None:
        """SIGKILL all three at once."""
        for process in self.quorum.processes.values():
            process.popen.kill()
        for node_id in self.quorum.node_ids:
            self.quorum.processes[node_id].kill()
            self.quorum.start(node_id)
        await asyncio.sleep(2)

    async def freeze(self) -> None:
        """SIGSTOP one or two, SIGCONT later."""
        victims = self.dice.sample(list(self.quorum.node_ids), self.dice.choice((1, 1, 2)))
        self.frozen.update(victims)
        for victim in victims:
            self.quorum.processes[victim].send(signal.SIGSTOP)
        await self._hold()
        for victim in victims:
            self.quorum.processes[victim].send(signal.SIGCONT)
        self.frozen.clear()

    async def cut(self) -> None:
        """Nobody reaches one node."""
        self.links.cut(self._victim() - 1)
        await self._hold()
        self.links.heal()

    async def stall(self) -> None:
        """What is sent to one node waits."""
        self.links.links[self._victim() - 1].stalled = True
        await self._hold()
        self.links.heal()

    async def one_way(self) -> None:
        """Requests reach a node, its answers do not come back."""
        self.links.links[self._victim() - 1].answers_stalled = True
        await self._hold()
        self.links.heal()

    async def delay(self) -> None:
        """Every link is slow."""
        for link in self.links.links:
            link.delay_ms = self.dice.uniform(1, 150)
        await self._hold(1, 4)
        self.links.heal()

    async def reset(self) -> None:
        """Every connection between nodes breaks."""
        for index in range(self.quorum.size):
            self.links.reset(index)

    async def lag(self) -> None:
        """One node is away for so long that it needs a snapshot."""
        victim = self._victim()
        self.quorum.processes[victim].kill()
        await asyncio.sleep(6)
        self.quorum.start(victim)


async def topics_of(quorum: Quorum, timeout_s: float = 30) -> dict[str, UUID]:
    """The topics as an observer reads them from the log."""
    observer = MetadataObserver([("127.0.0.1", port) for port in quorum.ports])
    observer.start()
    client = controller_client(quorum.bootstrap)
    try:
        async with asyncio.timeout(timeout_s):
            marker = f"marker-{time.monotonic_ns()}"
            while True:
                with contextlib.suppress(*FAILURES):
                    answer = await client.request(create_topics([marker]), timeout_ms=3_000)
                    if answer.topics[0].error_code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
                        break
                await asyncio.sleep(0.1)
            while marker not in observer.image.topics.by_name:
                await asyncio.sleep(0.02)
        return dict(observer.image.topics.by_name.items())
    finally:
        client.close()
        await observer.stop()


async def until_active(client: ControllerClient, broker: RawBroker) -> None:
    """Wait until all nodes have introduced themselves and the broker is in."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(ConnectionError, AssertionError):
                return await broker.register()
            await asyncio.sleep(0.05)


@dataclass
class Outcome:
    """Accounts and findings of a run; no findings is what one hopes for."""

    accounts: Accounts
    faults: dict[str, int]
    wrong: list[str]


async def run(quorum: ProxiedQuorum, seed: int, seconds: float) -> Outcome:
    """Torment a quorum, heal it, settle the accounts, kill all, settle them again."""
    dice = random.Random(seed)
    accounts = Accounts()
    links = FaultyLinks(quorum.proxy_ports, quorum.ports)
    await links.start()
    for node_id in quorum.node_ids:
        quorum.start(node_id)
    tormentor = Tormentor(quorum, links, dice)
    client = controller_client(quorum.bootstrap)
    broker = RawBroker(101, quorum.cluster_id, client)
    await until_active(client, broker)
    tasks = [
        asyncio.create_task(broker.keep_alive(0.5)),
        asyncio.create_task(watch_leaders(quorum, accounts, tormentor.frozen)),
        asyncio.create_task(take_blocks(quorum, accounts, broker)),
        *(
            asyncio.create_task(write_topics(quorum, accounts, number, random.Random(seed + number)))
            for number in range(3)
        ),
    ]
    wrong: list[str] = []
    try:
        await tormentor.torment(seconds)
        wrong += [f"{each.get_name()} died: {each.exception()!r}" for each in tasks if each.done()]
        for task in tasks[2:]:
            task.cancel()
        healed = time.monotonic()
        wrong += accounts.settle(await topics_of(quorum))
        if time.monotonic() - healed > 10:
            wrong.append(f"healing took {time.monotonic() - healed:.1f} s")
        await tormentor.kill_all()
        wrong += [f"after a kill of all: {line}" for line in accounts.settle(await topics_of(quorum))]
        wrong += await _follow(quorum)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        client.close()
        await links.stop()
    return Outcome(accounts, tormentor.done, wrong)


async def _follow(quorum: Quorum, timeout_s: float = 10) -> list[str]:
    """Every voter reaches the end of the leader's log."""
    deadline = time.monotonic() + timeout_s
    ends: list[int] = []
    while time.monotonic() < deadline:
        found = await quorum.leader()
        partition = None if found is None else await describe_quorum(quorum.port_of(found[0]))
        if partition is not None:
            ends = [voter.log_end_offset for voter in partition.current_voters]
            if len(ends) == quorum.size and max(ends) - min(ends) <= 3:
                return []
        await asyncio.sleep(0.05)
    return [f"followers stay behind: {ends}"]


def differing_batches(quorum: Quorum) -> list[str]:
    """Where two logs hold different bytes at one offset, below the shortest log's end."""
    logs = [raw_batches(quorum.folder_of(node_id)) for node_id in quorum.node_ids]
    shortest = min(max(log) for log in logs)
    wrong = []
    for base in sorted(set().union(*logs)):
        held = [log[base] for log in logs if base in log]
        reach = [log for log in logs if min(log) <= base]
        if base <= shortest and (len(set(held)) > 1 or len(held) != len(reach)):
            wrong.append(f"batch {base} differs or is missing in a log")
    return wrong


@contextlib.contextmanager
def tormented(folder: Path, **settings: object) -> Iterator[ProxiedQuorum]:
    """A formatted quorum behind proxies, its processes killed at the end."""
    quorum = ProxiedQuorum(folder, 3, {**SMALL_LOG, **settings})
    try:
        for node_id in quorum.node_ids:
            quorum.format(node_id)
        yield quorum
    finally:
        for process in quorum.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send(signal.SIGCONT)
        quorum.stop_all()


def stop_and_compare(quorum: Quorum) -> list[str]:
    """Stop all with SIGTERM and compare the logs; an exit code other than 0 is a finding too."""
    codes = {node_id: process.stop() for node_id, process in quorum.processes.items()}
    return [f"node {node_id} ended with {code}" for node_id, code in codes.items() if code] + differing_batches(quorum)


def main() -> int:
    """Run from the command line; exit code 1 when something is wrong, and then the folder is kept."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=60)
    chosen = arguments.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    with tormented(folder) as quorum:
        outcome = asyncio.run(run(quorum, chosen.seed, chosen.seconds))
        wrong = outcome.wrong + stop_and_compare(quorum)
    accounts = outcome.accounts
    print(f"seed {chosen.seed}: {len(accounts.created)} creates, {len(accounts.deleted)} deletes acknowledged, "
          f"{accounts.failed} failed, {len(accounts.blocks)} blocks, {len(accounts.leaders)} epochs, {outcome.faults}")  # fmt: skip
    for line in wrong[:50]:
        print("WRONG", line)
    print(folder, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
