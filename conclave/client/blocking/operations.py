"""Methods about operations. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from conclave.client.calls import Call
from conclave.client.methods import Methods
from conclave.client.models.operations import (
    DrainBody,
    ElectionData,
    ElectionOutcomeDataList,
    ElectionPartitionData,
    ElectionPartitionDataList,
    FeatureData,
    FeatureDataList,
    FeatureEntry,
    PartitionEntry,
    PartitionOutcomeDataList,
    PlanData,
    PlanDataList,
    PlanEventData,
    PlanEventDataList,
    PlanOptionsBody,
    PlanPartitionData,
    PlanPartitionDataList,
    ReassignmentEntry,
)
from conclave.client.models.shared import DryRunData
from conclave.client.pages import Pages


class OperationsMethods(Methods):
    """Methods about operations."""

    def unregister_broker(
        self, broker_id: int, *, force: bool | None = None, validate_only: bool = False
    ) -> DryRunData | None:
        """Remove the registration of a broker that is gone for good. A running broker registers again when it restarts.

        A broker that is live or holds replicas is refused unless `force` is given, in the query or in the body.
        """
        return self._send(
            Call[DryRunData | None](
                "POST",
                "/v3/clusters/{cluster_id}/brokers/{broker_id}:unregister",
                {200: DryRunData, 202: None},
                path={"broker_id": broker_id},
                query={"force": force, "validate_only": validate_only},
            )
        )

    def reassign(
        self,
        *,
        data: Sequence[ReassignmentEntry],
        allow_replication_factor_change: bool | UnsetType = UNSET,
        validate_only: bool = False,
    ) -> PartitionOutcomeDataList:
        """Reassign partitions to other replicas. With `validate_only` the controller's rules check the plan."""
        return self._send(
            Call[PartitionOutcomeDataList](
                "POST",
                "/v3/clusters/{cluster_id}/reassignments",
                {200: PartitionOutcomeDataList, 207: PartitionOutcomeDataList},
                query={"validate_only": validate_only},
                body={"data": data, "allow_replication_factor_change": allow_replication_factor_change},
            )
        )

    def cancel_reassignments(
        self, *, data: Sequence[PartitionEntry], validate_only: bool = False
    ) -> PartitionOutcomeDataList:
        """Cancel reassignments in progress: the partitions return to their original replicas."""
        return self._send(
            Call[PartitionOutcomeDataList](
                "POST",
                "/v3/clusters/{cluster_id}/reassignments:cancel",
                {200: PartitionOutcomeDataList, 207: PartitionOutcomeDataList},
                query={"validate_only": validate_only},
                body={"data": data},
            )
        )

    def elect_leader(
        self,
        topic_name: str,
        partition_id: str,
        *,
        election_type: Literal["PREFERRED", "UNCLEAN"] | UnsetType = UNSET,
        validate_only: bool = False,
    ) -> PartitionOutcomeDataList | ElectionData:
        """Elect leaders. With `-`, only partitions that need an election take part. UNCLEAN may lose records.

        With `validate_only` the answer lists the partitions that would take part.
        """
        return self._send(
            Call[PartitionOutcomeDataList | ElectionData](
                "POST",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}:elect-leader",
                {200: PartitionOutcomeDataList, 202: ElectionData, 207: PartitionOutcomeDataList},
                path={"topic_name": topic_name, "partition_id": partition_id},
                query={"validate_only": validate_only},
                body={"election_type": election_type},
            )
        )

    def elect_leaders(
        self,
        *,
        election_type: Literal["PREFERRED", "UNCLEAN"] | UnsetType = UNSET,
        topic_names: Sequence[str] | UnsetType = UNSET,
        partitions: Sequence[PartitionEntry] | UnsetType = UNSET,
        validate_only: bool = False,
    ) -> ElectionOutcomeDataList | ElectionData:
        """Elect leaders of the cluster, of some topics or of chosen partitions. UNCLEAN may lose records.

        Partitions are elected 1,000 at a time, so that other requests have their turn.
        """
        return self._send(
            Call[ElectionOutcomeDataList | ElectionData](
                "POST",
                "/v3/clusters/{cluster_id}/leaders:elect",
                {200: ElectionOutcomeDataList, 202: ElectionData, 207: ElectionOutcomeDataList},
                query={"validate_only": validate_only},
                body={"election_type": election_type, "topic_names": topic_names, "partitions": partitions},
            )
        )

    def get_election(self, election_id: str) -> ElectionData:
        """Describe an election of more than 1,000 partitions. The last five are kept."""
        return self._send(
            Call[ElectionData](
                "GET",
                "/v3/clusters/{cluster_id}/elections/{election_id}",
                {200: ElectionData},
                path={"election_id": election_id},
                waits_for_offset=True,
            )
        )

    def list_election_partitions(
        self, election_id: str, *, page_size: int | None = None, at_offset: int | None = None, at: str | None = None
    ) -> Pages[ElectionPartitionDataList, ElectionPartitionData]:
        """List the result of each partition of an election, by topic and partition."""
        return Pages(
            self._send,
            Call[ElectionPartitionDataList](
                "GET",
                "/v3/clusters/{cluster_id}/elections/{election_id}/partitions",
                {200: ElectionPartitionDataList},
                path={"election_id": election_id},
                query={"page_size": page_size, "at_offset": at_offset, "at": at},
                waits_for_offset=True,
            ),
        )

    def list_plans(self, *, page_size: int | None = None) -> Pages[PlanDataList, PlanData]:
        """List the plans, newest first, at most 1,000."""
        return Pages(
            self._send,
            Call[PlanDataList](
                "GET",
                "/v3/clusters/{cluster_id}/plans",
                {200: PlanDataList},
                query={"page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def create_plan(
        self,
        *,
        reassignment: Mapping[str, object] | UnsetType | None = UNSET,
        options: PlanOptionsBody | UnsetType | None = UNSET,
        drain: DrainBody | UnsetType | None = UNSET,
        report_id: int | UnsetType | None = UNSET,
        rollback_of: int | UnsetType | None = UNSET,
        throttle_bytes_per_second: int | UnsetType | None = UNSET,
        moves_per_broker: int | UnsetType = UNSET,
        pause_on_under_min_isr: bool | UnsetType = UNSET,
        stuck_minutes: int | UnsetType = UNSET,
        validate_only: bool = False,
    ) -> PlanData:
        """Create a plan as a draft. Nothing moves until it has been approved and started."""
        return self._send(
            Call[PlanData](
                "POST",
                "/v3/clusters/{cluster_id}/plans",
                {200: PlanData, 201: PlanData},
                query={"validate_only": validate_only},
                body={
                    "reassignment": reassignment,
                    "options": options,
                    "drain": drain,
                    "report_id": report_id,
                    "rollback_of": rollback_of,
                    "throttle_bytes_per_second": throttle_bytes_per_second,
                    "moves_per_broker": moves_per_broker,
                    "pause_on_under_min_isr": pause_on_under_min_isr,
                    "stuck_minutes": stuck_minutes,
                },
            )
        )

    def get_plan(self, plan_id: int) -> PlanData:
        """Describe one plan with its progress."""
        return self._send(
            Call[PlanData](
                "GET",
                "/v3/clusters/{cluster_id}/plans/{plan_id}",
                {200: PlanData},
                path={"plan_id": plan_id},
                waits_for_offset=True,
            )
        )

    def change_plan(
        self,
        plan_id: int,
        *,
        throttle_bytes_per_second: int | UnsetType | None = UNSET,
        moves_per_broker: int | UnsetType | None = UNSET,
        pause_on_under_min_isr: bool | UnsetType | None = UNSET,
        stuck_minutes: int | UnsetType | None = UNSET,
        validate_only: bool = False,
    ) -> PlanData:
        """Change throttle and concurrency, also while the plan runs. Members that are left out stay."""
        return self._send(
            Call[PlanData](
                "PATCH",
                "/v3/clusters/{cluster_id}/plans/{plan_id}",
                {200: PlanData},
                path={"plan_id": plan_id},
                query={"validate_only": validate_only},
                body={
                    "throttle_bytes_per_second": throttle_bytes_per_second,
                    "moves_per_broker": moves_per_broker,
                    "pause_on_under_min_isr": pause_on_under_min_isr,
                    "stuck_minutes": stuck_minutes,
                },
            )
        )

    def list_plan_partitions(
        self,
        plan_id: int,
        *,
        state: Literal[
            "pending", "beginning", "moving", "undoing", "moved", "unchanged", "stale", "failed", "undone", "skipped"
        ]
        | None = None,
        page_size: int | None = None,
    ) -> Pages[PlanPartitionDataList, PlanPartitionData]:
        """List the partitions of a plan in its order."""
        return Pages(
            self._send,
            Call[PlanPartitionDataList](
                "GET",
                "/v3/clusters/{cluster_id}/plans/{plan_id}/partitions",
                {200: PlanPartitionDataList},
                path={"plan_id": plan_id},
                query={"state": state, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def list_plan_events(
        self, plan_id: int, *, page_size: int | None = None
    ) -> Pages[PlanEventDataList, PlanEventData]:
        """List what happened to a plan, newest first, at most 1,000 events."""
        return Pages(
            self._send,
            Call[PlanEventDataList](
                "GET",
                "/v3/clusters/{cluster_id}/plans/{plan_id}/events",
                {200: PlanEventDataList},
                path={"plan_id": plan_id},
                query={"page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def approve_plan(self, plan_id: int, *, validate_only: bool = False) -> PlanData:
        """Approve a draft."""
        return self._send(
            Call[PlanData](
                "POST",
                "/v3/clusters/{cluster_id}/plans/{plan_id}:approve",
                {200: PlanData},
                path={"plan_id": plan_id},
                query={"validate_only": validate_only},
            )
        )

    def start_plan(self, plan_id: int, *, validate_only: bool = False) -> PlanData:
        """Start an approved plan. One plan at a time is executed."""
        return self._send(
            Call[PlanData](
                "POST",
                "/v3/clusters/{cluster_id}/plans/{plan_id}:start",
                {200: PlanData},
                path={"plan_id": plan_id},
                query={"validate_only": validate_only},
            )
        )

    def pause_plan(self, plan_id: int, *, validate_only: bool = False) -> PlanData:
        """Begin no further partition; those that move continue."""
        return self._send(
            Call[PlanData](
                "POST",
                "/v3/clusters/{cluster_id}/plans/{plan_id}:pause",
                {200: PlanData},
                path={"plan_id": plan_id},
                query={"validate_only": validate_only},
            )
        )

    def resume_plan(self, plan_id: int, *, validate_only: bool = False) -> PlanData:
        """Continue a paused plan."""
        return self._send(
            Call[PlanData](
                "POST",
                "/v3/clusters/{cluster_id}/plans/{plan_id}:resume",
                {200: PlanData},
                path={"plan_id": plan_id},
                query={"validate_only": validate_only},
            )
        )

    def cancel_plan(
        self, plan_id: int, *, begun: Literal["undo", "finish"] | UnsetType = UNSET, validate_only: bool = False
    ) -> PlanData:
        """Cancel a plan. What has moved stays; what is moving is undone, or finished on wish."""
        return self._send(
            Call[PlanData](
                "POST",
                "/v3/clusters/{cluster_id}/plans/{plan_id}:cancel",
                {200: PlanData},
                path={"plan_id": plan_id},
                query={"validate_only": validate_only},
                body={"begun": begun},
            )
        )

    def uncordon_plan(self, plan_id: int, *, validate_only: bool = False) -> PlanData:
        """Remove the cordons that a drain has left when it ended, so that its brokers take replicas again."""
        return self._send(
            Call[PlanData](
                "POST",
                "/v3/clusters/{cluster_id}/plans/{plan_id}:uncordon",
                {200: PlanData},
                path={"plan_id": plan_id},
                query={"validate_only": validate_only},
            )
        )

    def list_features(
        self, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> Pages[FeatureDataList, FeatureData]:
        """List the features: the finalized level, and the levels that this software and each broker support."""
        return Pages(
            self._send,
            Call[FeatureDataList](
                "GET",
                "/v3/clusters/{cluster_id}/features",
                {200: FeatureDataList},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def update_features(self, *, data: Sequence[FeatureEntry], validate_only: bool = False) -> FeatureDataList:
        """Change feature levels, all or none. The answer lists all features after the change."""
        return self._send(
            Call[FeatureDataList](
                "PATCH",
                "/v3/clusters/{cluster_id}/features",
                {200: FeatureDataList},
                query={"validate_only": validate_only},
                body={"data": data},
            )
        )
