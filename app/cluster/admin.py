"""The changes of a cluster, by subject."""

from app.cluster.acls import AclAdmin
from app.cluster.brokers import BrokerAdmin
from app.cluster.changes import Connections
from app.cluster.configs import ConfigAdmin
from app.cluster.delegation_tokens import DelegationTokenAdmin
from app.cluster.features import FeatureAdmin
from app.cluster.partitions import PartitionAdmin
from app.cluster.quotas import QuotaAdmin
from app.cluster.scram import ScramAdmin
from app.cluster.topics import TopicAdmin
from app.cluster.voters import VoterAdmin


class Admin:
    """Requests that change the cluster.

    All raise KafkaError when the controller refuses, and a subclass of ConnectionError when none can be reached.
    """

    def __init__(self, connections: Connections) -> None:
        self.acls = AclAdmin(connections)
        self.brokers = BrokerAdmin(connections)
        self.configs = ConfigAdmin(connections)
        self.delegation_tokens = DelegationTokenAdmin(connections)
        self.features = FeatureAdmin(connections)
        self.partitions = PartitionAdmin(connections)
        self.quotas = QuotaAdmin(connections)
        self.scram = ScramAdmin(connections)
        self.topics = TopicAdmin(connections)
        self.voters = VoterAdmin(connections)
