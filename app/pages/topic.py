"""One topic: partitions, configs, history; growing and deleting it, each shown before it happens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.cluster import Cluster
from app.cluster.history import Change
from app.cluster.topic_table import TopicRow, TopicTable, partition_health
from app.http.errors import ApiError
from app.pages.confirm import ConfirmView, curl_line
from app.pages.flash import Flash
from app.pages.frame import counted, go_to, page_of, refusal, render, whole_number
from app.pages.live import deleted_topic_text
from app.pages.overview import FeedLine, feed_lines
from app.security.roles import Role
from app.services import Reader, Services, TopicEditor, services_of, visitor_of
from kraft_core.configs.effective_config import ConfigEntry, ConfigSource, NodeConfigs, topic_fallback
from kraft_core.image.metadata_image import PartitionRegistration, TopicImage
from kraft_core.image.trie_items import values_of
from kraft_core.protocol.errors import KafkaError

router = APIRouter(include_in_schema=False)

PARTITIONS_ON_PAGE: Final = 100
HISTORY_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition, ready to be shown; `tags` are (text, tone)."""

    index: int
    leader: int | None
    replicas: str
    isr: str
    tags: Sequence[tuple[str, str]]
    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class OwnConfig:
    """A config that is set on the topic, and what would count without it."""

    name: str
    value: str
    otherwise: str
    documentation: str


@dataclass(frozen=True, slots=True)
class TopicView:
    """What topic.html shows."""

    row: TopicRow
    partitions: Sequence[PartitionRow]
    page: int
    pages: int
    own_configs: Sequence[OwnConfig]
    changes: Sequence[FeedLine]
    may_edit: bool
    delete_refused: str


def partition_row(index: int, partition: PartitionRegistration, min_isr: int) -> PartitionRow:
    """One row with a word for each thing that is not as it should be."""
    health = partition_health(partition, min_isr)
    tags = [
        (text, tone)
        for holds, text, tone in (
            (health.offline, "offline", "bad"),
            (health.under_min and not health.offline, "under min ISR", "bad"),
            (health.under_replicated, "under-replicated", "warn"),
            (health.reassigning, "moving", "info"),
            (health.not_preferred and not health.offline, "not led by the preferred replica", ""),
        )
        if holds
    ]
    return PartitionRow(
        index=index,
        leader=partition.leader if partition.has_leader else None,
        replicas=" ".join(map(str, partition.replicas)),
        isr=" ".join(map(str, partition.isr)) or "nobody",
        tags=tags or [("healthy", "good")],
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )


def own_config(entry: ConfigEntry, nodes: NodeConfigs) -> OwnConfig:
    """A key that is set, with what the cluster would otherwise say."""
    otherwise = topic_fallback(entry.name, nodes)[0] if entry.key is not None else None
    value = "hidden" if entry.is_sensitive else entry.value
    return OwnConfig(entry.name, str(value), "null" if otherwise is None else otherwise, entry.documentation)


class Concerns:
    """Whether a change touched a topic: its image before and after is not the same object."""

    def __init__(self, topic: TopicImage) -> None:
        self._id = topic.id
        self._prefixes = (f"topic {topic.name}:", f"topic {topic.name} ", f"config of topic {topic.name}:")

    def __call__(self, change: Change) -> bool:
        """Say whether the change touched the topic or its configs."""
        if change.before.topics.by_id.get(self._id) is not change.after.topics.by_id.get(self._id):
            return True
        return change.before.configs is not change.after.configs and any(map(self.is_about, change.lines))

    def is_about(self, line: str) -> bool:
        """Say whether a line of the change feed is about the topic."""
        return line.startswith(self._prefixes)


def known_topic(cluster: Cluster, name: str) -> TopicImage:
    """The topic of this name. Raises ApiError 404."""
    topic = cluster.image.topics.topic(name)
    if topic is None:
        raise ApiError(404, deleted_topic_text(cluster, name))
    return topic


