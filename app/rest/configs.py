"""Configs of topics, brokers, groups and client metrics: read, set, reset, alter in batches."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel

from app.actions.audited import Caller
from app.http.errors import ApiError, of_kafka
from app.rest.conditions import IfMatch, check_if_match, topic_etag
from app.rest.paging import PageDep
from app.rest.responses import DRY_RUN, answer, multi_status, no_content, planned
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.configs import (
    AlterBody,
    AlterEntry,
    AlterTopicsBody,
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
    UpdateConfigBody,
)
from app.rest.validation import refuse_repeated
from app.rest.view import NowViewDep, View, ViewDep, check_topic_name
from app.security.roles import Role
from app.services import ConfigEditor, Reader, Requires, ServicesDep
from kraft_core.clients.admin.configs import ConfigChange
from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.configs.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.configs.definitions import config_def
from kraft_core.configs.effective_config import ConfigEntry, ConfigSource, topic_entries
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=["configs"], route_class=JsonRoute)

ResourceName = Annotated[str, Path(min_length=1, max_length=1_000)]
GroupName = Annotated[ResourceName, AfterValidator(unquote)]
"""The path segment of a group's id, which reaches the route encoded (see app.http.paths)."""
Change = Callable[[Caller, Sequence[ConfigChange], bool], Awaitable[int | None]]

_SOURCES: Final = {
    ConfigSource.CLIENT_METRICS_CONFIG: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ConfigSource.GROUP_CONFIG: "DYNAMIC_GROUP_CONFIG",
}


def _source(source: ConfigSource) -> str:
    return _SOURCES.get(source, source.name)


@dataclass(frozen=True, slots=True)
class ConfigKind:
    """How the configs of one kind of resource are named.

    `what` names the resource in REST v3's errors, `crn` in Confluent's resource names; `member` holds its id.
    """

    kind: str
    resource_type: int
    what: str
    collection: str
    crn: str
    member: str

    def config_data(self, view: View, resource: str | int | None, entry: ConfigEntry) -> dict[str, Any]:
        """Return one config. Sensitive values are null; `type` and `documentation` are additions to REST v3."""
        path = (self.collection,) if resource is None else (self.collection, resource, "configs")
        return view.resource(
            self.kind,
            (*path, entry.name),
            ((self.crn, "" if resource is None else resource), ("config", entry.name)),
            name=entry.name,
            value=None if entry.is_sensitive else entry.value,
            is_default=entry.is_default,
            is_read_only=entry.is_read_only,
            is_sensitive=entry.is_sensitive,
            source=_source(entry.source),
            synonyms=[
                {
                    "name": synonym.name,
                    "value": None if entry.is_sensitive else synonym.value,
                    "source": _source(synonym.source),
                }
                for synonym in entry.synonyms
            ],
            type=None if entry.type is None else entry.type.name,
            documentation=entry.documentation or None,
            **{self.member: self.what if resource is None else resource},
        )

    def title(self, resource: str | int | None) -> str:
        """Return the resource's name in errors, such as `TOPIC orders`."""
        return self.what if resource is None else f"{self.what} {resource}"

    def unknown(self, view: View, resource: str | int | None, name: str) -> ApiError:
        """Return the 404 for a config that the resource does not have."""
        return view.not_found(f"Config {name}", f"for {self.title(resource)}")

    def changes(self, view: View, resource: str | int | None, entries: Sequence[AlterEntry]) -> list[ConfigChange]:
        """Return the changes that the entries ask for.

        Raises NotFoundError for an unknown config, as REST v3 does before it asks Kafka; KafkaError INVALID_CONFIG for
        a missing value, INVALID_REQUEST for a repeated config.
        """
        known = config_def(self.resource_type)
        changes: list[ConfigChange] = []
        for entry in entries:
            if entry.name not in known:
                raise self.unknown(view, resource, entry.name)
            operation = AlterConfigOp[entry.operation or "SET"]
            if operation is not AlterConfigOp.DELETE and entry.value is None:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for: {entry.name}")
            changes.append(ConfigChange(entry.name, operation, entry.value))
        refuse_repeated("Config", (change.name for change in changes))
        return changes


