"""A listener that records its calls."""

from kraft_core.raft.batch_reader import BatchReader
from kraft_core.raft.leader_and_epoch import LeaderAndEpoch
from kraft_core.raft.snapshot.reader import SnapshotReader


class Recorder:
    """Notes every call; closes its readers at once unless `keeps_open`."""

    def __init__(self, *, keeps_open: bool = False) -> None:
        self.keeps_open = keeps_open
        self.calls: list[str] = []
        self.values: list[bytes] = []
        self.offsets: list[int] = []
        self.readers: list[BatchReader | SnapshotReader] = []
        self.leaders: list[LeaderAndEpoch] = []
        self.snapshots: list[list[bytes]] = []

    def handle_commit(self, reader: BatchReader) -> None:
        self.calls.append("commit")
        self.readers.append(reader)
        for batch in reader:
            assert not self.offsets or batch.base_offset == self.offsets[-1] + 1
            self.offsets += range(batch.base_offset, batch.last_offset + 1)
            if not batch.is_control:
                self.values += batch.values()
        if not self.keeps_open:
            reader.close()

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        self.calls.append("snapshot")
        self.readers.append(reader)
        self.snapshots.append([value for batch in reader if not batch.is_control for value in batch.values()])
        self.offsets = [reader.snapshot_id.offset - 1]
        if not self.keeps_open:
            reader.close()

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.calls.append("leader")
        self.leaders.append(leader)

    def begin_shutdown(self) -> None:
        self.calls.append("shutdown")
