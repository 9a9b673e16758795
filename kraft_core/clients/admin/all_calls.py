"""All operations of Admin, for a class that carries out calls: on an event loop, or in tests on a virtual clock."""

from kraft_core.clients.admin.acls import AclCalls
from kraft_core.clients.admin.configs import ConfigCalls
from kraft_core.clients.admin.delegation_tokens import DelegationTokenCalls
from kraft_core.clients.admin.group_offsets import GroupOffsetCalls
from kraft_core.clients.admin.groups_of_all_types import AllGroupCalls
from kraft_core.clients.admin.log_dirs import LogDirCalls
from kraft_core.clients.admin.offsets import OffsetCalls
from kraft_core.clients.admin.partitions import PartitionCalls
from kraft_core.clients.admin.quotas import QuotaCalls
from kraft_core.clients.admin.scram import ScramCalls
from kraft_core.clients.admin.topics import TopicCalls
from kraft_core.clients.admin.transactions import TransactionCalls


class AllCalls(
    TopicCalls,
    PartitionCalls,
    OffsetCalls,
    ConfigCalls,
    AllGroupCalls,
    GroupOffsetCalls,
    TransactionCalls,
    LogDirCalls,
    AclCalls,
    QuotaCalls,
    ScramCalls,
    DelegationTokenCalls,
):
    """The operations by subject; those on the cluster come with AllGroupCalls."""
