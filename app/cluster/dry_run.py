"""Dry runs of requests whose protocol has no validate-only field.

The controllers' own rules run here on the image of this process, and their records are discarded. What the image lacks
is not checked: the controllers' settings (`delete.topic.enable`, their static configs) and their authorizer.
"""

import random
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from kraft_core.controller.access import acl_control_manager, scram_control_manager
from kraft_core.controller.brokers.broker_heartbeat_manager import BrokerHeartbeatManager
from kraft_core.controller.configuration_control_manager import ConfigurationControlManager
from kraft_core.controller.controller_config import ControllerConfig
from kraft_core.controller.controller_result import ControllerResult
from kraft_core.controller.partitions.alter_partition_reassignments import PartitionReassignments
from kraft_core.controller.partitions.leader_election import LeaderElection
from kraft_core.controller.partitions.replication_control_manager import ReplicationControlManager
from kraft_core.controller.partitions.topic_deletion import delete_topics
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol import messages as m
from kraft_core.protocol.metadata_records import PartitionChangeRecord
from kraft_core.protocol.wire import Message

Answer = TypeVar("Answer", bound=Message)

DELETE_TOPICS_VERSION: Final = 6

_RANDOM: Final = random.Random(0)  # noqa: S311 - draws ids that nobody ever sees
_CONFIG: Final = ControllerConfig(node_id=-1, cluster_id="")
_REPLICATION: Final = ReplicationControlManager(
    ConfigurationControlManager(_CONFIG), BrokerHeartbeatManager(_CONFIG.session_timeout_ms)
)
_ELECTIONS: Final = LeaderElection(_REPLICATION, _CONFIG.leader_balance_max_elections)
_REASSIGNMENTS: Final = PartitionReassignments(_REPLICATION)


def dry_run_response(image: MetadataImage, request: Message, answer: type[Answer]) -> Answer:
    """Return the response that the active controller would give on `image`; `answer` is its class.

    Raises KafkaError where the controller would respond with an error alone. Raises TypeError for a request that has a
    validate-only field.
    """
    return cast("Answer", _result(image, request).response)


def dry_run_elections(
    image: MetadataImage, request: m.ElectLeadersRequest
) -> tuple[m.ElectLeadersResponse, dict[tuple[UUID, int], int]]:
    """Return the response of `dry_run_response`, and the new leaders by (topic id, partition)."""
    result = _ELECTIONS.elect_leaders(image, request)
    changes = (each for each in result.records if isinstance(each, PartitionChangeRecord))
    return result.response, {(each.topic_id, each.partition_id): each.leader for each in changes}


def _result(image: MetadataImage, request: Message) -> ControllerResult[Any]:
    match request:
        case m.DeleteTopicsRequest():
            return delete_topics(image, request, DELETE_TOPICS_VERSION, _CONFIG, _RANDOM)
        case m.ElectLeadersRequest():
            return _ELECTIONS.elect_leaders(image, request)
        case m.AlterPartitionReassignmentsRequest():
            return _REASSIGNMENTS.alter(image, request)
        case m.UnregisterBrokerRequest():
            return _REPLICATION.unregister_broker(image, request)
        case m.CreateAclsRequest():
            return acl_control_manager.create_acls(image, request, _RANDOM)
        case m.DeleteAclsRequest():
            return acl_control_manager.delete_acls(image, request)
        case m.AlterUserScramCredentialsRequest():
            return scram_control_manager.alter_user_scram_credentials(image, request)
        case _:
            raise TypeError(f"{type(request).__name__} has a validate-only field")
