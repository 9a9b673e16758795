"""The new leader in a Fetch or Produce response, so that a client need not request metadata first.

Source: KafkaApis.getCurrentLeader, Kafka 4.3.1; KIP-951.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from kraft_core.broker.metadata_cache import MetadataCache
from kraft_core.server.network.request import Request

LeaderT = TypeVar("LeaderT")
EndpointT = TypeVar("EndpointT")


class CurrentLeaders(Generic[LeaderT, EndpointT]):
    """The leaders named in the response to one request, with their endpoints on the request's listener.

    `leader` and `endpoint` are the message classes of the response, which has them from version `since` on.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        request: Request,
        since: int,
        leader: Callable[..., LeaderT],
        endpoint: Callable[..., EndpointT],
    ) -> None:
        self._metadata = metadata
        self._listener_name = request.listener_name
        self._is_supported = request.header.api_version >= since
        self._leader = leader
        self._endpoint = endpoint
        self._named: set[int] = set()

    def of(self, topic: str | None, index: int) -> LeaderT:
        """Return the leader and leader epoch of a partition; the message's defaults if it does not exist."""
        partition = self._metadata.partition(topic, index) if topic is not None and self._is_supported else None
        if partition is None:
            return self._leader()
        self._named.add(partition.leader)
        return self._leader(leader_id=partition.leader, leader_epoch=partition.leader_epoch)

    def endpoints(self) -> tuple[EndpointT, ...]:
        """Return the endpoints of the leaders that are unfenced."""
        return tuple(
            self._endpoint(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in self._metadata.alive_of(self._named, self._listener_name)
        )
