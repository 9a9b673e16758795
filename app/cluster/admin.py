"""The changes of a cluster, by subject."""

from app.cluster.acls import AclAdmin
from app.cluster.broker_clients import BrokerClients
from app.cluster.brokers import BrokerAdmin
from app.cluster.changes import Connections
from app.cluster.configs import ConfigAdmin
from app.cluster.delegation_tokens import DelegationTokenAdmin
from app.cluster.features import FeatureAdmin
from app.cluster.group_changes import GroupAdmin
from app.cluster.groups import Groups
from app.cluster.partitions import PartitionAdmin
from app.cluster.quotas import QuotaAdmin
from app.cluster.scram import ScramAdmin
from app.cluster.topics import TopicAdmin
from app.cluster.transaction_changes import TransactionAdmin
from app.cluster.voters import VoterAdmin


class Admin:
    """Requests that change the cluster.

    All raise KafkaError when the controller or a broker refuses, and a subclass of ConnectionError when no controller
    can be reached.
    """

    def __init__(self, connections: Connections, clients: BrokerClients, groups: Groups) -> None:
        self.acls = AclAdmin(connections)
        self.brokers = BrokerAdmin(connections)
        self.configs = ConfigAdmin(connections)
        self.delegation_tokens = DelegationTokenAdmin(connections)
        self.features = FeatureAdmin(connections)
        self.groups = GroupAdmin(clients, groups)
        self.partitions = PartitionAdmin(connections)
        self.quotas = QuotaAdmin(connections)
        self.scram = ScramAdmin(connections)
        self.topics = TopicAdmin(connections)
        self.transactions = TransactionAdmin(clients)
        self.voters = VoterAdmin(connections)
