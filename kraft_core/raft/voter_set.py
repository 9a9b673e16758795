"""Who votes: replica keys, endpoints and the voter set of KIP-853.

A static quorum (kraft.version 0) knows its voters by id alone: their directory id is the zero UUID and any directory
matches. A dynamic one (kraft.version 1) knows a voter by (id, directory id).

Source: ReplicaKey, VoterSet and Endpoints of Kafka 4.3.1.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

from kraft_core.protocol.control_records import (
    VotersRecord,
    VotersRecordEndpoint,
    VotersRecordKRaftVersionFeature,
    VotersRecordVoter,
)
from kraft_core.protocol.uuids import ZERO_UUID

DEFAULT_LISTENER = "CONTROLLER"


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """One replica: its node id and the id of its log directory (zero: unknown)."""

    id: int
    directory_id: UUID = ZERO_UUID


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An advertised listener."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class VoterNode:
    """A voter with its listeners and the kraft.version range that it supports."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    min_kraft_version: int = 0
    max_kraft_version: int = 1

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the endpoint under this listener name (names are compared without case), if there is one."""
        wanted = listener.upper()
        return next((each for each in self.endpoints if each.name.upper() == wanted), None)

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether `key` is this voter: same id, and same directory unless this entry has none."""
        mine = self.key
        return mine.id == key.id and mine.directory_id in {ZERO_UUID, key.directory_id}


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters by node id; an empty set is that of a node which has not heard of any yet."""

    by_id: Mapping[int, VoterNode] = field(default_factory=dict)

    @classmethod
    def of(cls, voters: Iterable[VoterNode]) -> Self:
        """Build the set; raises ValueError when an id comes twice."""
        by_id: dict[int, VoterNode] = {}
        for voter in voters:
            if voter.key.id in by_id:
                raise ValueError(f"Voter {voter.key.id} is named twice.")
            by_id[voter.key.id] = voter
        return cls(dict(sorted(by_id.items())))

    @classmethod
    def from_record(cls, record: VotersRecord) -> Self:
        """Read the set out of a KRaftVoters control record."""
        return cls.of(
            VoterNode(
                ReplicaKey(voter.voter_id, voter.voter_directory_id),
                tuple(Endpoint(each.name, each.host, each.port) for each in voter.endpoints),
                voter.kraft_version_feature.min_supported_version,
                voter.kraft_version_feature.max_supported_version,
            )
            for voter in record.voters
        )

    def to_record(self) -> VotersRecord:
        """Write the set as a KRaftVoters control record, voters by id."""
        return VotersRecord(
            voters=tuple(
                VotersRecordVoter(
                    voter_id=voter.key.id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=tuple(
                        VotersRecordEndpoint(name=each.name, host=each.host, port=each.port) for each in voter.endpoints
                    ),
                    kraft_version_feature=VotersRecordKRaftVersionFeature(
                        min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
                    ),
                )
                for voter in self.by_id.values()
            )
        )

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def majority(self) -> int:
        """How many voters make a majority; 1 for the empty set, which nobody can reach."""
        return len(self.by_id) // 2 + 1

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether this replica votes."""
        voter = self.by_id.get(key.id)
        return voter is not None and voter.is_voter(key)

    def endpoint(self, node_id: int, listener: str) -> Endpoint | None:
        """Return where voter `node_id` listens under this name; None when it is no voter or has no such listener."""
        voter = self.by_id.get(node_id)
        return None if voter is None else voter.endpoint(listener)

    def with_voter(self, voter: VoterNode) -> "VoterSet":
        """Return the set with this voter added. Raises ValueError when the id is there already."""
        return VoterSet.of([*self.by_id.values(), voter])

    def without_voter(self, key: ReplicaKey) -> "VoterSet | None":
        """Return the set without this voter; None when it is not in it or is the last one."""
        if not self.is_voter(key) or len(self.by_id) == 1:
            return None
        return VoterSet({node_id: voter for node_id, voter in self.by_id.items() if node_id != key.id})

    def with_updated(self, voter: VoterNode) -> "VoterSet | None":
        """Return the set with the entry of the same key replaced; None when there is none."""
        if not self.is_voter(voter.key):
            return None
        return VoterSet({**self.by_id, voter.key.id: voter})

    def has_overlapping_majority(self, other: "VoterSet") -> bool:
        """Whether every majority of one shares a voter with every majority of the other: at most one differs."""
        mine = {voter.key for voter in self.by_id.values()}
        theirs = {voter.key for voter in other.by_id.values()}
        return len(mine - theirs) <= 1 and len(theirs - mine) <= 1
