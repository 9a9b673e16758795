"""The heartbeats of a broker do not end unnoticed."""

import asyncio
import uuid
from typing import cast

from kraft_core.broker.broker_lifecycle_manager import BrokerIdentity, BrokerLifecycleManager, LifecycleConfig
from kraft_core.broker.node_to_controller_channel_manager import NodeToControllerChannelManager


class FaultyChannel:
    knows_leader = True

    async def ask(self, *arguments: object, **options: object) -> object:
        raise ZeroDivisionError("a bug")


async def nothing() -> None:
    """Features are not what this is about."""


def test_a_fault_of_our_own_ends_the_broker():
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
            LifecycleConfig(), identity, cast("NodeToControllerChannelManager", FaultyChannel()), lambda: 0, nothing
        )
        lifecycle.start()
        assert "ZeroDivisionError: a bug" in await asyncio.wait_for(lifecycle.failed, 10)
        await lifecycle.stop()

    asyncio.run(main())