TOPIC_CONFIG: Final = ConfigKind("KafkaTopicConfig", TOPIC, "TOPIC", "topics", "topic", "topic_name")
BROKER_CONFIG: Final = ConfigKind("KafkaBrokerConfig", BROKER, "BROKER", "brokers", "broker", "broker_id")
CLUSTER_CONFIG: Final = ConfigKind(
    "KafkaClusterConfig", BROKER, "BROKER", "broker-configs", "broker-config", "config_type"
)
GROUP_CONFIG: Final = ConfigKind(
    "KafkaConsumerGroupConfig", GROUP, "GROUP", "consumer-groups", "consumer-group", "consumer_group_id"
)
CLIENT_METRICS_CONFIG: Final = ConfigKind(
    "KafkaClientMetricsConfig",
    CLIENT_METRICS,
    "CLIENT_METRICS",
    "client-metrics",
    "client-metrics",
    "subscription_name",
)


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """The resource whose configs a request is about; `resource` None stands for all brokers.

    `change` makes changes, all or none, and returns their offset; with True it only validates them and returns None.
    """

    view: View
    kind: ConfigKind
    resource: str | int | None
    entries: Callable[[], list[ConfigEntry]]
    change: Change

    def config_data(self, entry: ConfigEntry) -> dict[str, Any]:
        """Return one config of the resource."""
        return self.kind.config_data(self.view, self.resource, entry)

    def find(self, name: str) -> ConfigEntry:
        """Return one config. Raises NotFoundError."""
        found = next((entry for entry in self.entries() if entry.name == name), None)
        if found is None:
            raise self.kind.unknown(self.view, self.resource, name)
        return found

    async def alter(self, caller: Caller, entries: Sequence[AlterEntry], *, validate_only: bool) -> Response:
        """Change configs, all or none."""
        changes = self.kind.changes(self.view, self.resource, entries)
        return no_content(await self.change(caller, changes, validate_only))

    async def alter_one(self, caller: Caller, entry: AlterEntry, *, validate_only: bool) -> Response:
        """Change one config. A dry run answers with the value before and after; null after a reset."""
        done = await self.alter(caller, [entry], validate_only=validate_only)
        if not validate_only:
            return done
        before = self.find(entry.name)
        what = f"{self.kind.title(self.resource)}: {entry.name}"
        return planned([(what, None, None) if before.is_sensitive else (what, before.value, entry.value)])


async def topic_resource(
    request: Request, topic_name: str, view: ViewDep, services: ServicesDep, if_match: IfMatch = None
) -> ConfigResource:
    """Return a topic. Raises KafkaError, and PreconditionFailedError when a change's If-Match names another state."""
    topic = view.topic(topic_name)
    if request.method != "GET":
        check_if_match(if_match, topic_etag(view.image, topic))
    return ConfigResource(
        view,
        TOPIC_CONFIG,
        topic_name,
        lambda: view.cluster.topic_configs(topic_name, view.image),
        lambda caller, changes, only: services.actions.configs.alter_topic(
            caller, topic_name, changes, validate_only=only
        ),
    )


async def broker_resource(broker_id: int, view: ViewDep, services: ServicesDep) -> ConfigResource:
    """Return a broker. Raises NotFoundError."""
    view.broker(broker_id)
    return ConfigResource(
        view,
        BROKER_CONFIG,
        broker_id,
        lambda: view.cluster.broker_configs(broker_id, view.image),
        lambda caller, changes, only: services.actions.configs.alter_broker(
            caller, broker_id, changes, validate_only=only
        ),
    )


