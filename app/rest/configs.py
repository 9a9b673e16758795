"""Configs of topics, brokers and of all brokers at once: read with source and documentation, set, reset, alter in batches."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.actions.audited import Caller
from app.cluster.configs import ConfigChange
from app.http.errors import ApiError, of_kafka
from app.rest.common import (
    DRY_RUN,
    PageDep,
    View,
    ViewDep,
    answer,
    check_if_match,
    dry_answer,
    list_body,
    no_content,
    topic_etag,
)
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.configs import (
    AlterBody,
    AlterEntry,
    AlterTopicsBody,
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
from app.rest.topics import IfMatch
from app.security.roles import Role
from app.services import ConfigEditor, Reader, Requires, ServicesDep
from kraft_core.configs.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraft_core.configs.definitions import config_def
from kraft_core.configs.effective_config import ConfigEntry, ConfigSource
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=["configs"], route_class=JsonRoute)

ResourceName = Annotated[str, Path(min_length=1, max_length=1_000)]

_SOURCES: Final = {
    ConfigSource.CLIENT_METRICS_CONFIG: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ConfigSource.GROUP_CONFIG: "DYNAMIC_GROUP_CONFIG",
}


def config_data(
    view: View,
    kind: str,
    path: Sequence[str | int],
    crn: Sequence[tuple[str, str | int]],
    entry: ConfigEntry,
    **of: Any,
) -> dict[str, Any]:
    """Return one config; `type` and `documentation` are additions to REST v3. Sensitive values are null."""
    return view.resource(
        kind,
        (*path, entry.name),
        (*crn, ("config", entry.name)),
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
        **of,
    )


def _source(source: ConfigSource) -> str:
    return _SOURCES.get(source, source.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose configs a request is about: a topic, a broker, or all brokers. `what` names it as REST v3's errors do.

    `change` makes changes, all or none, and returns their offset; with True it only validates them and returns None.
    """

    view: View
    what: str
    resource_type: int
    entries: Callable[[], list[ConfigEntry]]
    shape: Callable[[ConfigEntry], dict[str, Any]]
    change: Callable[[Caller, Sequence[ConfigChange], bool], Awaitable[int | None]]

    def find(self, name: str) -> ConfigEntry:
        """Return one config. Raises ApiError 404."""
        found = next((entry for entry in self.entries() if entry.name == name), None)
        if found is None:
            raise ApiError(404, f"Config {name} cannot be found for {self.what} in cluster {self.view.cluster_id}.")
        return found

    async def alter(self, caller: Caller, entries: Sequence[AlterEntry], *, validate_only: bool) -> Response:
        """Change configs, all or none."""
        changes = _check_known(self.view, entries, self.resource_type, self.what)
        return no_content(await self.change(caller, changes, validate_only))

    async def alter_one(self, caller: Caller, entry: AlterEntry, *, validate_only: bool) -> Response:
        """Change one config; a dry run answers with what it is, and what it would be set to (null: to its default)."""
        done = await self.alter(caller, [entry], validate_only=validate_only)
        if not validate_only:
            return done
        before = self.find(entry.name)
        hidden = before.is_sensitive
        planned = (f"{self.what}: {entry.name}", None if hidden else before.value, None if hidden else entry.value)
        return dry_answer([planned])


def _topic_config(view: View, topic: str, entry: ConfigEntry) -> dict[str, Any]:
    path = ("topics", topic, "configs")
    return config_data(view, "KafkaTopicConfig", path, (("topic", topic),), entry, topic_name=topic)


def _broker_config(view: View, broker_id: int, entry: ConfigEntry) -> dict[str, Any]:
    path = ("brokers", broker_id, "configs")
    return config_data(view, "KafkaBrokerConfig", path, (("broker", broker_id),), entry, broker_id=broker_id)


def _cluster_config(view: View, entry: ConfigEntry) -> dict[str, Any]:
    return config_data(
        view, "KafkaClusterConfig", ("broker-configs",), (("broker-config", ""),), entry, config_type="BROKER"
    )


async def topic_owner(
    request: Request, topic_name: str, view: ViewDep, services: ServicesDep, if_match: IfMatch = None
) -> Owner:
    """A topic; a change is made for the state that If-Match names. Raises KafkaError 404, ApiError 412."""
    topic = view.topic(topic_name)
    if request.method != "GET":
        check_if_match(request, topic_etag(view.image, topic))
    return Owner(
        view=view,
        what=f"TOPIC {topic_name}",
        resource_type=TOPIC,
        entries=lambda: view.cluster.topic_configs(topic_name, view.image),
        shape=lambda entry: _topic_config(view, topic_name, entry),
        change=lambda caller, changes, only: services.actions.configs.alter_topic(
            caller, topic_name, changes, validate_only=only
        ),
    )


