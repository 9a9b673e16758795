"""Which endpoints a DescribeCluster request is about. Source: EndpointType; KIP-919."""

from enum import IntEnum


class EndpointType(IntEnum):
    """Brokers or controllers."""

    UNKNOWN = 0
    BROKER = 1
    CONTROLLER = 2
