"""Methods about topics. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from conclave.client.calls import Call
from conclave.client.methods import Methods
from conclave.client.models.shared import DryRunData, ReplicaData, ReplicaDataList
from conclave.client.models.topics import (
    ConfigToCreate,
    ContentBody,
    HeaderBody,
    PartitionData,
    PartitionDataList,
    PartitionWithOffsetsData,
    ProduceBatchEntry,
    ProducedBatchData,
    ProducedData,
    ReassignmentData,
    ReassignmentDataList,
    RecordData,
    RecordDataList,
    TopicData,
    TopicDataList,
    TopicDeletionDataList,
    TopicRateData,
    TopicToDelete,
)
from conclave.client.pages import Pages


class TopicsMethods(Methods):
    """Methods about topics."""

    def list_topics(
        self, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> Pages[TopicDataList, TopicData]:
        """List the topics by name."""
        return Pages(
            self._send,
            Call[TopicDataList](
                "GET",
                "/v3/clusters/{cluster_id}/topics",
                {200: TopicDataList},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def create_topic(
        self,
        *,
        topic_name: str,
        partitions_count: int | UnsetType | None = UNSET,
        replication_factor: int | UnsetType | None = UNSET,
        replicas_assignments: Mapping[str, Sequence[int]] | UnsetType | None = UNSET,
        configs: Sequence[ConfigToCreate] | UnsetType = UNSET,
        validate_only: bool = False,
        idempotency_key: str | None = None,
    ) -> TopicData:
        """Create a topic: 201 with its Location. With `validate_only`: 200, no topic, and the key stays unused."""
        return self._send(
            Call[TopicData](
                "POST",
                "/v3/clusters/{cluster_id}/topics",
                {200: TopicData, 201: TopicData},
                query={"validate_only": validate_only},
                headers={"Idempotency-Key": idempotency_key},
                body={
                    "topic_name": topic_name,
                    "partitions_count": partitions_count,
                    "replication_factor": replication_factor,
                    "replicas_assignments": replicas_assignments,
                    "configs": configs,
                },
            )
        )

    def get_topic(self, topic_name: str, *, at_offset: int | None = None, at: str | None = None) -> TopicData:
        """Describe a topic. The ETag identifies its state."""
        return self._send(
            Call[TopicData](
                "GET",
                "/v3/clusters/{cluster_id}/topics/{topic_name}",
                {200: TopicData},
                path={"topic_name": topic_name},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    def grow_topic(
        self, topic_name: str, *, partitions_count: int, validate_only: bool = False, if_match: str | None = None
    ) -> TopicData:
        """Add partitions to a topic."""
        return self._send(
            Call[TopicData](
                "PATCH",
                "/v3/clusters/{cluster_id}/topics/{topic_name}",
                {200: TopicData},
                path={"topic_name": topic_name},
                query={"validate_only": validate_only},
                headers={"if-match": if_match},
                body={"partitions_count": partitions_count},
            )
        )

    def delete_topic(
        self, topic_name: str, *, validate_only: bool = False, if_match: str | None = None
    ) -> DryRunData | None:
        """Delete a topic and all its data."""
        return self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/clusters/{cluster_id}/topics/{topic_name}",
                {200: DryRunData, 204: None},
                path={"topic_name": topic_name},
                query={"validate_only": validate_only},
                headers={"if-match": if_match},
            )
        )

    def get_topic_rate(self, topic_name: str) -> TopicRateData:
        """Return the records per second since an earlier request: null at the first one, and within 4 s of it."""
        return self._send(
            Call[TopicRateData](
                "GET",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/rate",
                {200: TopicRateData},
                path={"topic_name": topic_name},
                waits_for_offset=True,
            )
        )

    def list_reassignments(
        self, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> Pages[ReassignmentDataList, ReassignmentData]:
        """List the reassignments in progress of all topics."""
        return Pages(
            self._send,
            Call[ReassignmentDataList](
                "GET",
                "/v3/clusters/{cluster_id}/topics/-/partitions/-/reassignment",
                {200: ReassignmentDataList},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def list_topic_reassignments(
        self, topic_name: str, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> Pages[ReassignmentDataList, ReassignmentData]:
        """List the reassignments in progress of one topic."""
        return Pages(
            self._send,
            Call[ReassignmentDataList](
                "GET",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions/-/reassignment",
                {200: ReassignmentDataList},
                path={"topic_name": topic_name},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def list_all_partitions(
        self, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> Pages[PartitionDataList, PartitionData]:
        """List the partitions of all topics by topic and id."""
        return Pages(
            self._send,
            Call[PartitionDataList](
                "GET",
                "/v3/clusters/{cluster_id}/topics/-/partitions",
                {200: PartitionDataList},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def list_partitions(
        self, topic_name: str, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> Pages[PartitionDataList, PartitionData]:
        """List the partitions of a topic."""
        return Pages(
            self._send,
            Call[PartitionDataList](
                "GET",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions",
                {200: PartitionDataList},
                path={"topic_name": topic_name},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def get_partition(
        self, topic_name: str, partition_id: int, *, at_offset: int | None = None, at: str | None = None
    ) -> PartitionData:
        """Describe one partition."""
        return self._send(
            Call[PartitionData](
                "GET",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}",
                {200: PartitionData},
                path={"topic_name": topic_name, "partition_id": partition_id},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    def get_reassignment(
        self, topic_name: str, partition_id: int, *, at_offset: int | None = None, at: str | None = None
    ) -> ReassignmentData:
        """Describe the reassignment of one partition. 404 when none is in progress."""
        return self._send(
            Call[ReassignmentData](
                "GET",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/reassignment",
                {200: ReassignmentData},
                path={"topic_name": topic_name, "partition_id": partition_id},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    def list_partition_replicas(
        self,
        topic_name: str,
        partition_id: int,
        *,
        at_offset: int | None = None,
        at: str | None = None,
        page_size: int | None = None,
    ) -> Pages[ReplicaDataList, ReplicaData]:
        """List the replicas of one partition by broker."""
        return Pages(
            self._send,
            Call[ReplicaDataList](
                "GET",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/replicas",
                {200: ReplicaDataList},
                path={"topic_name": topic_name, "partition_id": partition_id},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def get_replica(
        self, topic_name: str, partition_id: int, broker_id: int, *, at_offset: int | None = None, at: str | None = None
    ) -> ReplicaData:
        """Describe one replica."""
        return self._send(
            Call[ReplicaData](
                "GET",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/replicas/{broker_id}",
                {200: ReplicaData},
                path={"topic_name": topic_name, "partition_id": partition_id, "broker_id": broker_id},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    def produce(
        self,
        topic_name: str,
        *,
        partition_id: int | UnsetType | None = UNSET,
        headers: Sequence[HeaderBody] | UnsetType = UNSET,
        key: ContentBody | UnsetType | None = UNSET,
        value: ContentBody | UnsetType | None = UNSET,
        timestamp: str | UnsetType | None = UNSET,
        validate_only: bool = False,
    ) -> ProducedData:
        """Write one record, or several whose JSON objects follow one another, and answer with an object for each.

        Of several records each has its own `error_code`, and the status is 200. The records are in the order of the body.
        """
        return self._send(
            Call[ProducedData](
                "POST",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/records",
                {200: ProducedData},
                path={"topic_name": topic_name},
                query={"validate_only": validate_only},
                body={
                    "partition_id": partition_id,
                    "headers": headers,
                    "key": key,
                    "value": value,
                    "timestamp": timestamp,
                },
            )
        )

    def produce_batch(
        self, topic_name: str, *, entries: Sequence[ProduceBatchEntry], validate_only: bool = False
    ) -> ProducedBatchData:
        """Write several records: each id of an entry is among the `successes` or the `failures` of the answer."""
        return self._send(
            Call[ProducedBatchData](
                "POST",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/records:batch",
                {207: ProducedBatchData},
                path={"topic_name": topic_name},
                query={"validate_only": validate_only},
                body={"entries": entries},
            )
        )

    def list_records(
        self,
        topic_name: str,
        partition_id: int,
        *,
        offset: int | None = None,
        timestamp: int | None = None,
        newest: int | None = None,
        limit: int | None = None,
        isolation_level: Literal["read_committed", "read_uncommitted"] | None = None,
        filter: str | None = None,
        at_offset: int | None = None,
        at: str | None = None,
    ) -> Pages[RecordDataList, RecordData]:
        """Read records of a partition from an offset, a time, or the newest; by default from the beginning."""
        return Pages(
            self._send,
            Call[RecordDataList](
                "GET",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/records",
                {200: RecordDataList},
                path={"topic_name": topic_name, "partition_id": partition_id},
                query={
                    "offset": offset,
                    "timestamp": timestamp,
                    "newest": newest,
                    "limit": limit,
                    "isolation_level": isolation_level,
                    "filter": filter,
                    "at_offset": at_offset,
                    "at": at,
                },
                waits_for_offset=True,
            ),
        )

    def get_offsets(
        self,
        topic_name: str,
        partition_id: int,
        *,
        offset_type: Literal["earliest_and_latest"] | None = None,
        at_offset: int | None = None,
        at: str | None = None,
    ) -> PartitionWithOffsetsData:
        """Describe one partition with its first offset and the one behind its last record, as its leader knows them."""
        return self._send(
            Call[PartitionWithOffsetsData](
                "GET",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/offset",
                {200: PartitionWithOffsetsData},
                path={"topic_name": topic_name, "partition_id": partition_id},
                query={"offset_type": offset_type, "at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    def delete_topics(
        self, *, data: Sequence[TopicToDelete], validate_only: bool = False, idempotency_key: str | None = None
    ) -> TopicDeletionDataList:
        """Delete several topics and all their data."""
        return self._send(
            Call[TopicDeletionDataList](
                "POST",
                "/v3/clusters/{cluster_id}/topics:delete",
                {200: TopicDeletionDataList, 207: TopicDeletionDataList},
                query={"validate_only": validate_only},
                headers={"Idempotency-Key": idempotency_key},
                body={"data": data},
            )
        )