async def broker_owner(broker_id: int, view: ViewDep, services: ServicesDep) -> Owner:
    """A broker. Raises ApiError 404."""
    view.broker(broker_id)
    return Owner(
        view=view,
        what=f"BROKER {broker_id}",
        resource_type=BROKER,
        entries=lambda: view.cluster.broker_configs(broker_id, view.image),
        shape=lambda entry: _broker_config(view, broker_id, entry),
        change=lambda caller, changes, only: services.actions.configs.alter_broker(
            caller, broker_id, changes, validate_only=only
        ),
    )


async def cluster_owner(view: ViewDep, services: ServicesDep) -> Owner:
    """All brokers at once."""
    return Owner(
        view=view,
        what="BROKER",
        resource_type=BROKER,
        entries=lambda: view.cluster.cluster_configs(view.image),
        shape=lambda entry: _cluster_config(view, entry),
        change=lambda caller, changes, only: services.actions.configs.alter_broker(
            caller, None, changes, validate_only=only
        ),
    )


async def group_owner(consumer_group_id: ResourceName, view: ViewDep, services: ServicesDep) -> Owner:
    """A consumer group, also one that no broker has seen yet: the quorum keeps its configs alone."""
    return Owner(
        view=view,
        what=f"GROUP {consumer_group_id}",
        resource_type=GROUP,
        entries=lambda: view.cluster.group_configs(consumer_group_id, view.image),
        shape=lambda entry: config_data(
            view,
            "KafkaConsumerGroupConfig",
            ("consumer-groups", consumer_group_id, "configs"),
            (("consumer-group", consumer_group_id),),
            entry,
            consumer_group_id=consumer_group_id,
        ),
        change=lambda caller, changes, only: services.actions.configs.alter_group(
            caller, consumer_group_id, changes, validate_only=only
        ),
    )


async def client_metrics_owner(subscription_name: ResourceName, view: ViewDep, services: ServicesDep) -> Owner:
    """A subscription to client metrics (KIP-714); it is there as soon as it has a config of its own."""
    return Owner(
        view=view,
        what=f"CLIENT_METRICS {subscription_name}",
        resource_type=CLIENT_METRICS,
        entries=lambda: view.cluster.client_metrics_configs(subscription_name, view.image),
        shape=lambda entry: config_data(
            view,
            "KafkaClientMetricsConfig",
            ("client-metrics", subscription_name, "configs"),
            (("client-metrics", subscription_name),),
            entry,
            subscription_name=subscription_name,
        ),
        change=lambda caller, changes, only: services.actions.configs.alter_client_metrics(
            caller, subscription_name, changes, validate_only=only
        ),
    )


def _check_known(view: View, entries: Sequence[AlterEntry], resource_type: int, what: str) -> list[ConfigChange]:
    """Turn entries into changes. Raises ApiError 404 for a name nobody knows, as REST v3 does before it asks Kafka."""
    known = config_def(resource_type)
    changes: list[ConfigChange] = []
    for entry in entries:
        if entry.name not in known:
            raise ApiError(404, f"Config {entry.name} cannot be found for {what} in cluster {view.cluster_id}.")
        operation = entry.operation or "SET"
        if operation != "DELETE" and entry.value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for: {entry.name}")
        changes.append(ConfigChange(name=entry.name, value=entry.value, operation=operation))
    if len({change.name for change in changes}) != len(changes):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A config is given twice.")
    return changes


# of all topics, of all brokers, each for itself


