"""Makes the membership that a consumer's configs ask for."""

from random import Random

from kraft_core.clients.consumer.assignors.assignor_instances import get_assignor_instances
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import ConsumerPartitionAssignor
from kraft_core.clients.consumer.consumer_config import ConsumerConfig
from kraft_core.clients.consumer.consumer_coordinator import ConsumerCoordinator
from kraft_core.clients.consumer.consumer_membership import ConsumerMembership
from kraft_core.clients.consumer.coordinator import Coordinator
from kraft_core.clients.consumer.heartbeat import GroupRebalanceConfig
from kraft_core.clients.consumer.subscription_state import SubscriptionState
from kraft_core.clients.network_client import NetworkClient
from kraft_core.configs.config_def import ConfigException


def new_coordinator(
    config: ConsumerConfig, network: NetworkClient, subscriptions: SubscriptionState, random: Random
) -> Coordinator | None:
    """Return a new membership by group.protocol; None without a group.id. Raises ConfigException."""
    group_id = config.group_id
    if group_id is None:
        return None
    group = GroupRebalanceConfig(
        group_id=group_id,
        group_instance_id=config.text("group.instance.id") or None,
        session_timeout_ms=config.number("session.timeout.ms"),
        heartbeat_interval_ms=config.number("heartbeat.interval.ms"),
        rebalance_timeout_ms=config.number("max.poll.interval.ms"),
        client_rack=config.text("client.rack") or None,
        enable_auto_commit=config.enable_auto_commit,
        auto_commit_interval_ms=config.number("auto.commit.interval.ms"),
    )
    if config.group_protocol == "consumer":
        assignor = config.text("group.remote.assignor") or None
        return ConsumerMembership(network, subscriptions, group, assignor, random, config.interceptors.on_commit)
    strategies: list[str | ConsumerPartitionAssignor] = []
    for each in config.items("partition.assignment.strategy"):
        if not isinstance(each, str | ConsumerPartitionAssignor):
            raise ConfigException(
                f"Invalid value {each!r} for configuration partition.assignment.strategy: must be a name or an assignor"
            )
        strategies.append(each)
    on_commit = config.interceptors.on_commit
    return ConsumerCoordinator(network, subscriptions, get_assignor_instances(strategies), group, random, on_commit)