async def cluster_resource(view: ViewDep, services: ServicesDep) -> ConfigResource:
    """Return the resource for all brokers."""
    return ConfigResource(
        view,
        CLUSTER_CONFIG,
        None,
        lambda: view.cluster.cluster_configs(view.image),
        lambda caller, changes, only: services.actions.configs.alter_broker(caller, None, changes, validate_only=only),
    )


async def group_resource(consumer_group_id: GroupName, view: ViewDep, services: ServicesDep) -> ConfigResource:
    """Return a consumer group. It need not exist: its configs are kept by the quorum alone."""
    return ConfigResource(
        view,
        GROUP_CONFIG,
        consumer_group_id,
        lambda: view.cluster.group_configs(consumer_group_id, view.image),
        lambda caller, changes, only: services.actions.configs.alter_group(
            caller, consumer_group_id, changes, validate_only=only
        ),
    )


async def client_metrics_resource(
    subscription_name: ResourceName, view: ViewDep, services: ServicesDep
) -> ConfigResource:
    """Return a client metrics subscription (KIP-714). It exists as soon as it has a config."""
    return ConfigResource(
        view,
        CLIENT_METRICS_CONFIG,
        subscription_name,
        lambda: view.cluster.client_metrics_configs(subscription_name, view.image),
        lambda caller, changes, only: services.actions.configs.alter_client_metrics(
            caller, subscription_name, changes, validate_only=only
        ),
    )


# all topics, all brokers


