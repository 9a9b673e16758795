"""Every method of the REST API. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from conclave.client.asynchronous.accounts import AccountsMethods
from conclave.client.asynchronous.acls import AclsMethods
from conclave.client.asynchronous.brokers import BrokersMethods
from conclave.client.asynchronous.client_quotas import ClientQuotasMethods
from conclave.client.asynchronous.clusters import ClustersMethods
from conclave.client.asynchronous.configs import ConfigsMethods
from conclave.client.asynchronous.consumer_groups import ConsumerGroupsMethods
from conclave.client.asynchronous.delegation_tokens import DelegationTokensMethods
from conclave.client.asynchronous.nodes import NodesMethods
from conclave.client.asynchronous.operations import OperationsMethods
from conclave.client.asynchronous.quorum import QuorumMethods
from conclave.client.asynchronous.reports import ReportsMethods
from conclave.client.asynchronous.scram_users import ScramUsersMethods
from conclave.client.asynchronous.topics import TopicsMethods
from conclave.client.asynchronous.transactions import TransactionsMethods


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
