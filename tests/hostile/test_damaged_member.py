"""One of three controllers has damaged files: it neither leads nor votes, the others continue, and it can be repaired.

The repair follows docs/operations.md, with its commands.
"""

import asyncio
import itertools
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.uuids import uuid_from_text
from tests.hostile.damage import (
    PARTITION,
    acknowledge,
    append,
    assert_refuses,
    batches,
    cut_the_newest_snapshot,
    flip,
    flip_in_the_newest_snapshot,
    log_of,
    snapshots,
    zero_a_batch,
)
from tests.hostile.votes import ask_for_vote
from tests.interop import kafka
from tests.interop.conclave import Quorum, describe_quorum, running_quorum
from tests.interop.log_files import raw_batches
from tests.interop.mixed.mixed_claims import image_on_disk

SETTINGS = {
    "metadata_log_max_record_bytes_between_snapshots": 3_000,
    "metadata_log_max_snapshot_interval_ms": 500,
    "broker_session_timeout_ms": 600_000,  # the broker of the topics sends no heartbeats
}
NAMES = (f"acknowledged-{number}" for number in itertools.count())


class Members:
    """The quorum and every topic that it has acknowledged."""

    def __init__(self, found: Quorum) -> None:
        self.quorum = found
        self.topics: list[str] = []
        self.write(12, register=True)

    def write(self, count: int = 5, *, register: bool = False) -> None:
        """Create topics through the leader."""
        names = list(itertools.islice(NAMES, count))
        asyncio.run(acknowledge(self.quorum, names, register=register))
        self.topics += names

    def member(self, role: str) -> int:
        """Return the leader or a follower."""
        leader = self.quorum.wait_for_leader()
        return leader if role == "leader" else leader % 3 + 1

    def stopped(self, node_id: int) -> Path:
        """Stop a node cleanly. Return its folder."""
        assert self.quorum.processes[node_id].stop() == 0
        return self.quorum.folder_of(node_id)

    def leader(self) -> tuple[int, int]:
        """Return the leader and its epoch."""
        return kafka.wait_until(lambda: asyncio.run(self.quorum.leader()), kafka.PATIENCE_S, "a leader")

    def voters(self) -> set[tuple[int, UUID]]:
        """Return the voters that the leader reports."""
        found = kafka.wait_until(
            lambda: asyncio.run(describe_quorum(self.quorum.port_of(self.leader()[0]))), kafka.PATIENCE_S, "the voters"
        )
        return {(each.replica_id, each.replica_directory_id) for each in found.current_voters}

    def lag_of(self, node_id: int) -> int:
        """Return a node's lag in records, -1 while the leader does not know it."""
        found = asyncio.run(describe_quorum(self.quorum.port_of(self.quorum.wait_for_leader())))
        ends: dict[int, int] = {}
        replicas = () if found is None else (*found.observers, *found.current_voters)
        for each in replicas:  # its previous incarnation may be listed too
            ends[each.replica_id] = max(ends.get(each.replica_id, -1), each.log_end_offset)
        return max(ends.values()) - ends[node_id] if ends.get(node_id, -1) >= 0 else -1

    def wait_until_whole(self) -> None:
        """Wait until all nodes have all records."""
        for node_id in self.quorum.node_ids:
            kafka.wait_until(
                lambda node_id=node_id: self.lag_of(node_id) == 0, kafka.PATIENCE_S, f"node {node_id} is caught up"
            )

    def assert_counts_again(self, node_id: int) -> None:
        """Assert that the node is needed for a majority, commits, and has every acknowledged topic."""
        self.wait_until_whole()
        leader = self.quorum.wait_for_leader()
        spared = next(each for each in self.quorum.node_ids if each not in {leader, node_id})
        self.quorum.processes[spared].kill()
        self.write()
        self.quorum.start(spared)
        self.wait_until_whole()
        folder = self.quorum.folder_of(node_id)
        assert set(self.topics) <= set(image_on_disk(raw_batches(folder), folder).topics.by_name)

    def take_the_documented_way_back(self, node_id: int) -> None:
        """Repair the node as docs/operations.md describes for a lost disk: an empty folder, then replace the voter."""
        found = self.quorum
        config, bootstrap = found.config_of(node_id), ("--bootstrap-controller", found.bootstrap)
        old_id = found.directory_ids[node_id - 1]
        shutil.rmtree(found.folder_of(node_id) / "data")
        conclave("format", "-c", config, "-t", found.cluster_id, "--no-initial-controllers")
        found.start(node_id)
        key = ("--controller-id", node_id, "--controller-directory-id", old_id)
        conclave("quorum", "remove", *bootstrap, *key)
        kafka.wait_until(lambda: self.lag_of(node_id) == 0, kafka.PATIENCE_S, f"node {node_id} observes")
        said = conclave("quorum", "add", *bootstrap, "-c", config)
        meta = (found.folder_of(node_id) / "data" / "meta.properties").read_text()
        (new_id,) = (line.partition("=")[2] for line in meta.splitlines() if line.startswith("directory.id"))
        assert f"Added controller {node_id} with directory id {new_id}" in said
        assert new_id != old_id
        found.directory_ids[node_id - 1] = new_id
        assert self.voters() == {
            (each, uuid_from_text(id_)) for each, id_ in zip((1, 2, 3), found.directory_ids, strict=True)
        }


