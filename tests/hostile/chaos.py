"""Three controllers under clients, kills, pauses, broken links and voter changes, drawn from a seed.

`python -m tests.hostile.chaos --seed 7 --seconds 90` runs one and prints its faults (docs/invariants.md). The answers,
an observer of all commits and the three data directories are checked: no acknowledged change is lost, no committed
record changes, there is one leader and one vote per epoch, epochs and high watermarks never decrease, voters change one
at a time, a snapshot equals the replay at its offset, and the logs are byte-identical.
"""

import argparse
import asyncio
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import ErrorCode
from tests.hostile.chaos_disk import compare_directories
from tests.hostile.chaos_load import FAILURES, WRITERS, Accounts, take_blocks, write_register, write_topics
from tests.hostile.chaos_watch import CommitWatch, LeaderWatch, VoteWatch
from tests.hostile.faulty_links import FaultyLinks
from tests.hostile.tormentor import ProxiedQuorum, Tormentor, stop_together
from tests.interop.conclave import Quorum, RawBroker, controller_client, create_topics, describe_quorum
from tests.interop.kafka import PATIENCE_S

HEALED_S_MAX = 30.0
JVM_START_S = 20.0
# small segments and frequent snapshots truncate the log early, so that a lagging node needs a snapshot
SMALL_LOG = {
    "metadata.log.max.record.bytes.between.snapshots": 60_000,
    "internal.metadata.log.segment.bytes": 50_000,
    "metadata.max.retention.bytes": 150_000,
    "metadata.log.max.snapshot.interval.ms": 5_000,
}


@dataclass
class Outcome:
    """Accounts and violations of a run."""

    accounts: Accounts
    faults: dict[str, int]
    wrong: list[str]
    epochs: int
    leaderless: str
    committed: CommitWatch

    def __str__(self) -> str:
        done = self.accounts
        return (
            f"{done.acknowledged} acknowledged ({len(done.created)} creates, {len(done.deleted)} deletes, "
            f"{len(done.numbers)} configs, {len(done.blocks)} id blocks), {done.failed} failed, {self.epochs} epochs, "
            f"{len(self.committed.changes)} committed batches, longest without a leader {self.leaderless}, "
            f"{sum(self.faults.values())} faults {dict(sorted(self.faults.items()))}"
        )


async def image_of(quorum: Quorum, watch: CommitWatch, timeout_s: float = PATIENCE_S) -> MetadataImage:
    """Write a new topic, and return the observer's image once it contains it."""
    client = controller_client(quorum.bootstrap)
    marker = f"marker-{time.monotonic_ns()}"
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                with contextlib.suppress(*FAILURES):
                    answer = await client.request(create_topics([marker]), timeout_ms=3_000)
                    if answer.topics[0].error_code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
                        break
                await asyncio.sleep(0.1)
            while marker not in watch.observer.image.topics.by_name:
                await asyncio.sleep(0.02)
        return watch.observer.image
    finally:
        client.close()


