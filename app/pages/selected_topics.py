"""Changes of selected topics: deleted, grown, a config set on each, their preferred leaders elected."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.actions.each import ITEMS_MAX
from app.cluster.cluster import Cluster
from app.cluster.partitions import needs_election
from app.pages.config_form import EMPTY, shown
from app.pages.config_values import parsed, unit_of
from app.pages.confirm import ConfirmView, cluster_curl, confirm_page
from app.pages.frame import counted, whole_number
from app.pages.selection import (
    Field,
    InputView,
    Line,
    SelectionChange,
    Ticked,
    TickedDep,
    each,
    in_count,
    input_page,
    preview_or_apply_each,
    selection_view,
)
from app.pages.topic import delete_refused, known_topic
from app.pages.topics import topics_of
from app.services import ConfigEditor, TopicEditor, services_of
from app.texts import joined, phrase
from kraft_core.clients.admin.configs import ConfigChange
from kraft_core.clients.admin.partitions import ElectionType
from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.image.trie_items import values_of
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.internal_topics import INTERNAL_TOPICS

router = APIRouter(include_in_schema=False, prefix="/selected-topics")

CURL_MAX: Final = 100
OPERATIONS: Final = (("set", phrase("set to the value")), ("reset", phrase("reset to the default")))


def _chosen(cluster: Cluster, given: Ticked) -> list[str]:
    """Return the names of the selected topics. Raises UnprocessableError."""
    matching: Sequence[str] = ()
    if given.is_all:
        found = topics_of(cluster, given.query, ITEMS_MAX + 1)
        matching = [row.name for row in found.rows]
    return given.chosen("topic", matching)


def _view(given: Ticked, action: str, title: str, button: str) -> ConfirmView:
    return selection_view(given, "/topics", phrase("Topics"), f"/selected-topics/{action}", title, button)


def _change(preview: Callable[[str], Awaitable[Line]], apply: Callable[[str], Awaitable[str]]) -> SelectionChange:
    return SelectionChange(
        noun="topic",
        name=lambda name: name,
        url=lambda name: f"/topics/{quote(name, safe='')}",
        preview=lambda names: each(names, preview),
        apply=apply,
    )


def _input(given: Ticked, names: Sequence[str], action: str, title: str, *inputs: Field, error: str = "") -> InputView:
    return InputView(
        title=title,
        back=phrase("Topics"),
        back_url=given.back_url("/topics"),
        action=f"/selected-topics/{action}",
        summary=phrase("%(items)s selected.", items=in_count(names, "topic")),
        inputs=inputs,
        items=names,
        filter=given.filter,
        error=error,
    )


@router.post("/delete")
async def delete(request: Request, caller: TopicEditor, given: TickedDep) -> Response:
    """Preview which topics are deleted; with confirmed=yes and their number typed delete them."""
    services = services_of(request)
    cluster, actions = services.cluster, services.actions.topics
    names = _chosen(cluster, given)

    async def preview(name: str) -> Line:
        topic = known_topic(cluster, name)
        await actions.delete(caller, name, validate_only=True)
        replicas = sum(len(part.replicas) for part in values_of(topic.partitions))
        counts = joined(", ", [counted(len(topic.partitions), "partition"), counted(replicas, "replica")])
        return Line((name, counts, phrase("deleted")), name)

    async def apply(name: str) -> str:
        return phrase("Deleted at offset %(offset)s.", offset=await actions.delete(caller, name))

    internal = sorted(INTERNAL_TOPICS.intersection(names))
    kept = ", ".join(f"`{name}`" for name in internal)
    view = replace(
        _view(given, "delete", phrase("Delete topics"), phrase("Delete")),
        consequences=[
            phrase(
                "All their records are lost. "
                "Clients fail or, with auto-creation, create the topics again under new ids."
            ),
            *([phrase("Kafka itself uses %(names)s.", names=kept)] if internal else []),
        ],
        curl=_delete_curl(request, names),
        dangerous=True,
    )
    refused = delete_refused(cluster)
    if refused:
        return confirm_page(request, replace(view, error=refused))
    return await preview_or_apply_each(request, view, given, names, _change(preview, apply))


def _delete_curl(request: Request, names: Sequence[str]) -> str:
    if len(names) > CURL_MAX:
        return ""
    return cluster_curl(request, "POST", "topics:delete", {"data": [{"topic_name": name} for name in names]})


@router.post("/partitions")
async def add_partitions(request: Request, caller: TopicEditor, given: TickedDep) -> Response:
    """Ask for a number of partitions, preview it for each topic, and with confirmed=yes add them."""
    services = services_of(request)
    cluster, actions = services.cluster, services.actions.topics
    names = _chosen(cluster, given)
    typed = given.fields.get("count")
    count = whole_number(typed or "", 1, 2**31 - 1)
    if count is None:
        wrong = "" if typed is None else phrase("'%(text)s' is not a whole number above 0.", text=typed.strip()[:40])
        field = Field("count", phrase("New number of partitions of each topic"), typed or "")
        return input_page(
            request, _input(given, names, "partitions", phrase("Add partitions"), field, error=wrong), "/topics"
        )

    async def preview(name: str) -> Line:
        now = len(known_topic(cluster, name).partitions)
        await actions.create_partitions(caller, name, count, validate_only=True)
        return Line((phrase("Partitions of %(name)s", name=name), str(now), str(count)), name)

    async def apply(name: str) -> str:
        offset = await actions.create_partitions(caller, name, count)
        return phrase(
            "Has %(partitions)s as of offset %(offset)s.", partitions=counted(count, "partition"), offset=offset
        )

    view = replace(
        _view(given, "partitions", phrase("Add partitions"), phrase("Add partitions to")),
        consequences=[phrase("Keyed records map to other partitions afterwards. Partitions cannot be removed.")],
        fields=[("count", str(count))],
    )
    return await preview_or_apply_each(request, view, given, names, _change(preview, apply))


@router.post("/configs")
async def alter_configs(request: Request, caller: ConfigEditor, given: TickedDep) -> Response:
    """Ask for a config and its value, preview it for each topic, and with confirmed=yes set or reset it."""
    services = services_of(request)
    cluster, actions = services.cluster, services.actions.configs
    names = _chosen(cluster, given)
    try:
        change = _read_config(cluster, given)
    except ValueError as wrong:
        keys = [(entry.name, entry.name) for entry in cluster.topic_configs("")]
        inputs = (
            Field("config", phrase("Config"), given.fields.get("config", "retention.ms"), choices=keys),
            Field("operation", phrase("Change"), given.fields.get("operation", "set"), choices=OPERATIONS),
            Field(
                "value",
                phrase("Value"),
                given.fields.get("value", ""),
                phrase('With its unit, as 7 d or 1 GiB; "" is empty.'),
            ),
        )
        asked = _input(
            given, names, "configs", phrase("Change a config"), *inputs, error=wrong.args[0] if wrong.args else ""
        )
        return input_page(request, asked, "/topics")

    def value_of(name: str) -> str:
        return next(shown(entry.value) for entry in cluster.topic_configs(name) if entry.name == change.name)

    async def preview(name: str) -> Line:
        known_topic(cluster, name)
        await actions.alter_topic(caller, name, [change], validate_only=True)
        after = phrase("default") if change.operation is AlterConfigOp.DELETE else shown(change.value)
        return Line((phrase("%(config)s of %(name)s", config=change.name, name=name), value_of(name), after), name)

    async def apply(name: str) -> str:
        offset = await actions.alter_topic(caller, name, [change])
        return phrase(
            "%(config)s is %(value)s as of offset %(offset)s.", config=change.name, value=value_of(name), offset=offset
        )

    operation = {"operation": "DELETE"} if change.operation is AlterConfigOp.DELETE else {"value": change.value}
    data = [{"topic_name": name, "configs": [{"name": change.name, **operation}]} for name in names]
    view = replace(
        _view(given, "configs", phrase("Change %(name)s", name=change.name), phrase("Change")),
        curl=cluster_curl(request, "POST", "topics/-/configs:alter", {"data": data}) if len(names) <= CURL_MAX else "",
        fields=[(name, given.fields.get(name, "")) for name in ("config", "operation", "value")],
    )
    return await preview_or_apply_each(request, view, given, names, _change(preview, apply))


def _read_config(cluster: Cluster, given: Ticked) -> ConfigChange:
    """Return what was typed. Raises ValueError with what is wrong, empty before anything was typed."""
    name, text = given.fields.get("config"), given.fields.get("value", "").strip()
    if name is None:
        raise ValueError
    key = next((entry.key for entry in cluster.topic_configs("") if entry.name == name), None)
    if key is None:
        raise ValueError(phrase("'%(name)s' is not a config of topics.", name=name[:249]))
    if given.fields.get("operation") == "reset":
        return ConfigChange(name, AlterConfigOp.DELETE)
    if not text:
        raise ValueError(phrase('The value is empty; type "" for an empty value.'))
    value = parsed(text, unit_of(name, key.type))
    return ConfigChange(name, AlterConfigOp.SET, "" if value == EMPTY else value)


@router.post("/elect")
async def elect(request: Request, caller: TopicEditor, given: TickedDep) -> Response:
    """Preview the elections of preferred leaders; with confirmed=yes hold them."""
    services = services_of(request)
    cluster, actions = services.cluster, services.actions.partitions
    names = _chosen(cluster, given)

    def wanted(name: str) -> list[tuple[str, int]]:
        found = known_topic(cluster, name).sorted_partitions()
        return [(name, index) for index, part in found if needs_election(part, ElectionType.PREFERRED)]

    async def preview(name: str) -> Line:
        partitions = wanted(name)
        if not partitions:
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, phrase("Every partition is led by its preferred replica."))
        refused = await actions.elect_leaders(caller, ElectionType.PREFERRED, partitions, validate_only=True)
        left = len(refused.failures)
        if left == len(partitions):
            raise next(iter(refused.failures.values()))
        after = phrase("led by their preferred replicas")
        if left:
            after = phrase("led by their preferred replicas, except %(count)s without one in sync", count=left)
        before = phrase(
            "%(partitions)s not led by the preferred replica", partitions=counted(len(partitions), "partition")
        )
        return Line((name, before, after), name)

    async def apply(name: str) -> str:
        partitions = wanted(name)
        if not partitions:
            return phrase("Every partition is led by its preferred replica.")
        done = await actions.elect_leaders(caller, ElectionType.PREFERRED, partitions)
        if done.failures:
            (_, index), error = next(iter(done.failures.items()))
            text = phrase(
                "%(count)s of %(partitions)s failed, first %(name)s: %(message)s",
                count=len(done.failures),
                partitions=counted(len(partitions), "partition"),
                name=f"{name}-{index}",
                message=error.message,
            )
            raise KafkaError(error.code, text)
        return phrase(
            "%(leaders)s elected at offset %(offset)s.",
            leaders=counted(len(partitions), "leader"),
            offset=done.offset,
        )

    view = _view(given, "elect", phrase("Elect preferred leaders"), phrase("Elect leaders of"))
    return await preview_or_apply_each(request, view, given, names, _change(preview, apply))
