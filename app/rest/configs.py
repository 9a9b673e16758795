"""Configs of topics, brokers and of all brokers at once: read with source and documentation, set, reset, alter in batches."""

from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.cluster.admin import ConfigChange
from app.errors import ApiError, of_kafka
from app.rest.bodies import AlterBody, AlterEntry, AlterTopicsBody, UpdateConfigBody
from app.rest.common import PageDep, View, ViewDep, answer, check_if_match, list_body, no_content, topic_etag
from app.rest.models import (
    BrokerConfigData,
    BrokerConfigDataList,
    ClusterConfigData,
    ClusterConfigDataList,
    TopicConfigData,
    TopicConfigDataList,
)
from app.rest.topics import IfMatch
from app.services import BrokerConfigEditor, ConfigEditor, Reader, ServicesDep
from kraft_core.controller.config_definitions import config_def
from kraft_core.controller.effective_config import ConfigEntry, ConfigSource
from kraft_core.image.metadata_image import BROKER, TOPIC
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=["configs"])

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


def _find(view: View, entries: Sequence[ConfigEntry], name: str, what: str) -> ConfigEntry:
    found = next((entry for entry in entries if entry.name == name), None)
    if found is None:
        raise ApiError(404, f"Config {name} cannot be found for {what} in cluster {view.cluster_id}.")
    return found


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


def _set(view: View, name: str, body: UpdateConfigBody, resource_type: int, what: str) -> list[ConfigChange]:
    return _check_known(view, [AlterEntry(name=name, value=body.value)], resource_type, what)


def _reset(view: View, name: str, resource_type: int, what: str) -> list[ConfigChange]:
    return _check_known(view, [AlterEntry(name=name, operation="DELETE")], resource_type, what)


# topics


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
    view: ViewDep, body: AlterTopicsBody, services: ServicesDep, caller: ConfigEditor
) -> Response:
    """Change configs of several topics, each all or none: 204, or 207 with the failures."""
    if len({entry.topic_name for entry in body.data}) != len(body.data):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A topic is given twice.")
    changes = {
        entry.topic_name: _check_known(view, entry.configs, TOPIC, f"TOPIC {entry.topic_name}") for entry in body.data
    }
    offset, failures = await services.actions.alter_topics_configs(caller, changes, validate_only=body.validate_only)
    if not failures:
        return no_content(offset)
    listed = []
    for name, error in failures.items():
        refused, _ = of_kafka(error, v3=True)
        listed.append({"topic_name": name, "error_code": refused.error_code, "message": refused.message})
    return answer({"failures": listed}, offset, 207)


@router.get("/topics/{topic_name}/configs", responses={200: {"model": TopicConfigDataList}})
async def list_topic_configs(
    request: Request, topic_name: str, view: ViewDep, page: PageDep, _caller: Reader
) -> Response:
    """List the configs of a topic by name."""
    view.topic(topic_name)
    body = list_body(
        request,
        view,
        "KafkaTopicConfigList",
        view.cluster.topic_configs(topic_name, view.image),
        page,
        lambda entry: entry.name,
        lambda entry: _topic_config(view, topic_name, entry),
    )
    return answer(body, view.offset)


@router.get("/topics/{topic_name}/configs/{name}", responses={200: {"model": TopicConfigData}})
async def get_topic_config(topic_name: str, name: str, view: ViewDep, _caller: Reader) -> Response:
    """Describe one config of a topic."""
    view.topic(topic_name)
    entry = _find(view, view.cluster.topic_configs(topic_name, view.image), name, f"TOPIC {topic_name}")
    return answer(_topic_config(view, topic_name, entry), view.offset)


@router.put("/topics/{topic_name}/configs/{name}", status_code=204)
async def set_topic_config(
    request: Request,
    topic_name: str,
    name: str,
    body: UpdateConfigBody,
    view: ViewDep,
    services: ServicesDep,
    caller: ConfigEditor,
    if_match: IfMatch = None,
) -> Response:
    """Set one config of a topic."""
    check_if_match(request, topic_etag(view.image, view.topic(topic_name)))
    changes = _set(view, name, body, TOPIC, f"TOPIC {topic_name}")
    return no_content(await services.actions.alter_topic_configs(caller, topic_name, changes))


@router.delete("/topics/{topic_name}/configs/{name}", status_code=204)
async def reset_topic_config(
    request: Request,
    topic_name: str,
    name: str,
    view: ViewDep,
    services: ServicesDep,
    caller: ConfigEditor,
    if_match: IfMatch = None,
) -> Response:
    """Give one config of a topic back to its default."""
    check_if_match(request, topic_etag(view.image, view.topic(topic_name)))
    changes = _reset(view, name, TOPIC, f"TOPIC {topic_name}")
    return no_content(await services.actions.alter_topic_configs(caller, topic_name, changes))


