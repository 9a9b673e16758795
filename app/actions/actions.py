"""All changes of the cluster and of its reports, by subject."""

from app.actions.acls import AclActions
from app.actions.brokers import BrokerActions
from app.actions.configs import ConfigActions
from app.actions.delegation_tokens import DelegationTokenActions
from app.actions.features import FeatureActions
from app.actions.groups import GroupActions
from app.actions.long_elections import LongElections
from app.actions.partitions import PartitionActions
from app.actions.plans import PlanActions
from app.actions.quotas import QuotaActions
from app.actions.records import RecordActions
from app.actions.reports import ReportActions
from app.actions.scram import ScramActions
from app.actions.topics import TopicActions
from app.actions.transactions import TransactionActions
from app.actions.voters import VoterActions
from app.cluster.cluster import Cluster
from app.db.database import Database
from app.security.service import Security


class Actions:
    """The changes that REST and pages offer. A web process has one instance."""

    def __init__(
        self, cluster: Cluster, security: Security, database: Database, reports: ReportActions, plans: PlanActions
    ) -> None:
        self.acls = AclActions(cluster, security)
        self.brokers = BrokerActions(cluster, security)
        self.configs = ConfigActions(cluster, security)
        self.delegation_tokens = DelegationTokenActions(cluster, security)
        self.features = FeatureActions(cluster, security)
        self.groups = GroupActions(cluster, security)
        self.long_elections = LongElections(cluster, security, database)
        self.partitions = PartitionActions(cluster, security)
        self.plans = plans
        self.quotas = QuotaActions(cluster, security)
        self.records = RecordActions(cluster, security)
        self.reports = reports
        self.scram = ScramActions(cluster, security)
        self.topics = TopicActions(cluster, security)
        self.transactions = TransactionActions(cluster, security)
        self.voters = VoterActions(cluster, security)
