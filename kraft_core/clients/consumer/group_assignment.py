"""What the leader of a classic group does: it divides the partitions by an assignor. Source: ConsumerCoordinator."""

from collections.abc import Mapping, Sequence

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import (
    Assignment,
    Cluster,
    ConsumerPartitionAssignor,
    RebalanceProtocol,
    Subscription,
)
from kraft_core.configs.config_def import ConfigException
from kraft_core.protocol.errors import ErrorCode, KafkaError


def common_protocol(assignors: Sequence[ConsumerPartitionAssignor]) -> RebalanceProtocol:
    """Return the most advanced rebalance protocol that all assignors support. Raises ConfigException without one."""
    common = set(RebalanceProtocol)
    for each in assignors:
        common &= set(each.supported_protocols())
    if not common:
        names = ", ".join(each.name for each in assignors)
        raise ConfigException(
            f"partition.assignment.strategy: {names} have no rebalance protocol in common: name assignors that are all "
            "eager, or all cooperative"
        )
    return max(common)


def assign_group(
    assignor: ConsumerPartitionAssignor,
    protocol: RebalanceProtocol,
    cluster: Cluster,
    subscriptions: Mapping[str, Subscription],
) -> Mapping[str, Assignment]:
    """Return an assignment for each member id. Raises KafkaError if the assignor fails or breaks the protocol."""
    try:
        assignments = assignor.assign(cluster, subscriptions)
    except Exception as error:
        text = f"the assignor '{assignor.name}' failed: {error!r}"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text) from error
    if protocol is RebalanceProtocol.COOPERATIVE and assignor.name != "cooperative-sticky":
        _check_cooperative(assignor.name, subscriptions, assignments)
    return assignments


def _check_cooperative(
    name: str, subscriptions: Mapping[str, Subscription], assignments: Mapping[str, Assignment]
) -> None:
    """Raise KafkaError if a partition goes to another member before its owner has given it up."""
    revoked: set[TopicPartition] = set()
    added: set[TopicPartition] = set()
    for member_id, assignment in assignments.items():
        owned = set(subscriptions[member_id].owned_partitions)
        revoked |= owned - set(assignment.partitions)
        added |= set(assignment.partitions) - owned
    both = sorted(revoked & added)
    if both:
        text = f"the cooperative assignor '{name}' gave {both[0].topic}-{both[0].partition} away while it has an owner"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
