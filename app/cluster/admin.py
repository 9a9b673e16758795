"""The changes of a cluster, by subject."""

from app.cluster.acls import AclAdmin
from app.cluster.brokers import BrokerAdmin
from app.cluster.configs import ConfigAdmin
from app.cluster.delegation_tokens import DelegationTokenAdmin
from app.cluster.features import FeatureAdmin
from app.cluster.history import History
from app.cluster.partitions import PartitionAdmin
from app.cluster.quorum_watch import QuorumWatch
from app.cluster.quotas import QuotaAdmin
from app.cluster.scram import ScramAdmin
from app.cluster.topics import TopicAdmin
from app.cluster.voters import VoterAdmin
from kraft_core.clients.kafka_client import ControllerClient
from kraft_core.clients.metadata_observer import MetadataObserver


class Admin:
    """Requests that change the cluster. `timeout_ms` bounds each request, including the wait for the image.

    All raise KafkaError when the controller refuses, and a subclass of ConnectionError when none can be reached.
    """

    def __init__(
        self,
        client: ControllerClient,
        observer: MetadataObserver,
        history: History,
        quorum: QuorumWatch,
        timeout_ms: int,
    ) -> None:
        self.acls = AclAdmin(client, observer, history, quorum, timeout_ms)
        self.brokers = BrokerAdmin(client, observer, history, quorum, timeout_ms)
        self.configs = ConfigAdmin(client, observer, history, quorum, timeout_ms)
        self.delegation_tokens = DelegationTokenAdmin(client, observer, history, quorum, timeout_ms)
        self.features = FeatureAdmin(client, observer, history, quorum, timeout_ms)
        self.partitions = PartitionAdmin(client, observer, history, quorum, timeout_ms)
        self.quotas = QuotaAdmin(client, observer, history, quorum, timeout_ms)
        self.scram = ScramAdmin(client, observer, history, quorum, timeout_ms)
        self.topics = TopicAdmin(client, observer, history, quorum, timeout_ms)
        self.voters = VoterAdmin(client, observer, history, quorum, timeout_ms)
