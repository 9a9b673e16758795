"""What the sender of a request may do, asked by the managers while they process it.

The authorizer and the quotas belong to the server; managers only need these answers. Without an authorizer everything
is allowed, as in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraft_core.protocol.acl import SUPPORTED_OPERATIONS, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


def allow(_name: str) -> bool:
    """Return True: the answer without an authorizer."""
    return True


def allow_resource(_resource_type: int, _resource_name: str) -> bool:
    """Return True: the answer without an authorizer."""
    return True


def all_cluster_operations() -> int:
    """Return every operation on a cluster, bit n for code n: the answer without an authorizer."""
    return sum(1 << operation for operation in SUPPORTED_OPERATIONS[ResourceType.CLUSTER])


def no_quota(_partition_count: int) -> None:
    """Accept any number of partition changes."""


@dataclass(frozen=True, slots=True)
class RequestAccess:
    """The rights of one request's sender. A right on the cluster counts for every topic.

    - `may_…`: predicates of a topic name; `may_alter_configs` and `may_describe_configs_of` take a config resource's
      type and name, `may_create_tokens` the principal that owns the token.
    - `cluster_operations`: the operations allowed on the cluster, as bits (KIP-430).
    - `apply_partition_change_quota`: takes the number of partitions created or deleted; raises KafkaError
      THROTTLING_QUOTA_EXCEEDED when the quota is exceeded.
    - `is_forwarded`: a broker sent the request in an Envelope.
    - `controller_ids`: the voters, which have configs too.
    """

    may_create: Callable[[str], bool] = allow
    may_delete: Callable[[str], bool] = allow
    may_describe: Callable[[str], bool] = allow
    may_alter: Callable[[str], bool] = allow
    may_describe_configs: Callable[[str], bool] = allow
    may_alter_configs: Callable[[int, str], bool] = allow_resource
    may_describe_configs_of: Callable[[int, str], bool] = allow_resource
    may_create_tokens: Callable[[str], bool] = allow
    cluster_operations: Callable[[], int] = all_cluster_operations
    apply_partition_change_quota: Callable[[int], None] = no_quota
    is_forwarded: bool = False
    controller_ids: Collection[int] = ()


EVERYTHING = RequestAccess()
"""All rights, and no quota."""
