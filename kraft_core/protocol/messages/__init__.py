"""The messages of Kafka's RPCs, imported by name: `from kraft_core.protocol.messages import VoteRequest`.

A module is loaded at the first use of one of its classes, so a process loads only the RPCs that it uses.
Type checkers read the names from the stub file beside this one.
"""

from importlib import import_module
from typing import Any, Final

_MESSAGES_BY_MODULE: Final[dict[str, tuple[str, ...]]] = {
    "quorum": (
        "Vote",
        "BeginQuorumEpoch",
        "EndQuorumEpoch",
        "DescribeQuorum",
    ),
    "raft_voters": (
        "AddRaftVoter",
        "RemoveRaftVoter",
        "UpdateRaftVoter",
    ),
    "fetch": (
        "Fetch",
        "FetchSnapshot",
    ),
    "registration": (
        "BrokerRegistration",
        "BrokerHeartbeat",
        "UnregisterBroker",
        "ControllerRegistration",
    ),
    "features": (
        "ApiVersions",
        "UpdateFeatures",
        "DescribeCluster",
    ),
    "topics": (
        "CreateTopics",
        "DeleteTopics",
        "CreatePartitions",
        "DeleteRecords",
    ),
    "partitions": (
        "AlterPartition",
        "AssignReplicasToDirs",
        "ElectLeaders",
    ),
    "reassignments": (
        "AlterPartitionReassignments",
        "ListPartitionReassignments",
    ),
    "configs": (
        "DescribeConfigs",
        "AlterConfigs",
        "IncrementalAlterConfigs",
        "ListConfigResources",
    ),
    "acls": (
        "DescribeAcls",
        "CreateAcls",
        "DeleteAcls",
    ),
    "quotas": (
        "DescribeClientQuotas",
        "AlterClientQuotas",
    ),
    "scram": (
        "DescribeUserScramCredentials",
        "AlterUserScramCredentials",
    ),
    "delegation_tokens": (
        "CreateDelegationToken",
        "RenewDelegationToken",
        "ExpireDelegationToken",
        "DescribeDelegationToken",
    ),
    "security": (
        "SaslHandshake",
        "SaslAuthenticate",
        "Envelope",
        "DefaultPrincipalData",
    ),
    "producer_ids": (
        "AllocateProducerIds",
        "InitProducerId",
    ),
    "metadata": (
        "Metadata",
        "DescribeTopicPartitions",
    ),
    "produce": (
        "Produce",
        "ListOffsets",
        "OffsetForLeaderEpoch",
    ),
    "group_membership": (
        "FindCoordinator",
        "JoinGroup",
        "Heartbeat",
        "LeaveGroup",
        "SyncGroup",
    ),
    "group_admin": (
        "DescribeGroups",
        "ListGroups",
        "DeleteGroups",
    ),
    "group_offsets": (
        "OffsetCommit",
        "OffsetFetch",
        "OffsetDelete",
    ),
    "consumer_groups": (
        "ConsumerGroupHeartbeat",
        "ConsumerGroupDescribe",
        "ConsumerProtocolAssignment",
        "ConsumerProtocolSubscription",
    ),
    "share_groups": (
        "ShareGroupDescribe",
        "DescribeShareGroupOffsets",
        "AlterShareGroupOffsets",
        "DeleteShareGroupOffsets",
    ),
    "streams_groups": ("StreamsGroupDescribe",),
    "transactions": (
        "AddPartitionsToTxn",
        "AddOffsetsToTxn",
        "EndTxn",
        "TxnOffsetCommit",
        "WriteTxnMarkers",
    ),
    "transaction_admin": (
        "DescribeTransactions",
        "ListTransactions",
        "DescribeProducers",
    ),
    "log_dirs": (
        "AlterReplicaLogDirs",
        "DescribeLogDirs",
    ),
    "telemetry": (
        "GetTelemetrySubscriptions",
        "PushTelemetry",
    ),
    "coordinator_records": (
        "OffsetCommitKey",
        "OffsetCommitValue",
        "GroupMetadataKey",
        "GroupMetadataValue",
    ),
}
_MODULE_BY_MESSAGE: Final = {name: module for module, names in _MESSAGES_BY_MODULE.items() for name in names}


def _module_of(class_name: str) -> str | None:
    """Return the module of a class: that of the longest API or message name that is a prefix of the class name."""
    for end in range(len(class_name), 0, -1):
        module = _MODULE_BY_MESSAGE.get(class_name[:end])
        if module is not None:
            return module
    return None


def __getattr__(name: str) -> Any:
    module = _module_of(name)
    found = None if module is None else getattr(import_module(f"{__name__}.{module}"), name, None)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found
