"""Every method of the REST API. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.blocking.accounts import AccountsMethods
from conclave.client.blocking.acls import AclsMethods
from conclave.client.blocking.brokers import BrokersMethods
from conclave.client.blocking.client_quotas import ClientQuotasMethods
from conclave.client.blocking.clusters import ClustersMethods
from conclave.client.blocking.configs import ConfigsMethods
from conclave.client.blocking.consumer_groups import ConsumerGroupsMethods
from conclave.client.blocking.delegation_tokens import DelegationTokensMethods
from conclave.client.blocking.nodes import NodesMethods
from conclave.client.blocking.operations import OperationsMethods
from conclave.client.blocking.quorum import QuorumMethods
from conclave.client.blocking.reports import ReportsMethods
from conclave.client.blocking.scram_users import ScramUsersMethods
from conclave.client.blocking.topics import TopicsMethods
from conclave.client.blocking.transactions import TransactionsMethods


class AllMethods(
    AccountsMethods,
    AclsMethods,
    BrokersMethods,
    ClientQuotasMethods,
    ClustersMethods,
    ConfigsMethods,
    ConsumerGroupsMethods,
    DelegationTokensMethods,
    NodesMethods,
    OperationsMethods,
    QuorumMethods,
    ReportsMethods,
    ScramUsersMethods,
    TopicsMethods,
    TransactionsMethods,
):
    """Every method of the REST API."""
