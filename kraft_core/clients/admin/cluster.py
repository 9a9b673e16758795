"""Admin's operations on the cluster as a whole: brokers, features and the quorum.

Source: KafkaAdminClient, FeatureUpdate, QuorumInfo of Kafka 4.3.1; KIP-584, KIP-595, KIP-853.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from kraft_core.clients.admin.admin_call import (
    CONTROLLER,
    AdminCall,
    AdminCalls,
    RequestContext,
    Results,
    error_of,
    single,
)
from kraft_core.clients.client_metadata import Node
from kraft_core.clients.quorum_fetch import describe_quorum_request
from kraft_core.protocol.errors import ErrorCode, KafkaError, UnsupportedVersion
from kraft_core.protocol.messages import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    AddRaftVoterResponse,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumResponse,
    DescribeQuorumResponseReplicaState,
    MetadataRequest,
    MetadataResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeatureUpdateKey,
    UpdateFeaturesResponse,
)
from kraft_core.protocol.software import api_versions_request

_FIRST_FENCED_VERSION: Final = 2  # of DescribeCluster
_FIRST_UPGRADE_TYPE_VERSION: Final = 1  # of UpdateFeatures


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers that are in the cluster, ordered by id. `controller_id` is -1 if the broker knows none.

    In KRaft mode it is the id of a broker that forwards requests to the active controller. `fenced` are the ids of
    brokers that are registered, but not active.
    """

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]
    fenced: frozenset[int] = frozenset()


class UpgradeType(IntEnum):
    """Whether a feature's level may fall, and may do so if metadata is lost. Source: FeatureUpdate.UpgradeType."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The level that a feature shall have; 0 removes it."""

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """Feature levels by name: those finalized for the cluster, and the (lowest, highest) that a broker supports."""

    finalized: Mapping[str, int]
    finalized_epoch: int
    supported: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or observer. Timestamps are ms of the leader's clock, -1 if unknown."""

    replica_id: int
    replica_directory_id: UUID
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


