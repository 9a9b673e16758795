"""The broker ends when its heartbeats fail."""

import asyncio
import uuid
from typing import cast

from kraft_core.broker.broker_lifecycle_manager import BrokerIdentity, BrokerLifecycleConfig, BrokerLifecycleManager
from kraft_core.broker.node_to_controller_channel_manager import NodeToControllerChannelManager


class FaultyChannel:
    knows_leader = True

    async def request(self, *arguments: object, **options: object) -> object:
        raise ZeroDivisionError("a bug")


async def nothing() -> None:
    """Do nothing about unsupported features."""


def test_a_bug_in_the_heartbeats_ends_the_broker() -> None:
    async def main() -> None:
        identity = BrokerIdentity(
            broker_id=1,
            cluster_id="c",
            incarnation_id=uuid.uuid4(),
            listeners=(),
            rack=None,
            directories=(),
            previous_epoch=-1,
        )
        lifecycle = BrokerLifecycleManager(
            BrokerLifecycleConfig(),
            identity,
            cast("NodeToControllerChannelManager", FaultyChannel()),
            lambda: 0,
            nothing,
        )
        lifecycle.start()
        assert "ZeroDivisionError: a bug" in await asyncio.wait_for(lifecycle.failed, 10)
        await lifecycle.stop()

    asyncio.run(main())
