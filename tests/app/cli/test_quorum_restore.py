"""`conclave quorum restore`: the restored metadata, and what it refuses."""

import errno
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from app.cli.main import main
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.image.metadata_loader import MetadataLoader
from kraft_core.protocol.metadata_records import (
    BeginTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    encode_record,
)
from kraft_core.protocol.metadata_version import record_version
from kraft_core.protocol.record_batch import encode_batch, read_batches
from kraft_core.protocol.uuids import random_uuid, uuid_to_text
from kraft_core.raft.internals.kraft_control_record_state_machine import KRaftControlRecordStateMachine
from kraft_core.raft.quorum_state import ElectionState
from kraft_core.raft.raft_log import OffsetAndEpoch
from kraft_core.raft.voter_set import VoterSet
from kraft_core.storage.files import FileSystem
from kraft_core.storage.kafka_raft_log import KafkaRaftLog
from kraft_core.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from kraft_core.storage.quorum_state_store import QuorumStateStore

CLUSTER = "2MOB_8HQTeaJmZsra3jtBQ"
ELR = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
KEPT, LATER = UUID(int=7_001), UUID(int=7_002)
JUMP = 1_000_000_000


Restore = Callable[..., tuple[int, str, str]]


@pytest.fixture
def restore(capsys: pytest.CaptureFixture[str]) -> Restore:
    """Run `conclave quorum restore` and return its exit code and output, standard error last."""

    def run(config: Path, *arguments: object, sources: Sequence[Path | str]) -> tuple[int, str, str]:
        named = [argument for each in sources for argument in ("--from", str(each))]
        with pytest.raises(SystemExit) as ended:
            main(["quorum", "restore", "-c", str(config), *named, *map(str, arguments)])
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, captured.out, captured.err

    return run


def base_records() -> list[MetadataRecord]:
    brokers = [
        RegisterBrokerRecord(broker_id=each, incarnation_id=UUID(int=each), broker_epoch=each, fenced=False)
        for each in (101, 102)
    ]
    return [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        RegisterControllerRecord(controller_id=9, incarnation_id=UUID(int=9)),
        *brokers,
        TopicRecord(name="kept", topic_id=KEPT),
        partition(KEPT, leader=102, isr=(102, 101), leader_epoch=4),
        ProducerIdsRecord(broker_id=101, broker_epoch=101, next_producer_id=3_000),
    ]


def partition(topic_id: UUID, *, leader: int, isr: tuple[int, ...], leader_epoch: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=(101, 102),
        directories=(UUID(int=1_101), UUID(int=1_102)),
        isr=isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=leader_epoch + 1,
    )


def copy_of(
    folder: Path, records: Sequence[MetadataRecord], *, node_id: int = 1, epoch: int = 5, cluster_id: str = CLUSTER
) -> Path:
    """A metadata directory whose log has these records, of a node that had seen one epoch more."""
    log = KafkaRaftLog.open(folder)
    if records:
        log.append(
            encode_batch(0, epoch, 1_000, [encode_record(each, record_version(type(each), 30)) for each in records])
        )
    log.close()
    QuorumStateStore(folder).write(ElectionState(leader_epoch=epoch + 1), 1)
    write_meta_properties(folder, MetaProperties(cluster_id, node_id, random_uuid()))
    return folder


