"""Methods about quorum. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from conclave.client.calls import Call
from conclave.client.methods import Methods
from conclave.client.models.quorum import (
    BrokerFlapsData,
    BrokerFlapsDataList,
    ChangeData,
    ChangeDataList,
    DifferenceData,
    DifferenceDataList,
    EndpointBody,
    FeatureChangeData,
    FeatureChangeDataList,
    LeaderElectionData,
    LeaderElectionDataList,
    PartitionFlapsData,
    PartitionFlapsDataList,
    QuorumData,
    QuorumEpochData,
    QuorumEpochDataList,
    VoterChangeData,
)
from conclave.client.pages import Pages


class QuorumMethods(Methods):
    """Methods about quorum."""

    def get_quorum(self, *, at_offset: int | None = None, at: str | None = None) -> QuorumData:
        """Describe the quorum as its leader reports it, and which voters respond to this process.

        For a past state, what the metadata log says: the leader, its epoch and the voters that it named when elected.
        """
        return self._send(
            Call[QuorumData](
                "GET",
                "/v3/clusters/{cluster_id}/quorum",
                {200: QuorumData},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    def list_epochs(
        self, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> Pages[QuorumEpochDataList, QuorumEpochData]:
        """List the known leader epochs, newest first. They are kept longer than the log that shows them."""
        return Pages(
            self._send,
            Call[QuorumEpochDataList](
                "GET",
                "/v3/clusters/{cluster_id}/quorum/epochs",
                {200: QuorumEpochDataList},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def get_epoch(self, epoch: int, *, at_offset: int | None = None, at: str | None = None) -> QuorumEpochData:
        """Describe one leader epoch. Epochs without a leader are not known."""
        return self._send(
            Call[QuorumEpochData](
                "GET",
                "/v3/clusters/{cluster_id}/quorum/epochs/{epoch}",
                {200: QuorumEpochData},
                path={"epoch": epoch},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    def add_voter(
        self,
        *,
        voter_id: int,
        directory_id: str,
        endpoints: Sequence[EndpointBody] | UnsetType = UNSET,
        validate_only: bool = False,
    ) -> VoterChangeData:
        """Add an observer to the voters: 201 once the change is committed; 200 and no change with `validate_only`.

        This process checks the preconditions first, and is stricter than the leader. `checks` in the answer has the result
        of each, also when the change is refused.
        """
        return self._send(
            Call[VoterChangeData](
                "POST",
                "/v3/clusters/{cluster_id}/quorum/voters",
                {200: VoterChangeData, 201: VoterChangeData},
                query={"validate_only": validate_only},
                body={"voter_id": voter_id, "directory_id": directory_id, "endpoints": endpoints},
            )
        )

    def remove_voter(self, voter_id: int, directory_id: str, *, validate_only: bool = False) -> VoterChangeData | None:
        """Remove a voter: 204 once the change is committed; 200 and no change with `validate_only=true`."""
        return self._send(
            Call[VoterChangeData | None](
                "DELETE",
                "/v3/clusters/{cluster_id}/quorum/voters/{voter_id}/{directory_id}",
                {200: VoterChangeData, 204: None},
                path={"voter_id": voter_id, "directory_id": directory_id},
                query={"validate_only": validate_only},
            )
        )

    def list_changes(
        self, *, from_offset: int | None = None, limit: int | None = None
    ) -> Pages[ChangeDataList, ChangeData]:
        """List committed changes from an offset, oldest first. 410 when that offset is no longer kept.

        Without `from_offset` the list begins with the oldest change that is kept. NoOp records and transaction markers are
        left out.
        """
        return Pages(
            self._send,
            Call[ChangeDataList](
                "GET",
                "/v3/clusters/{cluster_id}/metadata/records",
                {200: ChangeDataList},
                query={"from_offset": from_offset, "limit": limit},
                waits_for_offset=True,
            ),
        )

    def compare(
        self, *, from_offset: int, to_offset: int | None = None, page_size: int | None = None
    ) -> Pages[DifferenceDataList, DifferenceData]:
        """List the resources that differ between the states at two offsets, by kind and name."""
        return Pages(
            self._send,
            Call[DifferenceDataList](
                "GET",
                "/v3/clusters/{cluster_id}/metadata/diff",
                {200: DifferenceDataList},
                query={"from_offset": from_offset, "to_offset": to_offset, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def partition_flaps(
        self,
        *,
        window: Literal["hour", "day", "all"] | None = None,
        from_offset: int | None = None,
        to_offset: int | None = None,
        by: Literal["isr", "leader"] | None = None,
        at_offset: int | None = None,
        at: str | None = None,
        page_size: int | None = None,
    ) -> Pages[PartitionFlapsDataList, PartitionFlapsData]:
        """Rank partitions by ISR or leader changes in the last hour, day, all that is kept, or between two offsets."""
        return Pages(
            self._send,
            Call[PartitionFlapsDataList](
                "GET",
                "/v3/clusters/{cluster_id}/metadata/partition-flaps",
                {200: PartitionFlapsDataList},
                query={
                    "window": window,
                    "from_offset": from_offset,
                    "to_offset": to_offset,
                    "by": by,
                    "at_offset": at_offset,
                    "at": at,
                    "page_size": page_size,
                },
                waits_for_offset=True,
            ),
        )

    def broker_flaps(
        self,
        *,
        window: Literal["hour", "day", "all"] | None = None,
        from_offset: int | None = None,
        to_offset: int | None = None,
        by: Literal["isr", "leader"] | None = None,
        at_offset: int | None = None,
        at: str | None = None,
        page_size: int | None = None,
    ) -> Pages[BrokerFlapsDataList, BrokerFlapsData]:
        """Rank brokers by how often they left and joined ISRs, or gained and lost leaders, in a window."""
        return Pages(
            self._send,
            Call[BrokerFlapsDataList](
                "GET",
                "/v3/clusters/{cluster_id}/metadata/broker-flaps",
                {200: BrokerFlapsDataList},
                query={
                    "window": window,
                    "from_offset": from_offset,
                    "to_offset": to_offset,
                    "by": by,
                    "at_offset": at_offset,
                    "at": at,
                    "page_size": page_size,
                },
                waits_for_offset=True,
            ),
        )

    def unclean_elections(
        self,
        *,
        topic_name: str | None = None,
        partition_id: int | None = None,
        at_offset: int | None = None,
        at: str | None = None,
        page_size: int | None = None,
    ) -> Pages[LeaderElectionDataList, LeaderElectionData]:
        """List the leaders that were elected outside the ISR, newest first: unclean, and from the ELR."""
        return Pages(
            self._send,
            Call[LeaderElectionDataList](
                "GET",
                "/v3/clusters/{cluster_id}/metadata/unclean-elections",
                {200: LeaderElectionDataList},
                query={
                    "topic_name": topic_name,
                    "partition_id": partition_id,
                    "at_offset": at_offset,
                    "at": at,
                    "page_size": page_size,
                },
                waits_for_offset=True,
            ),
        )

    def feature_changes(
        self, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> Pages[FeatureChangeDataList, FeatureChangeData]:
        """List the changes of finalized feature levels, newest first. kraft.version is not in the metadata."""
        return Pages(
            self._send,
            Call[FeatureChangeDataList](
                "GET",
                "/v3/clusters/{cluster_id}/metadata/feature-changes",
                {200: FeatureChangeDataList},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )
