"""Methods about configs. Made from the OpenAPI document by `make client`. Change the routes, not this file."""

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from conclave.client.calls import Call
from conclave.client.methods import AsyncMethods
from conclave.client.models.configs import (
    AlterEntry,
    AlterTopicEntry,
    AlterTopicsFailureDataList,
    BrokerConfigData,
    BrokerConfigDataList,
    ClientMetricsConfigData,
    ClientMetricsConfigDataList,
    ClusterConfigData,
    ClusterConfigDataList,
    ConsumerGroupConfigData,
    ConsumerGroupConfigDataList,
    TopicConfigData,
    TopicConfigDataList,
)
from conclave.client.models.shared import DryRunData
from conclave.client.pages import AsyncPages


class ConfigsMethods(AsyncMethods):
    """Methods about configs."""

    def list_all_topic_configs(
        self, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> AsyncPages[TopicConfigDataList, TopicConfigData]:
        """List the configs of all topics by topic and name."""
        return AsyncPages(
            self._send,
            Call[TopicConfigDataList](
                "GET",
                "/v3/clusters/{cluster_id}/topics/-/configs",
                {200: TopicConfigDataList},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def list_default_topic_configs(
        self, topic_name: str, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> AsyncPages[TopicConfigDataList, TopicConfigData]:
        """List the configs that a topic of this name would have if it set none; it need not exist."""
        return AsyncPages(
            self._send,
            Call[TopicConfigDataList](
                "GET",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/default-configs",
                {200: TopicConfigDataList},
                path={"topic_name": topic_name},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    async def alter_all_topic_configs(
        self, *, data: Sequence[AlterTopicEntry], validate_only: bool = False
    ) -> AlterTopicsFailureDataList | None:
        """Change configs of several topics, all or none per topic: 204, or 207 with the failures."""
        return await self._send(
            Call[AlterTopicsFailureDataList | None](
                "POST",
                "/v3/clusters/{cluster_id}/topics/-/configs:alter",
                {204: None, 207: AlterTopicsFailureDataList},
                query={"validate_only": validate_only},
                body={"data": data},
            )
        )

    def list_all_broker_configs(
        self, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> AsyncPages[BrokerConfigDataList, BrokerConfigData]:
        """List the configs of all brokers by broker and name."""
        return AsyncPages(
            self._send,
            Call[BrokerConfigDataList](
                "GET",
                "/v3/clusters/{cluster_id}/brokers/-/configs",
                {200: BrokerConfigDataList},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    def list_topic_configs(
        self, topic_name: str, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> AsyncPages[TopicConfigDataList, TopicConfigData]:
        """List the configs by name."""
        return AsyncPages(
            self._send,
            Call[TopicConfigDataList](
                "GET",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/configs",
                {200: TopicConfigDataList},
                path={"topic_name": topic_name},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    async def get_topic_config(
        self, topic_name: str, name: str, *, at_offset: int | None = None, at: str | None = None
    ) -> TopicConfigData:
        """Describe one config."""
        return await self._send(
            Call[TopicConfigData](
                "GET",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/configs/{name}",
                {200: TopicConfigData},
                path={"topic_name": topic_name, "name": name},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    async def set_topic_config(
        self,
        topic_name: str,
        name: str,
        *,
        value: str | UnsetType | None = UNSET,
        validate_only: bool = False,
        if_match: str | None = None,
    ) -> DryRunData | None:
        """Set one config."""
        return await self._send(
            Call[DryRunData | None](
                "PUT",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/configs/{name}",
                {200: DryRunData, 204: None},
                path={"topic_name": topic_name, "name": name},
                query={"validate_only": validate_only},
                headers={"if-match": if_match},
                body={"value": value},
            )
        )

    async def reset_topic_config(
        self, topic_name: str, name: str, *, validate_only: bool = False, if_match: str | None = None
    ) -> DryRunData | None:
        """Reset one config to its default."""
        return await self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/configs/{name}",
                {200: DryRunData, 204: None},
                path={"topic_name": topic_name, "name": name},
                query={"validate_only": validate_only},
                headers={"if-match": if_match},
            )
        )

    async def alter_topic_configs(
        self, topic_name: str, *, data: Sequence[AlterEntry], validate_only: bool = False, if_match: str | None = None
    ) -> None:
        """Change several configs, all or none: 204, also with `validate_only`, as in REST v3."""
        return await self._send(
            Call[None](
                "POST",
                "/v3/clusters/{cluster_id}/topics/{topic_name}/configs:alter",
                {204: None},
                path={"topic_name": topic_name},
                query={"validate_only": validate_only},
                headers={"if-match": if_match},
                body={"data": data},
            )
        )

    def list_broker_configs(
        self, broker_id: int, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> AsyncPages[BrokerConfigDataList, BrokerConfigData]:
        """List the configs by name."""
        return AsyncPages(
            self._send,
            Call[BrokerConfigDataList](
                "GET",
                "/v3/clusters/{cluster_id}/brokers/{broker_id}/configs",
                {200: BrokerConfigDataList},
                path={"broker_id": broker_id},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    async def get_broker_config(
        self, broker_id: int, name: str, *, at_offset: int | None = None, at: str | None = None
    ) -> BrokerConfigData:
        """Describe one config."""
        return await self._send(
            Call[BrokerConfigData](
                "GET",
                "/v3/clusters/{cluster_id}/brokers/{broker_id}/configs/{name}",
                {200: BrokerConfigData},
                path={"broker_id": broker_id, "name": name},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    async def set_broker_config(
        self, broker_id: int, name: str, *, value: str | UnsetType | None = UNSET, validate_only: bool = False
    ) -> DryRunData | None:
        """Set one config."""
        return await self._send(
            Call[DryRunData | None](
                "PUT",
                "/v3/clusters/{cluster_id}/brokers/{broker_id}/configs/{name}",
                {200: DryRunData, 204: None},
                path={"broker_id": broker_id, "name": name},
                query={"validate_only": validate_only},
                body={"value": value},
            )
        )

    async def reset_broker_config(self, broker_id: int, name: str, *, validate_only: bool = False) -> DryRunData | None:
        """Reset one config to its default."""
        return await self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/clusters/{cluster_id}/brokers/{broker_id}/configs/{name}",
                {200: DryRunData, 204: None},
                path={"broker_id": broker_id, "name": name},
                query={"validate_only": validate_only},
            )
        )

    async def alter_broker_configs(
        self, broker_id: int, *, data: Sequence[AlterEntry], validate_only: bool = False
    ) -> None:
        """Change several configs, all or none: 204, also with `validate_only`, as in REST v3."""
        return await self._send(
            Call[None](
                "POST",
                "/v3/clusters/{cluster_id}/brokers/{broker_id}/configs:alter",
                {204: None},
                path={"broker_id": broker_id},
                query={"validate_only": validate_only},
                body={"data": data},
            )
        )

    def list_cluster_configs(
        self, *, at_offset: int | None = None, at: str | None = None, page_size: int | None = None
    ) -> AsyncPages[ClusterConfigDataList, ClusterConfigData]:
        """List the configs by name."""
        return AsyncPages(
            self._send,
            Call[ClusterConfigDataList](
                "GET",
                "/v3/clusters/{cluster_id}/broker-configs",
                {200: ClusterConfigDataList},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    async def get_cluster_config(
        self, name: str, *, at_offset: int | None = None, at: str | None = None
    ) -> ClusterConfigData:
        """Describe one config."""
        return await self._send(
            Call[ClusterConfigData](
                "GET",
                "/v3/clusters/{cluster_id}/broker-configs/{name}",
                {200: ClusterConfigData},
                path={"name": name},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    async def set_cluster_config(
        self, name: str, *, value: str | UnsetType | None = UNSET, validate_only: bool = False
    ) -> DryRunData | None:
        """Set one config."""
        return await self._send(
            Call[DryRunData | None](
                "PUT",
                "/v3/clusters/{cluster_id}/broker-configs/{name}",
                {200: DryRunData, 204: None},
                path={"name": name},
                query={"validate_only": validate_only},
                body={"value": value},
            )
        )

    async def reset_cluster_config(self, name: str, *, validate_only: bool = False) -> DryRunData | None:
        """Reset one config to its default."""
        return await self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/clusters/{cluster_id}/broker-configs/{name}",
                {200: DryRunData, 204: None},
                path={"name": name},
                query={"validate_only": validate_only},
            )
        )

    async def alter_cluster_configs(self, *, data: Sequence[AlterEntry], validate_only: bool = False) -> None:
        """Change several configs, all or none: 204, also with `validate_only`, as in REST v3."""
        return await self._send(
            Call[None](
                "POST",
                "/v3/clusters/{cluster_id}/broker-configs:alter",
                {204: None},
                query={"validate_only": validate_only},
                body={"data": data},
            )
        )

    def list_group_configs(
        self,
        consumer_group_id: str,
        *,
        at_offset: int | None = None,
        at: str | None = None,
        page_size: int | None = None,
    ) -> AsyncPages[ConsumerGroupConfigDataList, ConsumerGroupConfigData]:
        """List the configs by name."""
        return AsyncPages(
            self._send,
            Call[ConsumerGroupConfigDataList](
                "GET",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/configs",
                {200: ConsumerGroupConfigDataList},
                path={"consumer_group_id": consumer_group_id},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    async def get_group_config(
        self, consumer_group_id: str, name: str, *, at_offset: int | None = None, at: str | None = None
    ) -> ConsumerGroupConfigData:
        """Describe one config."""
        return await self._send(
            Call[ConsumerGroupConfigData](
                "GET",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/configs/{name}",
                {200: ConsumerGroupConfigData},
                path={"consumer_group_id": consumer_group_id, "name": name},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    async def set_group_config(
        self, consumer_group_id: str, name: str, *, value: str | UnsetType | None = UNSET, validate_only: bool = False
    ) -> DryRunData | None:
        """Set one config."""
        return await self._send(
            Call[DryRunData | None](
                "PUT",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/configs/{name}",
                {200: DryRunData, 204: None},
                path={"consumer_group_id": consumer_group_id, "name": name},
                query={"validate_only": validate_only},
                body={"value": value},
            )
        )

    async def reset_group_config(
        self, consumer_group_id: str, name: str, *, validate_only: bool = False
    ) -> DryRunData | None:
        """Reset one config to its default."""
        return await self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/configs/{name}",
                {200: DryRunData, 204: None},
                path={"consumer_group_id": consumer_group_id, "name": name},
                query={"validate_only": validate_only},
            )
        )

    async def alter_group_configs(
        self, consumer_group_id: str, *, data: Sequence[AlterEntry], validate_only: bool = False
    ) -> None:
        """Change several configs, all or none: 204, also with `validate_only`, as in REST v3."""
        return await self._send(
            Call[None](
                "POST",
                "/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/configs:alter",
                {204: None},
                path={"consumer_group_id": consumer_group_id},
                query={"validate_only": validate_only},
                body={"data": data},
            )
        )

    def list_client_metrics_configs(
        self,
        subscription_name: str,
        *,
        at_offset: int | None = None,
        at: str | None = None,
        page_size: int | None = None,
    ) -> AsyncPages[ClientMetricsConfigDataList, ClientMetricsConfigData]:
        """List the configs by name."""
        return AsyncPages(
            self._send,
            Call[ClientMetricsConfigDataList](
                "GET",
                "/v3/clusters/{cluster_id}/client-metrics/{subscription_name}/configs",
                {200: ClientMetricsConfigDataList},
                path={"subscription_name": subscription_name},
                query={"at_offset": at_offset, "at": at, "page_size": page_size},
                waits_for_offset=True,
            ),
        )

    async def get_client_metrics_config(
        self, subscription_name: str, name: str, *, at_offset: int | None = None, at: str | None = None
    ) -> ClientMetricsConfigData:
        """Describe one config."""
        return await self._send(
            Call[ClientMetricsConfigData](
                "GET",
                "/v3/clusters/{cluster_id}/client-metrics/{subscription_name}/configs/{name}",
                {200: ClientMetricsConfigData},
                path={"subscription_name": subscription_name, "name": name},
                query={"at_offset": at_offset, "at": at},
                waits_for_offset=True,
            )
        )

    async def set_client_metrics_config(
        self, subscription_name: str, name: str, *, value: str | UnsetType | None = UNSET, validate_only: bool = False
    ) -> DryRunData | None:
        """Set one config."""
        return await self._send(
            Call[DryRunData | None](
                "PUT",
                "/v3/clusters/{cluster_id}/client-metrics/{subscription_name}/configs/{name}",
                {200: DryRunData, 204: None},
                path={"subscription_name": subscription_name, "name": name},
                query={"validate_only": validate_only},
                body={"value": value},
            )
        )

    async def reset_client_metrics_config(
        self, subscription_name: str, name: str, *, validate_only: bool = False
    ) -> DryRunData | None:
        """Reset one config to its default."""
        return await self._send(
            Call[DryRunData | None](
                "DELETE",
                "/v3/clusters/{cluster_id}/client-metrics/{subscription_name}/configs/{name}",
                {200: DryRunData, 204: None},
                path={"subscription_name": subscription_name, "name": name},
                query={"validate_only": validate_only},
            )
        )

    async def alter_client_metrics_configs(
        self, subscription_name: str, *, data: Sequence[AlterEntry], validate_only: bool = False
    ) -> None:
        """Change several configs, all or none: 204, also with `validate_only`, as in REST v3."""
        return await self._send(
            Call[None](
                "POST",
                "/v3/clusters/{cluster_id}/client-metrics/{subscription_name}/configs:alter",
                {204: None},
                path={"subscription_name": subscription_name},
                query={"validate_only": validate_only},
                body={"data": data},
            )
        )
