"""Replica keys, endpoints and the voter set of KIP-853.

A static quorum (kraft.version 0) identifies voters by id alone: their directory id is the zero UUID, which matches any
directory. A dynamic quorum (kraft.version 1) identifies a voter by (id, directory id).

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
    """A replica: its node id and the id of its log directory (zero: unknown)."""

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
    """A voter with its listeners and the range of kraft.version that it supports."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    min_kraft_version: int = 0
    max_kraft_version: int = 1

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the endpoint of this listener (names are case-insensitive), if there is one."""
        wanted = listener.upper()
        return next((each for each in self.endpoints if each.name.upper() == wanted), None)

    def is_voter(self, key: ReplicaKey) -> bool:
        """Return whether `key` is this voter: same id, and same directory unless this entry has none."""
        mine = self.key
        return mine.id == key.id and mine.directory_id in {ZERO_UUID, key.directory_id}


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters by node id; empty on a node that does not know the voters yet."""

    by_id: Mapping[int, VoterNode] = field(default_factory=dict)

    @classmethod
    def of(cls, voters: Iterable[VoterNode]) -> Self:
        """Create a voter set. Raises ValueError for a duplicate id."""
        by_id: dict[int, VoterNode] = {}
        for voter in voters:
            if voter.key.id in by_id:
                raise ValueError(f"Voter {voter.key.id} is listed twice.")
            by_id[voter.key.id] = voter
        return cls(dict(sorted(by_id.items())))

    @classmethod
    def from_record(cls, record: VotersRecord) -> Self:
        """Read the set from a KRaftVoters control record."""
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
        """Return the set as a KRaftVoters control record, voters ordered by id."""
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
        """The number of voters in a majority; 1 for the empty set, which no one can reach."""
        return len(self.by_id) // 2 + 1

    def is_voter(self, key: ReplicaKey) -> bool:
        """Return whether this replica is a voter."""
        voter = self.by_id.get(key.id)
        return voter is not None and voter.is_voter(key)

    def endpoint(self, node_id: int, listener: str) -> Endpoint | None:
        """Return a voter's endpoint for this listener; None when the node is not a voter or has no such listener."""
        voter = self.by_id.get(node_id)
        return None if voter is None else voter.endpoint(listener)

    def with_voter(self, voter: VoterNode) -> "VoterSet":
        """Return the set with this voter added. Raises ValueError when the id exists."""
        return VoterSet.of([*self.by_id.values(), voter])

    def without_voter(self, key: ReplicaKey) -> "VoterSet | None":
        """Return the set without this voter; None when it is not a member or is the last one."""
        if not self.is_voter(key) or len(self.by_id) == 1:
            return None
        return VoterSet({node_id: voter for node_id, voter in self.by_id.items() if node_id != key.id})

    def with_updated(self, voter: VoterNode) -> "VoterSet | None":
        """Return the set with the entry of the same key replaced; None when there is no such entry."""
        if not self.is_voter(voter.key):
            return None
        return VoterSet({**self.by_id, voter.key.id: voter})

    def has_overlapping_majority(self, other: "VoterSet") -> bool:
        """Return whether any majorities of the two sets share a voter: at most one voter differs."""
        mine = {voter.key for voter in self.by_id.values()}
        theirs = {voter.key for voter in other.by_id.values()}
        return len(mine - theirs) <= 1 and len(theirs - mine) <= 1