@router.get("/topics/-/configs", responses={200: {"model": TopicConfigDataList}})
async def list_all_topic_configs(request: Request, view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the configs of all topics, by topic and name, a page at a time."""
    names = sorted(view.image.topics.by_name)
    per_topic = sum(not key.is_internal for key in config_def(TOPIC).values())
    after = page.after
    if after is not None:
        if not isinstance(after, list) or len(after) != 2:
            raise ApiError(400, "Bad Request: page_token belongs to another list.")
        names = [name for name in names if name >= str(after[0])]
    wanted = names[: page.size // per_topic + 2]  # topics enough for one page and one entry more
    entries = [(name, entry) for name in wanted for entry in view.cluster.topic_configs(name, view.image)]
    body = list_body(
        request,
        view,
        "KafkaTopicConfigList",
        entries,
        page,
        lambda item: (item[0], item[1].name),
        lambda item: _topic_config(view, *item),
    )
    return answer(body, view.offset)


@router.post("/topics/-/configs:alter", status_code=204, responses={207: {"description": "some topics were refused"}})
async def alter_all_topic_configs(
    view: ViewDep, body: AlterTopicsBody, services: ServicesDep, caller: ConfigEditor, validate_only: DryRun
) -> Response:
    """Change configs of several topics, each all or none: 204, or 207 with the failures."""
    if len({entry.topic_name for entry in body.data}) != len(body.data):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A topic is given twice.")
    changes = {
        entry.topic_name: _check_known(view, entry.configs, TOPIC, f"TOPIC {entry.topic_name}") for entry in body.data
    }
    offset, failures = await services.actions.configs.alter_topics(caller, changes, validate_only=validate_only)
    if not failures:
        return no_content(offset)
    listed = []
    for name, error in failures.items():
        refused, _ = of_kafka(error, v3=True)
        listed.append({"topic_name": name, "error_code": refused.error_code, "message": refused.message})
    return answer({"failures": listed}, offset, 207)


@router.get("/brokers/-/configs", responses={200: {"model": BrokerConfigDataList}})
async def list_all_broker_configs(request: Request, view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the configs of all brokers, by broker and name."""
    entries = [
        (broker_id, entry)
        for broker_id in sorted(view.image.cluster.brokers)
        for entry in view.cluster.broker_configs(broker_id, view.image)
    ]
    body = list_body(
        request,
        view,
        "KafkaBrokerConfigList",
        entries,
        page,
        lambda item: (item[0], item[1].name),
        lambda item: _broker_config(view, *item),
    )
    return answer(body, view.offset)


# of one owner


def _add_routes(
    path: str,
    kind: str,
    models: tuple[type[BaseModel], type[BaseModel]],
    find_owner: Callable[..., Awaitable[Owner]],
    editor: Requires,
) -> None:
    """Add the five things one can do with the configs of an owner. `models`: of a config, and of a list of them.

    Whether the caller may is asked before whether the owner is there.
    """

    @router.get(path, responses={200: {"model": models[1]}})
    async def list_configs(
        request: Request, _caller: Reader, owner: Annotated[Owner, Depends(find_owner)], page: PageDep
    ) -> Response:
        """List the configs by name."""
        view = owner.view
        body = list_body(request, view, f"{kind}List", owner.entries(), page, lambda entry: entry.name, owner.shape)
        return answer(body, view.offset)

    @router.get(path + "/{name}", responses={200: {"model": models[0]}})
    async def get_config(name: str, _caller: Reader, owner: Annotated[Owner, Depends(find_owner)]) -> Response:
        """Describe one config."""
        return answer(owner.shape(owner.find(name)), owner.view.offset)

    @router.put(path + "/{name}", status_code=204, responses=DRY_RUN)
    async def set_config(
        name: str,
        body: UpdateConfigBody,
        caller: Annotated[Caller, Depends(editor)],
        owner: Annotated[Owner, Depends(find_owner)],
        validate_only: DryRun,
    ) -> Response:
        """Set one config."""
        return await owner.alter_one(caller, AlterEntry(name=name, value=body.value), validate_only=validate_only)

    @router.delete(path + "/{name}", status_code=204, responses=DRY_RUN)
    async def reset_config(
        name: str,
        caller: Annotated[Caller, Depends(editor)],
        owner: Annotated[Owner, Depends(find_owner)],
        validate_only: DryRun,
    ) -> Response:
        """Reset one config to its default."""
        return await owner.alter_one(caller, AlterEntry(name=name, operation="DELETE"), validate_only=validate_only)

    @router.post(path + ":alter", status_code=204)
    async def alter_configs(
        body: AlterBody,
        caller: Annotated[Caller, Depends(editor)],
        owner: Annotated[Owner, Depends(find_owner)],
        validate_only: DryRun,
    ) -> Response:
        """Change several configs, all or none: 204, as in REST v3 with `validate_only` too."""
        return await owner.alter(caller, body.data, validate_only=validate_only)


_add_routes(
    "/topics/{topic_name}/configs",
    "KafkaTopicConfig",
    (TopicConfigData, TopicConfigDataList),
    topic_owner,
    Requires(Role.EDITOR, "configs"),
)
_add_routes(
    "/brokers/{broker_id}/configs",
    "KafkaBrokerConfig",
    (BrokerConfigData, BrokerConfigDataList),
    broker_owner,
    Requires(Role.ADMIN, "configs"),
)
_add_routes(
    "/broker-configs",
    "KafkaClusterConfig",
    (ClusterConfigData, ClusterConfigDataList),
    cluster_owner,
    Requires(Role.ADMIN, "configs"),
)
_add_routes(
    "/consumer-groups/{consumer_group_id}/configs",
    "KafkaConsumerGroupConfig",
    (ConsumerGroupConfigData, ConsumerGroupConfigDataList),
    group_owner,
    Requires(Role.EDITOR, "configs"),
)
_add_routes(
    "/client-metrics/{subscription_name}/configs",
    "KafkaClientMetricsConfig",
    (ClientMetricsConfigData, ClientMetricsConfigDataList),
    client_metrics_owner,
    Requires(Role.ADMIN, "configs"),
)