class RaftVoterEndpoint(NamedTuple):
    """An address of a voter, by listener."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The state of the quorum, as its leader knows it. `endpoints` are by node id; empty from before KIP-853."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[RaftVoterEndpoint, ...]]


class ClusterCalls(AdminCalls):
    """Brokers, features and the quorum."""

    async def describe_cluster(self, *, include_fenced_brokers: bool = False) -> ClusterDescription:
        """Return the cluster's id and brokers. Raises KafkaError."""

        def build(context: RequestContext[None]) -> DescribeClusterRequest:
            if include_fenced_brokers and context.version < _FIRST_FENCED_VERSION:
                raise UnsupportedVersion("The broker does not describe fenced brokers.")
            return DescribeClusterRequest(include_fenced_brokers=include_fenced_brokers)

        def read(answer: DescribeClusterResponse) -> ClusterDescription | KafkaError:
            return error_of(answer.error_code, answer.error_message) or ClusterDescription(
                answer.cluster_id,
                answer.controller_id,
                tuple(
                    Node(each.broker_id, each.host, each.port, each.rack)
                    for each in sorted(answer.brokers, key=lambda broker: broker.broker_id)
                ),
                frozenset(each.broker_id for each in answer.brokers if each.is_fenced),
            )

        try:
            return await self.run_single(single(DescribeClusterRequest(), read, build=build))
        except UnsupportedVersion:  # before KIP-700
            if include_fenced_brokers:
                raise
            return await self.run_single(single(MetadataRequest(topics=()), _described))

    async def broker_ids(self) -> list[int]:
        """Return the ids of the brokers that are in the cluster now. Raises KafkaError."""
        return [node.id for node in (await self.describe_cluster()).nodes]

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove the registration of a broker that is down for good. Raises KafkaError."""

        def read(answer: UnregisterBrokerResponse) -> KafkaError | None:
            return error_of(answer.error_code, answer.error_message)

        await self.run_single(single(UnregisterBrokerRequest(broker_id=broker_id), read, CONTROLLER))

    async def describe_features(self) -> FeatureMetadata:
        """Return the levels of features. Raises KafkaError."""

        def read(answer: ApiVersionsResponse) -> FeatureMetadata | KafkaError:
            return error_of(answer.error_code) or FeatureMetadata(
                {each.name: each.max_version_level for each in answer.finalized_features},
                answer.finalized_features_epoch,
                {each.name: (each.min_version, each.max_version) for each in answer.supported_features},
            )

        return await self.run_single(single(api_versions_request(), read))

    async def update_features(
        self, feature_updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False
    ) -> Results[str, None]:
        """Change the levels of features, by name: all or none."""

        def build(context: RequestContext[str]) -> UpdateFeaturesRequest:
            is_old = context.version < _FIRST_UPGRADE_TYPE_VERSION
            if is_old and validate_only:
                raise UnsupportedVersion("The broker cannot validate feature updates without making them.")
            return UpdateFeaturesRequest(
                timeout_ms=context.timeout_ms,
                feature_updates=tuple(_update(name, feature_updates[name], is_old=is_old) for name in context.keys),
                validate_only=validate_only,
            )

        def read(answer: UpdateFeaturesResponse, context: RequestContext[str]) -> dict[str, KafkaError | None]:
            error = error_of(answer.error_code, answer.error_message)
            by_name = {each.feature: error_of(each.error_code, each.error_message) for each in answer.results}
            return {name: error or by_name.get(name) for name in context.keys}

        return await self.run(
            AdminCall(
                request=UpdateFeaturesRequest,
                keys=feature_updates,
                target=lambda _: CONTROLLER,
                build=build,
                read=read,
            )
        )

    async def describe_metadata_quorum(self) -> QuorumInfo:
        """Return the state of the quorum. Raises KafkaError."""

        def read(answer: DescribeQuorumResponse) -> QuorumInfo | KafkaError:
            error = error_of(answer.error_code, answer.error_message)
            if error is not None:
                return error
            found = next((each for topic in answer.topics for each in topic.partitions), None)
            if found is None:
                return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The answer to DescribeQuorum has no partition.")
            return error_of(found.error_code, found.error_message) or QuorumInfo(
                found.leader_id,
                found.leader_epoch,
                found.high_watermark,
                tuple(map(_replica, found.current_voters)),
                tuple(map(_replica, found.observers)),
                {
                    node.node_id: tuple(RaftVoterEndpoint(each.name, each.host, each.port) for each in node.listeners)
                    for node in answer.nodes
                },
            )

        return await self.run_single(single(describe_quorum_request(), read))

    async def add_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: UUID,
        endpoints: Collection[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
    ) -> None:
        """Make a controller a voter (KIP-853). Raises KafkaError."""

        def build(context: RequestContext[None]) -> AddRaftVoterRequest:
            return add_raft_voter_request(
                voter_id, voter_directory_id, endpoints, cluster_id=cluster_id, timeout_ms=context.timeout_ms
            )

        await self.run_single(single(AddRaftVoterRequest(), _voter_error, CONTROLLER, build=build))

    async def remove_raft_voter(
        self, voter_id: int, voter_directory_id: UUID, *, cluster_id: str | None = None
    ) -> None:
        """Remove a voter (KIP-853). Raises KafkaError."""
        request = RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=voter_directory_id
        )
        await self.run_single(single(request, _voter_error, CONTROLLER))


def add_raft_voter_request(
    voter_id: int,
    voter_directory_id: UUID,
    endpoints: Iterable[tuple[str, str, int]],
    *,
    cluster_id: str | None,
    timeout_ms: int,
) -> AddRaftVoterRequest:
    """Return the request that makes a controller a voter; `endpoints` are (listener, host, port)."""
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=timeout_ms,
        voter_id=voter_id,
        voter_directory_id=voter_directory_id,
        listeners=tuple(
            AddRaftVoterRequestListener(name=listener, host=host, port=port) for listener, host, port in endpoints
        ),
    )


def _described(answer: MetadataResponse) -> ClusterDescription | KafkaError:
    return error_of(answer.error_code) or ClusterDescription(
        answer.cluster_id or "",
        answer.controller_id,
        tuple(
            Node(each.node_id, each.host, each.port, each.rack)
            for each in sorted(answer.brokers, key=lambda broker: broker.node_id)
        ),
    )


def _update(name: str, update: FeatureUpdate, *, is_old: bool) -> UpdateFeaturesRequestFeatureUpdateKey:
    if is_old:
        may_fall = update.upgrade_type is not UpgradeType.UPGRADE
        return UpdateFeaturesRequestFeatureUpdateKey(
            feature=name, max_version_level=update.max_version_level, allow_downgrade=may_fall
        )
    return UpdateFeaturesRequestFeatureUpdateKey(
        feature=name, max_version_level=update.max_version_level, upgrade_type=update.upgrade_type
    )


def _replica(state: DescribeQuorumResponseReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )


def _voter_error(answer: AddRaftVoterResponse | RemoveRaftVoterResponse) -> KafkaError | None:
    return error_of(answer.error_code, answer.error_message)
