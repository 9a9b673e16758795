"""ScramCredentials: SCRAM users from the committed image and, until it is loaded, from the node's log.

Controllers that log in to each other with SCRAM need credentials before there is a leader, so before any record is
known to be committed. Until the image has caught up with the log as it was at the start, users are read from that log
and from bootstrap.checkpoint. (Kafka's controllers cannot restart in this case.)

Source: ScramPublisher and CredentialProvider, Kafka 4.3.1; KIP-900.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kraft_core.image.metadata_image import MetadataImage, ScramCredential
from kraft_core.image.scram_mechanism import MIN_ITERATIONS
from kraft_core.protocol.metadata_records import (
    MetadataRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
    decode_record,
)
from kraft_core.protocol.record_batch import read_batches
from kraft_core.raft.raft_log import RaftLog

_PIECE_BYTES: Final = 1_048_576
_KEYS: Final = (bytes((1, UserScramCredentialRecord.API_KEY)), bytes((1, RemoveUserScramCredentialRecord.API_KEY)))
"""First bytes of the values of SCRAM records: frame version 1 and the API key, each a varint."""


class ScramCredentials:
    """Finds credentials by mechanism and user. `image` returns the newest committed image."""

    def __init__(self, image: Callable[[], MetadataImage], log: RaftLog, bootstrap: Iterable[MetadataRecord]) -> None:
        self._image = image
        self._log_end = log.end_offset
        self._at_start: dict[tuple[int, str], ScramCredential] | None = {}
        for record in (*bootstrap, *_scram_records(log)):
            _replay(self._at_start, record)

    def find(self, mechanism: int, name: str) -> ScramCredential | None:
        """Return a user's credential, None for an unknown user."""
        image = self._image()
        if self._at_start is not None:
            if image.offset + 1 < self._log_end or image.offset < 0:
                return self._at_start.get((mechanism, name))
            self._at_start = None
        return find_in(image, mechanism, name)


def find_in(image: MetadataImage, mechanism: int, name: str) -> ScramCredential | None:
    """Return a user's credential in an image, None for an unknown user."""
    users = image.scram.get(mechanism)
    return None if users is None else users.get(name)


class UsualIterations:
    """Returns the iterations that most users of a mechanism have; counted when the users have changed."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._counted: dict[int, tuple[object, int]] = {}

    def __call__(self, mechanism: int) -> int:
        """Return the iterations for a mechanism's number; Kafka's minimum if the mechanism has no users."""
        users = self._image().scram.get(mechanism)
        if not users:
            return MIN_ITERATIONS
        counted = self._counted.get(mechanism)
        if counted is None or counted[0] is not users:
            amounts = Counter(credential.iterations for credential in users.values())
            usual = max(amounts, key=lambda iterations: (amounts[iterations], -iterations))
            counted = self._counted[mechanism] = (users, max(MIN_ITERATIONS, usual))
        return counted[1]


def _scram_records(log: RaftLog) -> Iterator[MetadataRecord]:
    """Yield the SCRAM records of the newest snapshot and of the log after it."""
    snapshot_id = log.latest_snapshot_id()
    offset = log.start_offset
    if snapshot_id is not None and snapshot_id.offset > 0:
        offset = snapshot_id.offset
        data = bytearray()
        while (piece := log.read_snapshot(snapshot_id, len(data), _PIECE_BYTES)) is not None and piece[0]:
            data += piece[0]
        yield from _records(bytes(data))[1]
    while offset < log.end_offset:
        end, records = _records(log.read(offset, _PIECE_BYTES))
        if end <= offset:
            return
        offset = end
        yield from records


def _records(data: bytes) -> tuple[int, list[MetadataRecord]]:
    """Read batches -> (end offset, their SCRAM records)."""
    end, found = -1, []
    for batch in read_batches(data):
        end = batch.last_offset + 1
        if not batch.is_control:
            found += [decode_record(value) for value in batch.values() if bytes(value[:2]) in _KEYS]
    return end, found


def _replay(credentials: dict[tuple[int, str], ScramCredential], record: MetadataRecord) -> None:
    if isinstance(record, UserScramCredentialRecord):
        credentials[record.mechanism, record.name] = ScramCredential(
            record.salt, record.stored_key, record.server_key, record.iterations
        )
    elif isinstance(record, RemoveUserScramCredentialRecord):
        credentials.pop((record.mechanism, record.name), None)
