"""Static configs of brokers, from their server.properties. The metadata log does not have them.

Each broker is asked once per registration, in the background; no page waits for it. A broker that does not answer is
asked again later. Until then only its dynamic configs and defaults are shown.
"""

import asyncio
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, cast

from app.cluster.broker_requests import BrokerRequests, NoListenerError
from app.tasks import cancel_tasks
from kraft_core.configs.config_resource import BROKER
from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    DescribeConfigsResponse,
)

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 30
STATIC_BROKER_CONFIG: Final = 4
HIDDEN: Final = "[hidden]"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class BrokerStaticConfigs:
    """Static configs by broker id. `follow` is called with each new image."""

    def __init__(self, requests: BrokerRequests) -> None:
        self._requests = requests
        self._known: dict[int, tuple[int, Mapping[str, str]]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._wanted: Mapping[int, BrokerRegistration] = {}

    def of(self, broker_id: int) -> Mapping[str, str]:
        """Return the known static configs of one broker, sensitive values hidden; empty when unknown."""
        return self._known.get(broker_id, (0, _NOTHING))[1]

    def of_any(self) -> Mapping[str, str]:
        """Return the static configs of the unfenced broker with the lowest known id. Topics inherit from these."""
        for broker_id in sorted(self._wanted):
            if not self._wanted[broker_id].fenced and broker_id in self._known:
                return self._known[broker_id][1]
        return _NOTHING

    def follow(self, image: MetadataImage) -> None:
        """Ask brokers that have registered since the last call, and forget brokers that are gone."""
        brokers = dict(image.cluster.brokers.items())
        self._wanted = brokers
        for gone in self._known.keys() - brokers.keys():
            del self._known[gone]
        for broker_id, broker in brokers.items():
            fresh = broker_id in self._known and self._known[broker_id][0] == broker.epoch
            if not broker.fenced and not fresh and broker_id not in self._tasks:
                task = asyncio.create_task(self._ask_until_known(broker_id), name=f"broker-configs-{broker_id}")
                self._tasks[broker_id] = task

    async def stop(self) -> None:
        """Cancel pending requests."""
        await cancel_tasks(*self._tasks.values())

    async def _ask_until_known(self, broker_id: int) -> None:
        try:
            while (broker := self._wanted.get(broker_id)) is not None and not broker.fenced:
                if self._known.get(broker_id, (-1, _NOTHING))[0] == broker.epoch:
                    return
                try:
                    self._known[broker_id] = (broker.epoch, await _ask(self._requests, broker))
                except (ConnectionError, KafkaError) as cause:
                    log.info("broker_configs_unknown", extra={"broker_id": broker_id, "cause": str(cause)})
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._tasks.pop(broker_id, None)


async def _ask(requests: BrokerRequests, broker: BrokerRegistration) -> Mapping[str, str]:
    resource = DescribeConfigsRequestDescribeConfigsResource(
        resource_type=BROKER, resource_name=str(broker.id), configuration_keys=None
    )
    try:
        found = await requests.send(broker, DescribeConfigsRequest(resources=(resource,), include_synonyms=True))
    except NoListenerError:
        return _NOTHING
    answer = cast("DescribeConfigsResponse", found)
    if not answer.results or answer.results[0].error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(answer.results[0].error_code if answer.results else -1))
    return MappingProxyType(
        {
            synonym.name: HIDDEN if synonym.value is None else synonym.value
            for config in answer.results[0].configs
            for synonym in config.synonyms
            if synonym.source == STATIC_BROKER_CONFIG
        }
    )
