"""Real Kafka clusters for tests, up in about a second: `from conclave.testing import Cluster`."""

from conclave.testing.cluster import Cluster
from conclave.testing.cluster_node import ClusterError

__all__ = ["Cluster", "ClusterError"]