@router.post("/topics/{topic_name}/configs:alter", status_code=204)
async def alter_topic_configs(
    request: Request,
    topic_name: str,
    body: AlterBody,
    view: ViewDep,
    services: ServicesDep,
    caller: ConfigEditor,
    if_match: IfMatch = None,
) -> Response:
    """Change several configs of a topic, all or none."""
    check_if_match(request, topic_etag(view.image, view.topic(topic_name)))
    changes = _check_known(view, body.data, TOPIC, f"TOPIC {topic_name}")
    offset = await services.actions.alter_topic_configs(caller, topic_name, changes, validate_only=body.validate_only)
    return no_content(offset)


# brokers


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


@router.get("/brokers/{broker_id}/configs", responses={200: {"model": BrokerConfigDataList}})
async def list_broker_configs(
    request: Request, broker_id: int, view: ViewDep, page: PageDep, _caller: Reader
) -> Response:
    """List the configs of a broker by name."""
    view.broker(broker_id)
    body = list_body(
        request,
        view,
        "KafkaBrokerConfigList",
        view.cluster.broker_configs(broker_id, view.image),
        page,
        lambda entry: entry.name,
        lambda entry: _broker_config(view, broker_id, entry),
    )
    return answer(body, view.offset)


@router.get("/brokers/{broker_id}/configs/{name}", responses={200: {"model": BrokerConfigData}})
async def get_broker_config(broker_id: int, name: str, view: ViewDep, _caller: Reader) -> Response:
    """Describe one config of a broker."""
    view.broker(broker_id)
    entry = _find(view, view.cluster.broker_configs(broker_id, view.image), name, f"BROKER {broker_id}")
    return answer(_broker_config(view, broker_id, entry), view.offset)


@router.put("/brokers/{broker_id}/configs/{name}", status_code=204)
async def set_broker_config(
    broker_id: int, name: str, body: UpdateConfigBody, view: ViewDep, services: ServicesDep, caller: BrokerConfigEditor
) -> Response:
    """Set one config of a broker."""
    view.broker(broker_id)
    changes = _set(view, name, body, BROKER, f"BROKER {broker_id}")
    return no_content(await services.actions.alter_broker_configs(caller, broker_id, changes))


@router.delete("/brokers/{broker_id}/configs/{name}", status_code=204)
async def reset_broker_config(
    broker_id: int, name: str, view: ViewDep, services: ServicesDep, caller: BrokerConfigEditor
) -> Response:
    """Give one config of a broker back to its default."""
    view.broker(broker_id)
    changes = _reset(view, name, BROKER, f"BROKER {broker_id}")
    return no_content(await services.actions.alter_broker_configs(caller, broker_id, changes))


@router.post("/brokers/{broker_id}/configs:alter", status_code=204)
async def alter_broker_configs(
    broker_id: int, body: AlterBody, view: ViewDep, services: ServicesDep, caller: BrokerConfigEditor
) -> Response:
    """Change several configs of a broker, all or none. `validate_only` is honoured here too."""
    view.broker(broker_id)
    changes = _check_known(view, body.data, BROKER, f"BROKER {broker_id}")
    offset = await services.actions.alter_broker_configs(caller, broker_id, changes, validate_only=body.validate_only)
    return no_content(offset)


# all brokers at once


@router.get("/broker-configs", responses={200: {"model": ClusterConfigDataList}})
async def list_cluster_configs(request: Request, view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the configs that are set for all brokers at once."""
    body = list_body(
        request,
        view,
        "KafkaClusterConfigList",
        view.cluster.cluster_configs(view.image),
        page,
        lambda entry: entry.name,
        lambda entry: _cluster_config(view, entry),
    )
    return answer(body, view.offset)


@router.get("/broker-configs/{name}", responses={200: {"model": ClusterConfigData}})
async def get_cluster_config(name: str, view: ViewDep, _caller: Reader) -> Response:
    """Describe one config that is set for all brokers at once."""
    entry = _find(view, view.cluster.cluster_configs(view.image), name, "BROKER")
    return answer(_cluster_config(view, entry), view.offset)


@router.put("/broker-configs/{name}", status_code=204)
async def set_cluster_config(
    name: str, body: UpdateConfigBody, view: ViewDep, services: ServicesDep, caller: BrokerConfigEditor
) -> Response:
    """Set one config for all brokers at once."""
    changes = _set(view, name, body, BROKER, "BROKER")
    return no_content(await services.actions.alter_broker_configs(caller, None, changes))


@router.delete("/broker-configs/{name}", status_code=204)
async def reset_cluster_config(name: str, view: ViewDep, services: ServicesDep, caller: BrokerConfigEditor) -> Response:
    """Take one config of all brokers back."""
    changes = _reset(view, name, BROKER, "BROKER")
    return no_content(await services.actions.alter_broker_configs(caller, None, changes))


@router.post("/broker-configs:alter", status_code=204)
async def alter_cluster_configs(
    body: AlterBody, view: ViewDep, services: ServicesDep, caller: BrokerConfigEditor
) -> Response:
    """Change several configs of all brokers, all or none. `validate_only` is honoured here too."""
    changes = _check_known(view, body.data, BROKER, "BROKER")
    offset = await services.actions.alter_broker_configs(caller, None, changes, validate_only=body.validate_only)
    return no_content(offset)
