"""Methods about consumer groups. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from conclave.client.calls import Call
from conclave.client.methods import Methods
from conclave.client.models.consumer_groups import (
    ConsumerAssignmentData,
    ConsumerAssignmentDataList,
    ConsumerData,
    ConsumerDataList,
    ConsumerGroupData,
    ConsumerGroupDataList,
    ConsumerGroupLagSummaryData,
    ConsumerLagData,
    ConsumerLagDataList,
    GroupDeletionDataList,
    GroupToDelete,
    OffsetResetDataList,
    PartitionsOfTopic,
)
from conclave.client.models.shared import DryRunData
from conclave.client.pages import Pages


class ConsumerGroupsMethods(Methods):
    """Methods about consumer groups."""

    def list_groups(self, *, page_size: int | None = None) -> Pages[ConsumerGroupDataList, ConsumerGroupData]:
        """List the groups of all types by id."""
        return Pages(
            self._send,
            Call[ConsumerGroupDataList](
                "GET",
                "/v3/clusters/{cluster_id}/consumer-groups",
                {200: ConsumerGroupDataList},
                query={"page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def get_group(self, consumer_group_id: str) -> ConsumerGroupData:
        """Describe a group."""
        return self._send(
            Call[ConsumerGroupData](
                "GET",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}",
                {200: ConsumerGroupData},
                path={"consumer_group_id": consumer_group_id},
                waits_for_offset=True,
            )
        )

    def delete_group(self, consumer_group_id: str, *, validate_only: bool = False) -> DryRunData | None:
        """Delete a group without members and all its committed offsets."""
        return self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}",
                {200: DryRunData, 204: None},
                path={"consumer_group_id": consumer_group_id},
                query={"validate_only": validate_only},
            )
        )

    def list_consumers(
        self, consumer_group_id: str, *, page_size: int | None = None
    ) -> Pages[ConsumerDataList, ConsumerData]:
        """List the members of a group by id."""
        return Pages(
            self._send,
            Call[ConsumerDataList](
                "GET",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/consumers",
                {200: ConsumerDataList},
                path={"consumer_group_id": consumer_group_id},
                query={"page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def get_consumer(self, consumer_group_id: str, consumer_id: str) -> ConsumerData:
        """Describe one member."""
        return self._send(
            Call[ConsumerData](
                "GET",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/consumers/{consumer_id}",
                {200: ConsumerData},
                path={"consumer_group_id": consumer_group_id, "consumer_id": consumer_id},
                waits_for_offset=True,
            )
        )

    def list_assignments(
        self, consumer_group_id: str, consumer_id: str, *, page_size: int | None = None
    ) -> Pages[ConsumerAssignmentDataList, ConsumerAssignmentData]:
        """List the partitions that are assigned to a member."""
        return Pages(
            self._send,
            Call[ConsumerAssignmentDataList](
                "GET",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/consumers/{consumer_id}/assignments",
                {200: ConsumerAssignmentDataList},
                path={"consumer_group_id": consumer_group_id, "consumer_id": consumer_id},
                query={"page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def get_assignment(
        self, consumer_group_id: str, consumer_id: str, topic_name: str, partition_id: int
    ) -> ConsumerAssignmentData:
        """Describe one assigned partition."""
        return self._send(
            Call[ConsumerAssignmentData](
                "GET",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/consumers/{consumer_id}/assignments/{topic_name}/partitions/{partition_id}",
                {200: ConsumerAssignmentData},
                path={
                    "consumer_group_id": consumer_group_id,
                    "consumer_id": consumer_id,
                    "topic_name": topic_name,
                    "partition_id": partition_id,
                },
                waits_for_offset=True,
            )
        )

    def list_lags(
        self, consumer_group_id: str, *, page_size: int | None = None
    ) -> Pages[ConsumerLagDataList, ConsumerLagData]:
        """List the lags of a group, the largest first."""
        return Pages(
            self._send,
            Call[ConsumerLagDataList](
                "GET",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/lags",
                {200: ConsumerLagDataList},
                path={"consumer_group_id": consumer_group_id},
                query={"page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def get_lag(self, consumer_group_id: str, topic_name: str, partition_id: int) -> ConsumerLagData:
        """Describe the lag of a group in one partition."""
        return self._send(
            Call[ConsumerLagData](
                "GET",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/lags/{topic_name}/partitions/{partition_id}",
                {200: ConsumerLagData},
                path={"consumer_group_id": consumer_group_id, "topic_name": topic_name, "partition_id": partition_id},
                waits_for_offset=True,
            )
        )

    def get_lag_summary(self, consumer_group_id: str) -> ConsumerGroupLagSummaryData:
        """Describe the largest lag of a group, and the sum of all."""
        return self._send(
            Call[ConsumerGroupLagSummaryData](
                "GET",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/lag-summary",
                {200: ConsumerGroupLagSummaryData},
                path={"consumer_group_id": consumer_group_id},
                waits_for_offset=True,
            )
        )

    def reset_offsets(
        self,
        consumer_group_id: str,
        *,
        to: Literal["EARLIEST", "LATEST", "CURRENT"] | UnsetType | None = UNSET,
        to_offset: int | UnsetType | None = UNSET,
        to_datetime: str | UnsetType | None = UNSET,
        by_duration: str | UnsetType | None = UNSET,
        shift_by: int | UnsetType | None = UNSET,
        topics: Sequence[PartitionsOfTopic] | UnsetType | None = UNSET,
        validate_only: bool = False,
    ) -> OffsetResetDataList:
        """Move the committed offsets of a group without members. With `validate_only` the answer has the new offsets."""
        return self._send(
            Call[OffsetResetDataList](
                "POST",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/offsets:reset",
                {200: OffsetResetDataList, 207: OffsetResetDataList},
                path={"consumer_group_id": consumer_group_id},
                query={"validate_only": validate_only},
                body={
                    "to": to,
                    "to_offset": to_offset,
                    "to_datetime": to_datetime,
                    "by_duration": by_duration,
                    "shift_by": shift_by,
                    "topics": topics,
                },
            )
        )

    def delete_groups(
        self, *, data: Sequence[GroupToDelete], validate_only: bool = False, idempotency_key: str | None = None
    ) -> GroupDeletionDataList:
        """Delete several groups without members, and all their committed offsets."""
        return self._send(
            Call[GroupDeletionDataList](
                "POST",
                "/v3/clusters/{cluster_id}/consumer-groups:delete",
                {200: GroupDeletionDataList, 207: GroupDeletionDataList},
                query={"validate_only": validate_only},
                headers={"Idempotency-Key": idempotency_key},
                body={"data": data},
            )
        )
