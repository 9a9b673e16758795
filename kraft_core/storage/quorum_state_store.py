"""quorum-state: the durable epoch, vote and leader of a node, in one line of JSON.

Kafka's format has no checksum, so a damaged digit would change a vote: the additional field `checksum` detects it.
Static quorums (kraft.version 0) write version 0, dynamic ones version 1; both can be read. A vote is sent only after
`write` has returned. Source: FileQuorumStateStore, QuorumStateData.json, Kafka 4.3.1.
"""

import json
from pathlib import Path
from typing import Any, Final

from crc32c import crc32c

from kraft_core.protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text
from kraft_core.raft.quorum_state import ElectionState
from kraft_core.storage.files import OPERATING_SYSTEM, FileSystem, StorageError, read_file, storage_errors, write_file
from kraft_core.storage.recovery import PARTITION_DIRECTORY
from kraft_core.storage.snapshots import snapshot_id_of

FILE_NAME: Final = "quorum-state"
VERSION_MAX: Final = 1


class QuorumStateStore:
    """The file in the log's directory below `metadata_dir` (metadata.log.dir)."""

    def __init__(self, metadata_dir: Path, files: FileSystem = OPERATING_SYSTEM) -> None:
        self._files = files
        self.path = metadata_dir / PARTITION_DIRECTORY / FILE_NAME

    def read(self) -> ElectionState | None:
        """Return the stored state; None before the first election of a new log.

        Raises StorageError for an unreadable file, and when the file is missing although the log has
        records: a node that forgot its vote could vote twice in one epoch.
        """
        with storage_errors("read", self.path):
            try:
                raw = read_file(self.path, self._files)
                self._files.sync_directory(self.path.parent)  # a crash may have prevented this after the rename
            except FileNotFoundError:
                raw = None
        if raw is None:
            self._refuse_if_log_has_records()
            return None
        try:
            return _parse(json.loads(raw.decode("utf-8")))
        except (ValueError, TypeError, KeyError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise StorageError(f"Error while reading the Quorum status from the file {self.path}: {reason}") from error

    def _refuse_if_log_has_records(self) -> None:
        directory = self.path.parent
        if not self._files.is_directory(directory):
            return
        with storage_errors("list", directory):
            for name in self._files.names(directory):
                snapshot_id = snapshot_id_of(name)
                is_real_snapshot = snapshot_id is not None and snapshot_id.offset > 0
                if is_real_snapshot or (name.endswith(".log") and self._files.size_of(directory / name)):
                    raise StorageError(
                        f"{self.path} is missing although the metadata log has records ({name}); a node that forgot "
                        "its vote could vote twice. Restore the file, or empty the directory and let the node rejoin."
                    )

    def write(self, election: ElectionState, kraft_version: int) -> None:
        """Write the state durably, in the version of the quorum's kraft.version.

        Raises StorageError with the old state on disk.
        """
        state: dict[str, Any]
        if kraft_version == 0:
            state = {
                "clusterId": "",
                "leaderId": election.leader_id,
                "leaderEpoch": election.leader_epoch,
                "votedId": election.voted_id,
                "appliedOffset": 0,
                "currentVoters": [],
                "data_version": 0,
            }
        else:
            state = {
                "leaderId": election.leader_id,
                "leaderEpoch": election.leader_epoch,
                "votedId": election.voted_id,
                "votedDirectoryId": uuid_to_text(election.voted_directory_id),
                "data_version": 1,
            }
        state["checksum"] = _checksum(state)
        write_file(self.path, json.dumps(state, separators=(",", ":")).encode("ascii"), self._files)


def _checksum(state: dict[str, Any]) -> int:
    """Return the CRC-32C of the other fields. Apache's node ignores this field and does not write it."""
    fields = {name: value for name, value in state.items() if name != "checksum"}
    return crc32c(json.dumps(fields, sort_keys=True).encode())


def _parse(state: object) -> ElectionState:
    """Read the JSON object. Raises ValueError, TypeError, KeyError."""
    if not isinstance(state, dict):
        raise TypeError(f"{json.dumps(state)} is not an object")
    version = state["data_version"]
    if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= VERSION_MAX:
        raise ValueError(
            f"data_version ({version}) is not within the min (0) and max ({VERSION_MAX}) supported version"
        )
    if state.get("checksum", _checksum(state)) != _checksum(state):
        raise ValueError("the checksum does not match: the file is damaged")
    numbers = {name: state[name] for name in ("leaderId", "leaderEpoch", "votedId")}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < -1:
            raise ValueError(f"{name} is {value!r}")
    directory_id = uuid_from_text(state["votedDirectoryId"]) if version == 1 else ZERO_UUID
    return ElectionState(
        leader_epoch=numbers["leaderEpoch"],
        leader_id=numbers["leaderId"],
        voted_id=numbers["votedId"],
        voted_directory_id=directory_id,
    )