def topic_view(cluster: Cluster, table: TopicTable, topic: TopicImage, page: int, *, may_edit: bool) -> TopicView:
    """One topic with a page of its partitions."""
    table.refresh(cluster.image)
    row = table.row(topic.id)
    assert row is not None, "the table was refreshed from the image that has the topic"
    pages = max(1, -(-len(topic.partitions) // PARTITIONS_ON_PAGE))
    page = min(max(1, page), pages)
    start = (page - 1) * PARTITIONS_ON_PAGE
    entries = cluster.topic_configs(topic.name)
    nodes = cluster.topic_defaults()
    wanted = Concerns(topic)
    changes = cluster.history.newest(HISTORY_LINES, wanted)
    return TopicView(
        row=row,
        partitions=[
            partition_row(index, each, row.min_isr)
            for index, each in topic.sorted_partitions()[start : start + PARTITIONS_ON_PAGE]
        ],
        page=page,
        pages=pages,
        own_configs=[
            own_config(entry, nodes) for entry in entries if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG
        ],
        changes=feed_lines(changes, HISTORY_LINES, wanted.is_about, HISTORY_LINES),
        may_edit=may_edit,
        delete_refused=delete_refused(cluster),
    )


def delete_refused(cluster: Cluster) -> str:
    """Why no topic can be deleted on this cluster; "" if one can. Seen in the brokers' own settings."""
    if cluster.statics.of_any().get("delete.topic.enable") == "false":
        return "This cluster refuses it: delete.topic.enable=false."
    return ""


@router.get("/topics/{name}")
async def topic(request: Request, _caller: Reader, name: str, page: int = 1) -> Response:
    """The page."""
    services = services_of(request)
    found = known_topic(services.cluster, name)
    user = visitor_of(request)
    may_edit = user is not None and user.role >= Role.EDITOR
    view = topic_view(services.cluster, services.cluster.topic_table, found, page, may_edit=may_edit)
    return render(request, "topic.html", page=page_of(request, name, "/topics"), view=view)


def curl(request: Request, services: Services, method: str, path: str, body: object | None = None) -> str:
    """A change as a REST call, at the address this page came from."""
    return curl_line(str(request.base_url).rstrip("/"), services.cluster.cluster_id, method, path, body)


@router.post("/topics/{name}/partitions")
async def grow(
    request: Request,
    caller: TopicEditor,
    name: str,
    count: Annotated[str, Form()] = "",
    confirmed: Annotated[str, Form()] = "",
) -> Response:
    """Show what adding partitions does; with confirmed=yes do it."""
    services = services_of(request)
    found = known_topic(services.cluster, name)
    now = len(found.partitions)
    wanted = whole_number(count, 1, 2**31 - 1)
    error, verdict, status = "", "", 200
    if wanted is None:
        error, status = f"'{count.strip()[:40]}' is not a whole number above {now}.", 422
    else:
        try:
            offset = await services.actions.topics.create_partitions(caller, name, wanted, validate_only=not confirmed)
        except (KafkaError, ConnectionError) as refused:
            error, status = refusal(refused)
        else:
            if confirmed:
                note = f"Topic {name} has {counted(wanted, 'partition')} since offset {offset}."
                return go_to(request, f"/topics/{name}", Flash("good", note))
            verdict = "The controller would accept this. Nothing has changed yet."
    view = ConfirmView(
        back=name,
        back_url=f"/topics/{name}",
        action=f"/topics/{name}/partitions",
        button="Add partitions",
        changes=[("Partitions", str(now), str(wanted) if wanted else count.strip()[:40])],
        consequences=["Records with a key go to other partitions afterwards. Partitions cannot be taken away again."],
        curl=curl(request, services, "PATCH", f"topics/{name}", {"partitions_count": wanted}),
        fields=[("count", count)],
        verdict=verdict,
        error=error,
    )
    return render(
        request, "confirm.html", status, page=page_of(request, f"Add partitions to {name}", "/topics"), view=view
    )


def _delete_view(request: Request, services: Services, found: TopicImage, error: str) -> ConfirmView:
    replicas = sum(len(each.replicas) for each in values_of(found.partitions))
    configs = len(cluster_own(services.cluster, found.name))
    return ConfirmView(
        back=found.name,
        back_url=f"/topics/{found.name}",
        action=f"/topics/{found.name}/delete",
        button="Delete topic",
        changes=[
            ("Topic", found.name, "gone"),
            ("Partitions", str(len(found.partitions)), "0"),
            ("Replicas, with all their records", str(replicas), "0"),
            ("Configs set on it", str(configs), "0"),
        ],
        consequences=[
            "Producers and consumers of it fail, or make it again where auto-creation is on, under a new id."
        ],
        curl=curl(request, services, "DELETE", f"topics/{found.name}"),
        type_name=found.name,
        dangerous=True,
        error=error,
    )


def cluster_own(cluster: Cluster, name: str) -> list[ConfigEntry]:
    """The configs that are set on a topic."""
    return [entry for entry in cluster.topic_configs(name) if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG]


@router.get("/topics/{name}/delete")
async def delete_form(request: Request, _caller: TopicEditor, name: str) -> Response:
    """What deleting it takes away."""
    services = services_of(request)
    view = _delete_view(request, services, known_topic(services.cluster, name), delete_refused(services.cluster))
    return render(request, "confirm.html", page=page_of(request, f"Delete {name}", "/topics"), view=view)


@router.post("/topics/{name}/delete")
async def delete(request: Request, caller: TopicEditor, name: str, typed: Annotated[str, Form()] = "") -> Response:
    """Delete it, if its name was typed."""
    services = services_of(request)
    found = known_topic(services.cluster, name)
    status = 422
    if typed.strip() != name:
        error = f"'{typed.strip()[:249]}' is not the topic's name. Nothing has changed."
    else:
        try:
            offset = await services.actions.topics.delete(caller, name)
        except (KafkaError, ConnectionError) as refused:
            error, status = refusal(refused)
        else:
            return go_to(request, "/topics", Flash("good", f"Topic {name} was deleted at offset {offset}."))
    view = _delete_view(request, services, found, error)
    return render(request, "confirm.html", status, page=page_of(request, f"Delete {name}", "/topics"), view=view)
