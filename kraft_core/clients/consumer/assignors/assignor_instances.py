"""The assignors that `partition.assignment.strategy` names."""

from collections.abc import Iterable
from typing import Final

from kraft_core.clients.consumer.assignors.consumer_partition_assignor import ConsumerPartitionAssignor
from kraft_core.clients.consumer.assignors.cooperative_sticky_assignor import CooperativeStickyAssignor
from kraft_core.clients.consumer.assignors.range_assignor import RangeAssignor
from kraft_core.clients.consumer.assignors.round_robin_assignor import RoundRobinAssignor
from kraft_core.clients.consumer.assignors.sticky_assignor import StickyAssignor
from kraft_core.configs.config_def import ConfigException

KEY: Final = "partition.assignment.strategy"
_JAVA_PACKAGE: Final = "org.apache.kafka.clients.consumer."
_BUILT_IN: Final[tuple[type[ConsumerPartitionAssignor], ...]] = (
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    CooperativeStickyAssignor,
)


def get_assignor_instances(strategies: Iterable[str | ConsumerPartitionAssignor]) -> list[ConsumerPartitionAssignor]:
    """Return one assignor for each item: a rule's name, the name of Kafka's class, or an assignor of the caller's.

    Raises ConfigException for an unknown name, for two assignors of one name, and for none at all.
    """
    by_name = {assignor.name: assignor for assignor in _BUILT_IN}
    by_name |= {_JAVA_PACKAGE + assignor.__name__: assignor for assignor in _BUILT_IN}
    instances: dict[str, ConsumerPartitionAssignor] = {}
    for strategy in strategies:
        if isinstance(strategy, str):
            if strategy not in by_name:
                allowed = ", ".join(assignor.name for assignor in _BUILT_IN)
                raise ConfigException(
                    f"Invalid value {strategy} for configuration {KEY}: must be one of {allowed}, or an assignor"
                )
            assignor = by_name[strategy]()
        else:
            assignor = strategy
        if assignor.name in instances:
            raise ConfigException(
                f"Invalid value for configuration {KEY}: the assignor name '{assignor.name}' is used twice"
            )
        instances[assignor.name] = assignor
    if not instances:
        raise ConfigException(f"Invalid value for configuration {KEY}: must name at least one assignor")
    return list(instances.values())
