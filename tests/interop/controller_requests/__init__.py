"""A long list of requests to a controller, right and wrong ones, that two controllers get in the same order.

Each is a name, a function from what the side knows (topic ids, broker epochs, the cluster id) to the message, and the
version it is sent in. Topics get their replicas by hand, so that both sides place them alike. Left out is what makes
Apache's controller fail and resign (one key twice in a resource, an unknown config operation, an unknown recovery
state, a growth by more records than a batch takes) and null as a topic's config value, which ours refuses.
"""

from tests.interop.controller_requests.brokers import broker_requests
from tests.interop.controller_requests.case import Case
from tests.interop.controller_requests.configs import config_requests
from tests.interop.controller_requests.features import feature_requests
from tests.interop.controller_requests.partitions import isr_requests, reassignment_requests
from tests.interop.controller_requests.topics import deletion_requests, topic_requests


def all_requests() -> list[Case]:
    """The whole list, in order."""
    return [
        *broker_requests(),
        *topic_requests(),
        *config_requests(),
        *isr_requests(),
        *reassignment_requests(),
        *deletion_requests(),
        *feature_requests(),
    ]
