"""One topic: partitions, config overrides and history; deleting it with a preview."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.cluster import Cluster
from app.cluster.history import Change
from app.cluster.topic_table import TopicRow, TopicTable, partition_health
from app.http.errors import NotFoundError
from app.pages.changes import FeedLine, feed_lines
from app.pages.confirm import ConfirmView, cluster_curl, confirm_page, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import page_items, page_of, render
from app.pages.live import deleted_topic_text
from app.services import Reader, TopicEditor, services_of
from kraft_core.configs.effective_config import ConfigEntry, ConfigSource, NodeConfigs, topic_fallback
from kraft_core.image.metadata_image import PartitionRegistration, TopicImage
from kraft_core.image.trie_items import values_of

router = APIRouter(include_in_schema=False)

PARTITIONS_ON_PAGE: Final = 100
HISTORY_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition in words; `tags` are (text, tone)."""

    index: int
    leader: int | None
    replicas: str
    isr: str
    tags: Sequence[tuple[str, str]]
    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class OwnConfig:
    """A config that is set on the topic, with the value that it overrides."""

    name: str
    value: str
    otherwise: str
    documentation: str


@dataclass(frozen=True, slots=True)
class TopicView:
    """Model of topic.html."""

    row: TopicRow
    partitions: Sequence[PartitionRow]
    page: int
    pages: int
    own_configs: Sequence[OwnConfig]
    changes: Sequence[FeedLine]
    delete_refused: str


def partition_row(index: int, partition: PartitionRegistration, min_isr: int) -> PartitionRow:
    """Return one row with a tag for each problem."""
    health = partition_health(partition, min_isr)
    tags = [
        (text, tone)
        for holds, text, tone in (
            (health.offline, "offline", "bad"),
            (health.under_min and not health.offline, "under min ISR", "bad"),
            (health.under_replicated, "under-replicated", "warn"),
            (health.reassigning, "reassigning", "info"),
            (health.not_preferred and not health.offline, "non-preferred leader", ""),
        )
        if holds
    ]
    return PartitionRow(
        index=index,
        leader=partition.leader if partition.has_leader else None,
        replicas=" ".join(map(str, partition.replicas)),
        isr=" ".join(map(str, partition.isr)) or "none",
        tags=tags or [("healthy", "good")],
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )


def own_config(entry: ConfigEntry, nodes: NodeConfigs) -> OwnConfig:
    """Return a config that is set, with the cluster's value."""
    otherwise = topic_fallback(entry.name, nodes)[0] if entry.key is not None else None
    value = "hidden" if entry.is_sensitive else entry.value
    return OwnConfig(entry.name, str(value), "null" if otherwise is None else otherwise, entry.documentation)


class Concerns:
    """A filter of changes: whether one touched a topic, so that its image before and after differ."""

    def __init__(self, topic: TopicImage) -> None:
        self._id = topic.id
        self._prefixes = (f"topic {topic.name}:", f"topic {topic.name} ", f"config of topic {topic.name}:")

    def __call__(self, change: Change) -> bool:
        """Whether the change touched the topic or its configs."""
        if change.before.topics.by_id.get(self._id) is not change.after.topics.by_id.get(self._id):
            return True
        return change.before.configs is not change.after.configs and any(map(self.is_about, change.lines))

    def is_about(self, line: str) -> bool:
        """Whether a line of the change feed is about the topic."""
        return line.startswith(self._prefixes)


def known_topic(cluster: Cluster, name: str) -> TopicImage:
    """Return the topic of this name. Raises NotFoundError."""
    topic = cluster.image.topics.topic(name)
    if topic is None:
        raise NotFoundError(deleted_topic_text(cluster, name))
    return topic


def topic_view(cluster: Cluster, table: TopicTable, topic: TopicImage, page: int) -> TopicView:
    """Return one topic with a page of its partitions."""
    table.refresh(cluster.image)
    row = table.row(topic.id)
    assert row is not None, "the table was refreshed from the image that has the topic"
    shown, page, pages = page_items(topic.sorted_partitions(), page, PARTITIONS_ON_PAGE)
    nodes = cluster.topic_defaults()
    wanted = Concerns(topic)
    changes = cluster.history.newest(HISTORY_LINES, wanted)
    return TopicView(
        row=row,
        partitions=[partition_row(index, each, row.min_isr) for index, each in shown],
        page=page,
        pages=pages,
        own_configs=[own_config(entry, nodes) for entry in own_entries(cluster, topic.name)],
        changes=feed_lines(changes, HISTORY_LINES, wanted.is_about, HISTORY_LINES),
        delete_refused=delete_refused(cluster),
    )


def delete_refused(cluster: Cluster) -> str:
    """Return why topics cannot be deleted on this cluster, "" if they can. Read from the brokers' static configs."""
    if cluster.static_configs.of_any().get("delete.topic.enable") == "false":
        return "Disabled on this cluster: delete.topic.enable=false."
    return ""


@router.get("/topics/{name}")
async def topic(request: Request, _caller: Reader, name: str, page: int = 1) -> Response:
    """Return the page."""
    services = services_of(request)
    found = known_topic(services.cluster, name)
    view = topic_view(services.cluster, services.cluster.topic_table, found, page)
    return render(request, "topic.html", page=page_of(request, name, "/topics"), view=view)


def own_entries(cluster: Cluster, name: str) -> list[ConfigEntry]:
    """Return the configs that are set on a topic."""
    return [entry for entry in cluster.topic_configs(name) if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG]


def _delete_view(request: Request, found: TopicImage, error: str = "") -> ConfirmView:
    replicas = sum(len(each.replicas) for each in values_of(found.partitions))
    overrides = len(own_entries(services_of(request).cluster, found.name))
    return ConfirmView(
        title=f"Delete {found.name}",
        active="/topics",
        back=found.name,
        back_url=f"/topics/{found.name}",
        action=f"/topics/{found.name}/delete",
        button="Delete topic",
        done_url="/topics",
        changes=[
            ("Topic", found.name, "deleted"),
            ("Partitions", str(len(found.partitions)), "0"),
            ("Replicas, with all their records", str(replicas), "0"),
            ("Config overrides", str(overrides), "0"),
        ],
        consequences=[
            "Producers and consumers of the topic fail or, with auto-creation, create it again under a new id."
        ],
        curl=cluster_curl(request, "DELETE", f"topics/{found.name}"),
        type_name=found.name,
        dangerous=True,
        error=error,
    )


@router.get("/topics/{name}/delete")
async def delete_form(request: Request, _caller: TopicEditor, name: str) -> Response:
    """Return the preview of the deletion."""
    cluster = services_of(request).cluster
    return confirm_page(request, _delete_view(request, known_topic(cluster, name), delete_refused(cluster)))


@router.post("/topics/{name}/delete")
async def delete(request: Request, caller: TopicEditor, name: str, typed: Annotated[str, Form()] = "") -> Response:
    """Delete the topic if its name was typed."""
    services = services_of(request)

    async def apply() -> Flash:
        offset = await services.actions.topics.delete(caller, name)
        return Flash("good", f"Topic {name} deleted at offset {offset}.")

    view = _delete_view(request, known_topic(services.cluster, name))
    return await preview_or_apply(request, view, confirmed=True, apply=apply, typed=typed)