def server(tmp_path: Path, **settings: object) -> Path:
    """server.properties of the restored controller."""
    values = {
        "process.roles": "controller",
        "node.id": 1,
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": tmp_path / "restored",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items() if value is not None))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def restored(tmp_path: Path) -> tuple[MetadataImage, OffsetAndEpoch, KafkaRaftLog]:
    """Return what a node would start from."""
    log = KafkaRaftLog.open(tmp_path / "restored")
    snapshot_id = log.latest_snapshot_id()
    assert snapshot_id is not None
    found = log.read_snapshot(snapshot_id, 0, 1 << 20)
    assert found is not None
    image = MetadataLoader().load_snapshot(read_batches(found[0]), snapshot_id.offset, snapshot_id.epoch)
    return image, snapshot_id, log


def test_a_dry_run_shows_the_copies_and_the_steps_and_writes_nothing(tmp_path: Path, restore: Restore) -> None:
    old = copy_of(tmp_path / "old", [*base_records(), TopicRecord(name="gone", topic_id=LATER)], node_id=3, epoch=2)
    newest = copy_of(tmp_path / "newest", base_records(), node_id=101)
    before = contents(tmp_path)
    config = server(tmp_path)
    code, shown, errors = restore(config, "--dry-run", sources=(old, newest))
    assert (code, errors) == (0, "")
    lines = shown.splitlines()
    assert f"{newest}: node 101, up to offset 7, epoch 5, the newest: restored" in lines
    assert f"{old}: node 3, up to offset 8, epoch 2" in lines
    assert f"Cluster {CLUSTER}: 1 topics, 1 partitions, brokers 101, 102" in lines
    assert "Not restored, topics of older copies: gone" in lines
    assert "What every broker must do:" in lines
    assert lines[-1] == "Dry run: nothing was written."
    told = json.loads(restore(config, "--dry-run", "--json", sources=(old, newest))[1])
    assert (told["offset"], told["epoch"], told["done"]) == (JUMP + 8, 1_000_006, False)
    assert told["lostTopics"] == ["gone"]
    assert contents(tmp_path) == {**before, "server.properties": config.read_bytes()}


@pytest.mark.parametrize("with_elr", [True, False])
def test_no_offset_epoch_or_id_that_was_seen_is_used_again(tmp_path: Path, restore: Restore, *, with_elr: bool) -> None:
    source = copy_of(tmp_path / "copy", [*base_records(), *([ELR] if with_elr else [])])
    before = contents(source)
    code, shown, errors = restore(server(tmp_path), sources=(source,))
    assert (code, errors) == (0, "")
    assert shown.splitlines()[-1] == f"Restored into {tmp_path / 'restored'}"
    assert contents(source) == before
    image, snapshot_id, log = restored(tmp_path)
    assert snapshot_id == OffsetAndEpoch(JUMP + len(base_records()) + with_elr, 1_000_006)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (snapshot_id.offset, snapshot_id.offset, 1_000_006)
    assert image.producer_ids == 1_000_000_003_000
    assert not len(image.cluster.controllers)
    assert [broker.fenced for broker in image.cluster.brokers.values()] == [True, True]
    found = image.topics.partition(KEPT, 0)
    assert found is not None
    assert (found.leader, found.leader_epoch, found.partition_epoch) == (-1, 1_000_004, 1_000_005)
    assert (found.isr, found.elr, found.last_known_elr) == (((), (101, 102), (102,)) if with_elr else ((102,), (), ()))
    election = QuorumStateStore(tmp_path / "restored").read()
    assert election == ElectionState(leader_epoch=1_000_006)
    properties = read_meta_properties(tmp_path / "restored")
    assert properties is not None
    control = KRaftControlRecordStateMachine(VoterSet())
    control.load(log)
    assert control.kraft_version == 1
    assert {voter.key.directory_id for voter in control.voters.by_id.values()} == {properties.directory_id}
    log.close()


def test_a_second_restore_uses_nothing_of_the_first(tmp_path: Path, restore: Restore) -> None:
    source = copy_of(tmp_path / "copy", base_records())
    assert restore(server(tmp_path), sources=(source,))[0] == 0
    first = tmp_path / "restored"
    second = server(tmp_path, log_dirs=tmp_path / "second")
    told = json.loads(restore(second, "--json", sources=(source, first))[1])
    assert (told["offset"], told["epoch"]) == (2 * JUMP + 7, 2_000_006)
    assert told["copies"][0]["folder"] == str(first)


def test_a_directory_that_holds_a_brokers_logs_keeps_its_id(tmp_path: Path, restore: Restore) -> None:
    source = copy_of(tmp_path / "copy", base_records())
    directory_id = random_uuid()
    (tmp_path / "restored").mkdir()
    write_meta_properties(tmp_path / "restored", MetaProperties(CLUSTER, 1, directory_id))
    told = json.loads(restore(server(tmp_path), "--json", sources=(source,))[1])
    assert told["directoryId"] == uuid_to_text(directory_id)
    assert read_meta_properties(tmp_path / "restored") == MetaProperties(CLUSTER, 1, directory_id)


def test_an_unfinished_write_and_an_open_transaction_are_left_out(tmp_path: Path, restore: Restore) -> None:
    unfinished = [BeginTransactionRecord(name="half"), TopicRecord(name="half", topic_id=LATER)]
    source = copy_of(tmp_path / "copy", [*base_records(), *unfinished])
    with (source / "__cluster_metadata-0" / f"{0:020d}.log").open("ab") as file:
        file.write(b"torn")
    told = json.loads(restore(server(tmp_path), "--json", sources=(source,))[1])
    assert (told["offset"], told["topics"]) == (JUMP + len(base_records()) + 2, 1)


def test_a_restore_that_failed_leaves_no_log_and_can_be_repeated(
    tmp_path: Path, restore: Restore, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = copy_of(tmp_path / "copy", base_records())

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(FileSystem, "chmod", full)  # of the finished snapshot
        code, _, error = restore(server(tmp_path), sources=(source,))
    assert (code, error.count("\n")) == (1, 1)
    assert "no space left on the device" in error
    assert sorted(contents(tmp_path / "restored")) == [".lock"]
    assert restore(server(tmp_path), sources=(source,))[0] == 0
    restored(tmp_path)[2].close()


def test_an_impossible_restore_is_one_line_and_writes_nothing(tmp_path: Path, restore: Restore) -> None:
    source = copy_of(tmp_path / "copy", base_records())
    foreign = copy_of(tmp_path / "foreign", base_records(), cluster_id="AAAAAAAAAAAAAAAAAAAAAQ")
    empty = copy_of(tmp_path / "empty", [])
    bare = tmp_path / "bare"
    bare.mkdir()
    damaged = copy_of(tmp_path / "damaged", base_records())
    segment = damaged / "__cluster_metadata-0" / f"{0:020d}.log"
    segment.write_bytes(segment.read_bytes()[:-3] + b"???")

    def refusal(*sources: Path | str, code: int = 1, **settings: object) -> str:
        found, shown, errors = restore(server(tmp_path, **settings), sources=sources)
        assert (found, shown) == (code, "")
        assert len(errors.splitlines()) == 1
        return errors

    assert f"{bare} has no folder __cluster_metadata-0" in refusal(bare)
    assert "belongs to cluster AAAAAAAAAAAAAAAAAAAAAQ" in refusal(source, foreign)
    assert f"{empty} holds no metadata" in refusal(empty)
    assert f"{segment} is corrupt at byte 0" in refusal(damaged)
    (source / "meta.properties").rename(tmp_path / "aside")
    assert f"{source} has no meta.properties" in refusal(source)
    (tmp_path / "aside").rename(source / "meta.properties")
    static = {"controller_quorum_voters": "1@127.0.0.1:9093", "controller_quorum_bootstrap_servers": None}
    assert "controller.quorum.voters is set" in refusal(source, **static)
    assert not (tmp_path / "restored").exists()
    copy_of(tmp_path / "restored", base_records())
    assert "exists already: nothing is overwritten" in refusal(source)
    assert "--from" in refusal(code=2)
    assert "/nowhere" in refusal("/nowhere", code=2)
