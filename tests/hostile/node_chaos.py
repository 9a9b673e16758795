"""A combined node under load and topic changes, with kills, stops, pauses and full disks drawn from a seed.

`python -m tests.hostile.node_chaos --seed 7 --seconds 90` runs one and then reads everything back. Every acknowledged
record and commit must exist after every kind of restart. Topics are created, extended, deleted and created again under
the same name between metadata snapshots, also `__consumer_offsets`. A kill keeps the page cache, so this holds for
acks=1 too. One of the two log directories is a small disk if one can be mounted, which needs root.
"""

import argparse
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.node_load import Accounts, Sower, TopicOwner, settle
from tests.interop import conclave
from tests.interop.embedded.embedded_node import EmbeddedNode
from tests.interop.embedded.small_disk import NoSmallDiskError, mounted

OWNERS = 4
WORK_S_MAX = 3.0
DISK_MIB = 256
SETTINGS: dict[str, object] = {
    "broker.heartbeat.interval.ms": 300,
    "broker.session.timeout.ms": 1_500,  # a killed broker registers again after its session expires
    "metadata.log.max.record.bytes.between.snapshots": 2_000,  # topics are newer than the newest snapshot
    "log.segment.delete.delay.ms": 1_000,
    "log.cleaner.backoff.ms": 500,
    "offsets.topic.segment.bytes": 1_048_576,  # so that the cleaner compacts __consumer_offsets
    "log.retention.check.interval.ms": 1_000,
    "log.flush.offset.checkpoint.interval.ms": 2_000,
}


@dataclass
class Outcome:
    """Accounts and violations of a run."""

    accounts: Accounts
    faults: dict[str, int]
    wrong: list[str]

    def __str__(self) -> str:
        done = self.accounts
        faults = f"{sum(self.faults.values())} faults {dict(sorted(self.faults.items()))}"
        return (
            f"{done.acknowledged} records and {done.commits} commits acknowledged, {done.failed} failed, "
            f"{len(done.lives)} topics, {done.grown} grown, {faults}"
        )


class NodeTormentor:
    """Draws faults for one node and heals them. `done` counts them, `wrong` has the violations."""

    def __init__(self, node: EmbeddedNode, disk: Path, accounts: Accounts, dice: random.Random) -> None:
        self.node, self.disk, self.accounts, self.dice = node, disk, accounts, dice
        self.done: dict[str, int] = {}
        self.wrong: list[str] = []

    def torment(self, seconds: float) -> None:
        """Inject faults one by one, each kind in turn, so that a short run has them all."""
        kinds = [self.kill, self.stop, self.freeze, self.kill_while_it_starts, self.restart_twice, self.lose_snapshots]
        if self.disk.is_mount():
            kinds.append(self.fill_disk)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.dice.shuffle(kinds)
            for kind in kinds:
                self._let_work()
                if time.monotonic() > end:
                    break
                self.do(kind)

    def _let_work(self) -> None:
        """Wait a bounded time until some topics are newer than the last start."""
        known, deadline = len(self.accounts.lives), time.monotonic() + WORK_S_MAX
        wanted = self.dice.randint(1, 30)
        while len(self.accounts.lives) < known + wanted and time.monotonic() < deadline:
            time.sleep(0.05)

    def do(self, fault: Callable[[], None]) -> None:
        """Run one fault and count it."""
        self.done[fault.__name__] = self.done.get(fault.__name__, 0) + 1
        fault()

    def kill(self) -> None:
        """Send SIGKILL and start the node again."""
        self.node.kill()
        self.node.start()

    def stop(self) -> None:
        """Send SIGTERM and start the node again."""
        code = self.node.terminate()
        if code:
            self.wrong.append(f"the node ended with {code} after SIGTERM")
        self.node.start()

    def freeze(self) -> None:
        """Send SIGSTOP, and SIGCONT later."""
        assert self.node.process is not None
        self.node.process.send(signal.SIGSTOP)
        time.sleep(self.dice.uniform(0.2, 3.0))
        self.node.process.send(signal.SIGCONT)

    def kill_while_it_starts(self) -> None:
        """Send SIGKILL, and twice more before the node serves again."""
        self.node.kill()
        for _ in range(2):
            process = conclave.start("node", self.node.config)
            time.sleep(self.dice.uniform(0.2, 1.5))
            process.kill()
        self.node.start()

    def restart_twice(self) -> None:
        """Stop the node and kill it right after its start, or in the other order."""
        for fault in self.dice.sample((self.kill, self.stop), 2):
            fault()

    def lose_snapshots(self) -> None:
        """Start without the metadata snapshots except the first: the log has all records."""
        self.node.kill()
        for path in (self.node.data / "__cluster_metadata-0").glob("*.checkpoint"):
            if not path.name.startswith("0" * 20):
                path.unlink()
        self.node.start()

    def fill_disk(self) -> None:
        """Fill the disk of one log directory. Free it later and restart the node, which took it offline."""
        filler = self.disk / "filler"
        for size in (1 << 20, 1 << 12):
            with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
        time.sleep(self.dice.uniform(0.5, 2.0))
        filler.unlink()
        self.dice.choice((self.kill, self.stop))()


