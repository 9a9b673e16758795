"""quorum-state, meta.properties and .lock: no vote is lost, no folder confused, and one process uses a folder."""

import errno
import json
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from kraft_core.protocol.uuids import ZERO_UUID, random_uuid, uuid_to_text
from kraft_core.raft.quorum_state import ElectionState
from kraft_core.storage.files import OPERATING_SYSTEM, FileSystem, StorageError
from kraft_core.storage.folder_lock import FolderLock
from kraft_core.storage.kafka_raft_log import KafkaRaftLog
from kraft_core.storage.meta_properties import (
    MetaProperties,
    load_meta_properties,
    read_meta_properties,
    verify_meta_properties,
    write_meta_properties,
)
from kraft_core.storage.quorum_state_store import QuorumStateStore
from tests.storage.batches import batch
from tests.storage.disks import FailingFiles, RecordingFiles

CLUSTER = "AAAAAAAAQ5uaaaaaaaaaaA"


def store_of(root: Path, files: FileSystem = OPERATING_SYSTEM) -> QuorumStateStore:
    KafkaRaftLog.open(root).close()
    return QuorumStateStore(root, files)


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_a_stored_election_can_be_read_back(tmp_path: Path, kraft_version: int) -> None:
    store = store_of(tmp_path)
    directory_id = random_uuid() if kraft_version else ZERO_UUID
    for election in (ElectionState(3, 1, -1, ZERO_UUID), ElectionState(4, -1, 2, directory_id)):
        store.write(election, kraft_version)
        assert store.read() == election
    assert json.loads(store.path.read_text())["data_version"] == kraft_version
    assert [path.name for path in store.path.parent.glob("quorum-state*")] == ["quorum-state"]


def test_files_of_apaches_node_can_be_read(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.path.write_text(
        '{"leaderId":-1,"leaderEpoch":7,"votedId":3,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAw","data_version":1}'
    )
    assert store.read() == ElectionState(7, -1, 3, UUID(int=3))
    store.path.write_text(
        '{"clusterId":"","leaderId":2,"leaderEpoch":7,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    assert store.read() == ElectionState(7, 2, -1, ZERO_UUID)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "[]",
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1}',
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":2}',
        '{"leaderId":1,"leaderEpoch":"1","votedId":-1,"data_version":0}',
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":1}',
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"x","data_version":1}',
        "\xff",
    ],
)
def test_an_unreadable_state_stops_the_start_with_the_files_name(tmp_path: Path, text: str) -> None:
    store = store_of(tmp_path)
    store.path.write_bytes(text.encode("latin-1"))
    with pytest.raises(StorageError, match="quorum-state"):
        store.read()


