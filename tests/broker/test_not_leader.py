"""What a broker answers about partitions that it does not lead."""

import asyncio
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kraft_core.broker.apis.current_leaders import CurrentLeaders
from kraft_core.broker.log.log_config import LogConfig
from kraft_core.broker.log.log_directory import LogDirectory
from kraft_core.broker.log.log_manager import LogManager, LogManagerConfig
from kraft_core.broker.metadata_cache import MetadataCache
from kraft_core.broker.replica_manager import ReplicaManager
from kraft_core.clients.metadata_source import MetadataSource
from kraft_core.image.metadata_delta import replay_all
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import FetchResponseLeaderIdAndEpoch, FetchResponseNodeEndpoint
from kraft_core.protocol.metadata_records import (
    RegisterBrokerRecord,
    RegisterBrokerRecordBrokerEndpoint,
    UnfenceBrokerRecord,
)
from kraft_core.server.network.request import Request
from tests.broker.metadata import BROKER_ID, INCARNATION_ID, image_of

TOPIC_ID = uuid.UUID(int=4)
OTHER_BROKER = 2
NEW_LEADER_SINCE = 16


def test_a_partition_elsewhere_has_another_leader_and_an_absent_one_is_unknown(tmp_path: Path) -> None:
    async def run() -> None:
        logs = LogManager([LogDirectory(tmp_path, uuid.UUID(int=1))], LogManagerConfig(), lambda topic: LogConfig())
        replicas = ReplicaManager(OTHER_BROKER, logs, lambda: 0)
        replicas.on_image(MetadataImage.EMPTY, image_of({"t": (TOPIC_ID, 1)}), ())
        for topic, index, code in (
            ("t", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ("t", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("absent", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ):
            with pytest.raises(KafkaError) as failure:
                replicas.leader(topic, index)
            assert failure.value.code == code

    asyncio.run(run())


@pytest.mark.parametrize("version", [NEW_LEADER_SINCE - 1, NEW_LEADER_SINCE])
def test_a_response_names_new_leaders_and_their_endpoints_since_kip_951(version: int) -> None:
    registered = RegisterBrokerRecord(
        broker_id=BROKER_ID,
        incarnation_id=INCARNATION_ID,
        broker_epoch=5,
        end_points=(RegisterBrokerRecordBrokerEndpoint(name="L", host="h", port=9092, security_protocol=0),),
    )
    records = [registered, UnfenceBrokerRecord(id=BROKER_ID, epoch=5)]
    image = replay_all(image_of({"t": (TOPIC_ID, 1)}), records, 10, 1)
    metadata = MetadataCache(cast("MetadataSource", SimpleNamespace(image=image)), OTHER_BROKER, {})
    request = SimpleNamespace(listener_name="L", header=SimpleNamespace(api_version=version))

    leaders = CurrentLeaders(
        metadata,
        cast("Request", request),
        NEW_LEADER_SINCE,
        FetchResponseLeaderIdAndEpoch,
        FetchResponseNodeEndpoint,
    )

    assert leaders.of("absent", 0) == leaders.of(None, 0) == FetchResponseLeaderIdAndEpoch()
    assert leaders.endpoints() == ()
    if version < NEW_LEADER_SINCE:
        assert leaders.of("t", 0) == FetchResponseLeaderIdAndEpoch()
        assert leaders.endpoints() == ()
    else:
        assert leaders.of("t", 0) == FetchResponseLeaderIdAndEpoch(leader_id=BROKER_ID, leader_epoch=0)
        assert leaders.endpoints() == (FetchResponseNodeEndpoint(node_id=BROKER_ID, host="h", port=9092, rack=""),)