def run(folder: Path, seed: int, seconds: float) -> Outcome:
    """Run the faults, kill the node once more and check the accounts."""
    with contextlib.ExitStack() as stack:
        disk = folder / "disk"
        disk.mkdir(parents=True)
        try:
            stack.enter_context(mounted(disk, DISK_MIB))
        except NoSmallDiskError as error:
            print(f"no disk is filled: {error}", file=sys.stderr)
        return _run(folder, disk, seed, seconds)


def _run(folder: Path, disk: Path, seed: int, seconds: float) -> Outcome:
    node = EmbeddedNode(folder, SETTINGS | {"log.dirs": f"{folder / 'data'},{disk}"})
    accounts = Accounts()
    tormentor = NodeTormentor(node, disk, accounts, random.Random(seed))
    owners: list[TopicOwner | Sower] = [Sower(node.address, seed, accounts)]
    owners += [
        TopicOwner(node.address, f"topic-{number}", seed * 100 + number, accounts, keeps=number == 0)
        for number in range(OWNERS)
    ]
    try:
        node.start()
        for owner in owners:
            owner.start()
        tormentor.torment(seconds)
        for owner in owners:
            owner.finish()
        for owner in owners:
            owner.join()
        tormentor.do(tormentor.kill)
        wrong = settle(node.address, accounts)
        assert node.process is not None
        if "Traceback" in node.process.output:
            wrong.append(f"the node met an error: {node.process.log_file}")
    finally:
        for owner in owners:
            owner.finish()
        if node.process is not None:
            with contextlib.suppress(ProcessLookupError):
                node.process.send(signal.SIGCONT)
            node.kill()
    return Outcome(accounts, tormentor.done, [*tormentor.wrong, *wrong])


def main() -> int:
    """Run from the command line. Exit code 1 means violations; the folder is kept then."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--seeds", type=int, default=1, help="how many, from --seed on")
    arguments.add_argument("--seconds", type=float, default=90)
    chosen = arguments.parse_args()
    failed = 0
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        folder = Path(tempfile.mkdtemp(prefix=f"node-chaos-{seed}-"))
        with contextlib.redirect_stdout(None):
            outcome = run(folder, seed, chosen.seconds)
        print(f"seed {seed}: {outcome}, {len(outcome.wrong)} wrong", flush=True)
        for line in outcome.wrong[:50]:
            print("WRONG", line)
        if outcome.wrong:
            failed += 1
            command = f"python -m tests.hostile.node_chaos --seed {seed} --seconds {chosen.seconds:g}"
            print(f"replay: {command}; files: {folder}")
        else:
            shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