@router.get("/topics/-/configs", responses={200: {"model": TopicConfigDataList}})
async def list_all_topic_configs(view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the configs of all topics by topic and name."""
    names = sorted(view.image.topics.by_name)
    per_topic = sum(not key.is_internal for key in config_def(TOPIC).values())
    page.check_after(str, str)
    if page.after is not None:
        names = [name for name in names if name >= page.after[0]]
    needed = names[: page.size // per_topic + 2]  # enough topics for one page and one more entry
    entries = [(name, entry) for name in needed for entry in view.cluster.topic_configs(name, view.image)]
    return page.answer(
        "KafkaTopicConfigList",
        entries,
        lambda item: (item[0], item[1].name),
        lambda item: TOPIC_CONFIG.config_data(view, *item),
    )


@router.get("/topics/{topic_name}/default-configs", responses={200: {"model": TopicConfigDataList}})
async def list_default_topic_configs(topic_name: str, view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the configs that a topic of this name would have if it set none; it need not exist."""
    check_topic_name(topic_name)
    return page.answer(
        "KafkaTopicConfigList",
        topic_entries({}, view.cluster.topic_defaults(view.image)),
        lambda entry: entry.name,
        lambda entry: TOPIC_CONFIG.config_data(view, topic_name, entry),
    )


@router.post(
    "/topics/-/configs:alter",
    status_code=204,
    responses={207: {"model": AlterTopicsFailureDataList, "description": "some topics were refused"}},
)
async def alter_all_topic_configs(
    view: NowViewDep, body: AlterTopicsBody, services: ServicesDep, caller: ConfigEditor, validate_only: DryRun
) -> Response:
    """Change configs of several topics, all or none per topic: 204, or 207 with the failures."""
    refuse_repeated("Topic", (entry.topic_name for entry in body.data))
    changes = {entry.topic_name: TOPIC_CONFIG.changes(view, entry.topic_name, entry.configs) for entry in body.data}
    offset, failures = await services.actions.configs.alter_topics(caller, changes, validate_only=validate_only)
    if not failures:
        return no_content(offset)
    listed = []
    for name, error in failures.items():
        refused, _ = of_kafka(error, v3=True)
        listed.append({"topic_name": name, "error_code": refused.error_code, "message": refused.message})
    return multi_status({"failures": listed}, offset)


@router.get("/brokers/-/configs", responses={200: {"model": BrokerConfigDataList}})
async def list_all_broker_configs(view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the configs of all brokers by broker and name."""
    entries = [
        (broker_id, entry)
        for broker_id in sorted(view.image.cluster.brokers)
        for entry in view.cluster.broker_configs(broker_id, view.image)
    ]
    return page.answer(
        "KafkaBrokerConfigList",
        entries,
        lambda item: (item[0], item[1].name),
        lambda item: BROKER_CONFIG.config_data(view, *item),
    )


# one resource


def _add_routes(
    subject: str,
    path: str,
    models: tuple[type[BaseModel], type[BaseModel]],
    find_resource: Callable[..., Awaitable[ConfigResource]],
    editor: Requires,
) -> None:
    """Add the five operations on the configs of a resource. `models`: of one config, and of a list.

    Their ids contain the `subject`.

    The caller's role is checked before the resource is looked up.
    """

    @router.get(path, operation_id=f"list_{subject}_configs", responses={200: {"model": models[1]}})
    async def list_configs(
        _caller: Reader, resource: Annotated[ConfigResource, Depends(find_resource)], page: PageDep
    ) -> Response:
        """List the configs by name."""
        return page.answer(
            f"{resource.kind.kind}List", resource.entries(), lambda entry: entry.name, resource.config_data
        )

    @router.get(path + "/{name}", operation_id=f"get_{subject}_config", responses={200: {"model": models[0]}})
    async def get_config(
        name: str, _caller: Reader, resource: Annotated[ConfigResource, Depends(find_resource)]
    ) -> Response:
        """Describe one config."""
        return answer(resource.config_data(resource.find(name)), resource.view.offset)

    @router.put(path + "/{name}", operation_id=f"set_{subject}_config", status_code=204, responses=DRY_RUN)
    async def set_config(
        name: str,
        body: UpdateConfigBody,
        caller: Annotated[Caller, Depends(editor)],
        resource: Annotated[ConfigResource, Depends(find_resource)],
        validate_only: DryRun,
    ) -> Response:
        """Set one config."""
        return await resource.alter_one(caller, AlterEntry(name=name, value=body.value), validate_only=validate_only)

    @router.delete(path + "/{name}", operation_id=f"reset_{subject}_config", status_code=204, responses=DRY_RUN)
    async def reset_config(
        name: str,
        caller: Annotated[Caller, Depends(editor)],
        resource: Annotated[ConfigResource, Depends(find_resource)],
        validate_only: DryRun,
    ) -> Response:
        """Reset one config to its default."""
        return await resource.alter_one(caller, AlterEntry(name=name, operation="DELETE"), validate_only=validate_only)

    @router.post(path + ":alter", operation_id=f"alter_{subject}_configs", status_code=204)
    async def alter_configs(
        body: AlterBody,
        caller: Annotated[Caller, Depends(editor)],
        resource: Annotated[ConfigResource, Depends(find_resource)],
        validate_only: DryRun,
    ) -> Response:
        """Change several configs, all or none: 204, also with `validate_only`, as in REST v3."""
        return await resource.alter(caller, body.data, validate_only=validate_only)


_EDITOR: Final = Requires(Role.EDITOR, "configs")
_ADMIN: Final = Requires(Role.ADMIN, "configs")

_add_routes("topic", "/topics/{topic_name}/configs", (TopicConfigData, TopicConfigDataList), topic_resource, _EDITOR)
_add_routes("broker", "/brokers/{broker_id}/configs", (BrokerConfigData, BrokerConfigDataList), broker_resource, _ADMIN)
_add_routes("cluster", "/broker-configs", (ClusterConfigData, ClusterConfigDataList), cluster_resource, _ADMIN)
_add_routes(
    "group",
    "/consumer-groups/{consumer_group_id}/configs",
    (ConsumerGroupConfigData, ConsumerGroupConfigDataList),
    group_resource,
    _EDITOR,
)
_add_routes(
    "client_metrics",
    "/client-metrics/{subscription_name}/configs",
    (ClientMetricsConfigData, ClientMetricsConfigDataList),
    client_metrics_resource,
    _ADMIN,
)