def conclave(*arguments: object) -> str:
    """Run the `conclave` command. Return its output."""
    done = subprocess.run(
        [sys.executable, "-m", "app.cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=2 * kafka.PATIENCE_S,
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    folder: Path = tmp_path_factory.mktemp("members")
    with running_quorum(folder, 3, **SETTINGS) as found:
        members = Members(found)
        yield members


def write_garbage(folder: Path) -> tuple[str, ...]:
    (folder / PARTITION / "quorum-state").write_bytes(b"{garbage")
    return ("quorum-state",)


def flip_in_the_last_batch(folder: Path) -> tuple[str, ...]:
    """Damage an acknowledged batch so that it looks like a torn write. Remove a snapshot that contains it."""
    position, size = batches(log_of(folder))[-1]
    base_offset = int.from_bytes(log_of(folder).read_bytes()[position : position + 8])
    for snapshot in snapshots(folder):
        if int(snapshot.stem.split("-")[0]) > base_offset:
            snapshot.unlink()
    flip(log_of(folder), position + size - 3)
    return log_of(folder).name, f"at byte {position}:", "this is damage, not an unfinished write"


@pytest.mark.parametrize(
    ("role", "damage"),
    [
        ("leader", zero_a_batch),
        ("follower", flip_in_the_last_batch),
        ("follower", write_garbage),
        ("follower", flip_in_the_newest_snapshot),
    ],
)
def test_a_damaged_member_stays_out_until_it_is_replaced(
    members: Members, role: str, damage: Callable[[Path], tuple[str, ...]]
) -> None:
    node_id = members.member(role)
    kafka.wait_until(lambda: snapshots(members.quorum.folder_of(node_id)), kafka.PATIENCE_S, "a snapshot")
    folder = members.stopped(node_id)
    named = damage(folder)
    state = (folder / PARTITION / "quorum-state").read_bytes()
    assert_refuses(members.quorum.start(node_id), "node_not_started", *named)
    assert (folder / PARTITION / "quorum-state").read_bytes() == state, "no vote, no new epoch"
    members.write()
    members.take_the_documented_way_back(node_id)
    members.assert_counts_again(node_id)


def test_a_member_with_a_truncated_newest_snapshot_uses_the_older_one(members: Members) -> None:
    node_id = members.member("follower")
    kafka.wait_until(lambda: snapshots(members.quorum.folder_of(node_id)), kafka.PATIENCE_S, "a snapshot")
    cut = cut_the_newest_snapshot(members.stopped(node_id))
    members.write()
    members.quorum.start(node_id)
    members.assert_counts_again(node_id)
    assert cut.name in members.quorum.processes[node_id].output


def test_a_torn_write_is_truncated_and_fetched_again(members: Members) -> None:
    node_id = members.member("follower")
    folder = members.quorum.folder_of(node_id)
    members.quorum.processes[node_id].kill()
    append(log_of(folder), b"\x00" * 7 + b"torn")
    members.write()
    members.quorum.start(node_id)
    members.assert_counts_again(node_id)


def test_a_member_with_another_directory_id_neither_votes_nor_leads_and_logs_it(members: Members) -> None:
    """KIP-853: a replaced disk is another voter. Two of three nodes run, but only one of them is a voter."""
    leader = members.member("leader")
    stranger, third = leader % 3 + 1, (leader + 1) % 3 + 1
    found = members.quorum
    old_id, new_id = found.directory_ids[stranger - 1], "AbCdEfGhIjKlMnOpQrStUw"
    meta = members.stopped(stranger) / "data" / "meta.properties"
    members.write()
    meta.write_text(meta.read_text().replace(old_id, new_id))
    process = found.start(stranger)
    process.wait_for_output("not_a_voter_with_this_directory")
    kafka.wait_until(lambda: members.lag_of(stranger) == 0, kafka.PATIENCE_S, "the stranger observes")
    _, epoch = members.leader()

    assert ask_for_vote(found, stranger, leader, epoch + 1) == (ErrorCode.INVALID_VOTER_KEY, False)
    found.processes[third].kill()
    found.processes[leader].kill()
    found.start(leader)
    with pytest.raises(AssertionError, match="no leader within"):
        found.wait_for_leader(3)
    assert process.alive
    assert process.stop() == 0
    meta.write_text(meta.read_text().replace(new_id, old_id))
    found.start(stranger)
    found.wait_for_leader()
    found.start(third)
    members.assert_counts_again(stranger)