async def until_active(client: ControllerClient, broker: RawBroker) -> None:
    """Wait until all nodes are registered and the broker has registered."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(ConnectionError, AssertionError):
                return await broker.register()
            await asyncio.sleep(0.05)


async def run(quorum: ProxiedQuorum, seed: int, seconds: float) -> Outcome:
    """Run the faults, heal the quorum, check the accounts, kill all nodes and check them again."""
    dice = random.Random(seed)
    links = FaultyLinks(quorum.proxy_ports, quorum.ports)
    await links.start()
    for node_id in quorum.node_ids:
        quorum.start(node_id)
    tormentor = Tormentor(quorum, links, dice)
    accounts, leaders, votes, committed = Accounts(), LeaderWatch(quorum), VoteWatch(quorum), CommitWatch(quorum)
    client = controller_client(quorum.bootstrap)
    broker = RawBroker(101, quorum.cluster_id, client)
    committed.observer.start()
    await until_active(client, broker)
    watchers = [asyncio.create_task(each) for each in (broker.keep_alive(0.5), leaders.watch(), votes.watch())]
    load = [take_blocks(quorum, accounts, broker), write_register(quorum, accounts, reads_own_writes=not quorum.apache)]
    load += [write_topics(quorum, accounts, number, random.Random(seed + number)) for number in range(WRITERS)]
    writers = [asyncio.create_task(each) for each in load]
    wrong: list[str] = []
    try:
        await tormentor.torment(seconds)
        await _stop_writers(writers)
        wrong += await _settle_healed(quorum, accounts, committed)
        await tormentor.do(tormentor.kill_all)
        image = await image_of(quorum, committed)
        wrong += [f"after a kill of all nodes: {line}" for line in accounts.settle(image)]
        wrong += await _follow(quorum)
    finally:
        for task in (*watchers, *writers):
            task.cancel()
        ended = await asyncio.gather(*watchers, *writers, return_exceptions=True)
        wrong += [f"a watcher or writer failed: {each!r}" for each in ended if isinstance(each, Exception)]
        await committed.observer.stop()
        client.close()
        await links.stop()
    wrong += [*tormentor.wrong, *accounts.wrong, *leaders.settle(), *votes.wrong, *committed.settle()]
    return Outcome(
        accounts, tormentor.done, wrong, len(leaders.leaders), _leaderless_text(leaders, tormentor), committed
    )


def _leaderless_text(leaders: LeaderWatch, tormentor: Tormentor) -> str:
    """Return the longest time without a leader, and the faults near it with their seconds from its start."""
    gap_s, since = leaders.longest_gap
    near = [f"{name} {at - since:+.1f}" for at, name in tormentor.timeline if -4 < at - since < gap_s]
    return f"{leaders.longest_unexcused_s:.1f} s with a majority up, {gap_s:.1f} s in all ({', '.join(near)})"


async def _stop_writers(writers: list[asyncio.Task[None]]) -> None:
    """Stop the load. The caller reports writers that have failed."""
    for task in writers:
        task.cancel()
    await asyncio.wait(writers)


async def _settle_healed(quorum: ProxiedQuorum, accounts: Accounts, committed: CommitWatch) -> list[str]:
    """Check liveness after the last fault, and the accounts."""
    healed = time.monotonic()
    wrong = accounts.settle(await image_of(quorum, committed))
    if time.monotonic() - healed > HEALED_S_MAX + (JVM_START_S if quorum.apache else 0):
        wrong.append(f"healing took {time.monotonic() - healed:.1f} s")
    return wrong


async def _follow(quorum: Quorum, timeout_s: float = PATIENCE_S) -> list[str]:
    """Check that every voter reaches the end of the leader's log."""
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


@contextlib.contextmanager
def tormented(folder: Path, apache: frozenset[int] = frozenset()) -> Iterator[ProxiedQuorum]:
    """Yield a formatted quorum behind proxies. Its processes are killed at the end.

    Apache's node ends when it fetches more than fits a segment, so segments have their default size when there is one.
    """
    settings = dict(SMALL_LOG)
    if apache:
        del settings["internal.metadata.log.segment.bytes"]
    quorum = ProxiedQuorum(folder, 3, settings)
    quorum.apache = apache
    try:
        for node_id in quorum.node_ids:
            quorum.format(node_id)
        yield quorum
    finally:
        for process in quorum.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send(signal.SIGCONT)
        quorum.stop_all()


def stop_and_compare(quorum: ProxiedQuorum, committed: CommitWatch) -> tuple[list[str], int]:
    """Stop all nodes with SIGTERM. Return violations, bad exits among them, and the number of snapshots compared."""
    wrong = stop_together(quorum)
    wrong += [
        f"node {node_id} met an error: {quorum.processes[node_id].log_file}"
        for node_id in quorum.node_ids
        if "Traceback" in quorum.processes[node_id].output
    ]
    found, snapshots = compare_directories(quorum, committed.changes)
    return wrong + found, snapshots


def main() -> int:
    """Run from the command line. Exit code 1 means violations; the folder is kept then."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--seeds", type=int, default=1, help="number of seeds, starting with --seed")
    arguments.add_argument("--seconds", type=float, default=90)
    arguments.add_argument("--apache", type=int, action="append", default=[], help="run this node as Apache's")
    chosen = arguments.parse_args()
    failed = 0
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        folder = Path(tempfile.mkdtemp(prefix=f"chaos-{seed}-"))
        with contextlib.redirect_stdout(None), tormented(folder, frozenset(chosen.apache)) as quorum:
            outcome = asyncio.run(run(quorum, seed, chosen.seconds))
            wrong, snapshots = stop_and_compare(quorum, outcome.committed)
        wrong = outcome.wrong + wrong
        print(f"seed {seed}: {outcome}, {snapshots} snapshots compared, {len(wrong)} wrong", flush=True)
        for line in wrong[:50]:
            print("WRONG", line)
        if wrong:
            failed += 1
            again = "".join(f" --apache {node_id}" for node_id in chosen.apache)
            command = f"python -m tests.hostile.chaos --seed {seed} --seconds {chosen.seconds:g}{again}"
            print(f"replay: {command}; files: {folder}")
        else:
            shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