def test_a_damaged_digit_is_detected(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.write(ElectionState(5, -1, 2, random_uuid()), 1)
    text = store.path.read_text()
    store.path.write_text(text.replace('"leaderEpoch":5', '"leaderEpoch":4'))
    with pytest.raises(StorageError, match="checksum does not match"):
        store.read()


def test_a_missing_state_is_accepted_only_while_the_log_is_empty(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    assert store.read() is None
    log = KafkaRaftLog.open(tmp_path)
    log.append(batch(0))
    log.close()
    with pytest.raises(StorageError, match="could vote twice"):
        store.read()


@pytest.mark.parametrize("steps", [0, 1, 2], ids=["write", "sync", "rename"])
def test_a_failed_write_leaves_the_old_state(tmp_path: Path, steps: int) -> None:
    files = FailingFiles()
    store = store_of(tmp_path, files)
    store.write(ElectionState(3, 1, -1, ZERO_UUID), 1)
    files.steps_left, files.error = steps, OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(StorageError, match="no space left"):
        store.write(ElectionState(4, 2, -1, ZERO_UUID), 1)
    assert QuorumStateStore(tmp_path).read() == ElectionState(3, 1, -1, ZERO_UUID)


def test_a_state_is_synced_before_it_is_renamed_and_its_directory_after(tmp_path: Path) -> None:
    files = RecordingFiles()
    store = store_of(tmp_path, files)
    store.write(ElectionState(3, 1, -1, ZERO_UUID), 1)
    assert files.calls == ["sync", "rename", "sync directory"]
    assert [path.name for path in store.path.parent.glob("quorum-state*")] == ["quorum-state"]


def test_meta_properties_read_back_and_in_apaches_form(tmp_path: Path) -> None:
    written = MetaProperties(CLUSTER, 3, random_uuid())
    write_meta_properties(tmp_path, written)
    assert read_meta_properties(tmp_path) == written
    assert written.directory_id is not None
    apaches = f"#\n#Sat Nov 21 10:36:25 UTC 2026\nnode.id=3\ndirectory.id={uuid_to_text(written.directory_id)}\n"
    (tmp_path / "meta.properties").write_text(f"{apaches}version=1\ncluster.id={CLUSTER}\n")
    assert read_meta_properties(tmp_path) == written


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("garbage", "node ID not found"),
        ("", "node ID not found"),
        ("\0ÿgarbage", "node ID not found"),
        ("version=1\nnode.id=1", "cluster.id was not found"),
        (f"version=1\ncluster.id={CLUSTER}", "Failed to find node.id"),
        (f"version=7\ncluster.id={CLUSTER}\nnode.id=1", "unexpected version"),
        (f"version=x\ncluster.id={CLUSTER}\nnode.id=1", "Invalid meta.properties version string 'x'"),
        (f"version=1\ncluster.id={CLUSTER}\nnode.id=one", "base-10"),
        (f"version=1\ncluster.id={CLUSTER}\nnode.id=1\ndirectory.id=?", "directory.id as a Uuid"),
        (f"version=1\ncluster.id={CLUSTER}\nnode.id=2", "Stored node id 2 doesn't match previous node id 1"),
        (f"version=1\ncluster.id={CLUSTER}\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ", "reserved directory ID"),
    ],
)
def test_a_wrong_meta_properties_is_refused_in_kafkas_words(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(StorageError) as caught:
        load_meta_properties([tmp_path], tmp_path, 1)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "meta.properties").read_text() == text


def test_an_unformatted_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"No readable meta\.properties files found"):
        load_meta_properties([tmp_path], tmp_path, 1)


def test_folders_of_two_clusters_or_with_the_same_id_are_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    directory_id = random_uuid()
    write_meta_properties(first, MetaProperties(CLUSTER, 1, directory_id))
    write_meta_properties(second, MetaProperties("other", 1, random_uuid()))
    with pytest.raises(StorageError, match=r"Invalid cluster\.id"):
        verify_meta_properties([first, second], 1)
    write_meta_properties(second, MetaProperties(CLUSTER, 1, directory_id))
    with pytest.raises(StorageError, match="Duplicate directory ID"):
        verify_meta_properties([first, second], 1)


def test_a_new_or_nameless_folder_gets_an_id_that_stays(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    write_meta_properties(first, MetaProperties(CLUSTER, 1, None))
    found = load_meta_properties([first, second], first, 1)
    ids = {properties.directory_id for properties in found.values()}
    assert len(ids) == 2
    assert None not in ids
    assert load_meta_properties([first, second], first, 1) == found


def test_a_second_process_is_kept_out_of_a_folder_until_the_first_ends(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from kraft_core.storage.folder_lock import FolderLock; "
        "lock = FolderLock(Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(StorageError, match=r"Failed to acquire lock on file \.lock"):
            FolderLock(tmp_path)
        other.kill()
        other.wait()
    lock = FolderLock(tmp_path)
    with pytest.raises(StorageError, match="Failed to acquire"):
        FolderLock(tmp_path)
    lock.release()
    lock.release()
    FolderLock(tmp_path).release()
