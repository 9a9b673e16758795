"""One topic: its partitions and changes; deleting it with a preview."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.cluster import Cluster
from app.cluster.history import Change
from app.cluster.topic_table import TopicRow, TopicTable, partition_health
from app.error_responses import wants_page
from app.http.errors import NotFoundError
from app.pages.confirm import ConfirmView, cluster_curl, confirm_page, preview_or_apply
from app.pages.feed import FeedEntry, feed_entries
from app.pages.flash import Flash
from app.pages.frame import page_items, page_of, render, rows_on_page
from app.pages.live import deleted_topic_text, topic_deletion
from app.pages.shared_parts import shared
from app.pages.topic_rates import RateView, rate_view
from app.pages.topics import SIZES_SECONDS
from app.services import PastReader, TopicEditor, services_of
from app.texts import phrase
from kraft_core.configs.effective_config import ConfigEntry, ConfigSource
from kraft_core.image.metadata_image import PartitionRegistration, TopicImage
from kraft_core.image.topics_image import RECOVERING
from kraft_core.image.trie_items import values_of

router = APIRouter(include_in_schema=False)

PARTITIONS_ON_PAGE: Final = 100
CHANGES_ON_PAGE: Final = 100


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
class TopicView:
    """Model of topic.html. `rate` is None in a past state."""

    row: TopicRow
    partitions: Sequence[PartitionRow]
    page: int
    pages: int
    delete_refused: str
    rate: RateView | None = None


@dataclass(frozen=True, slots=True)
class TopicChangesView:
    """Model of topic_changes.html. `first_offset`: where the kept history begins."""

    name: str
    entries: Sequence[FeedEntry]
    first_offset: int


def partition_row(index: int, partition: PartitionRegistration, min_isr: int) -> PartitionRow:
    """Return one row with a tag for each problem."""
    health = partition_health(partition, min_isr)
    tags: list[tuple[str, str]] = [
        (text, tone)
        for holds, text, tone in (
            (health.offline, phrase("offline"), "bad"),
            (health.under_min and not health.offline, phrase("under min ISR"), "bad"),
            (health.under_replicated, phrase("under-replicated"), "warn"),
            (partition.leader_recovery_state == RECOVERING, phrase("recovering from an unclean election"), "bad"),
            (health.reassigning, phrase("reassigning"), "info"),
            (health.not_preferred and not health.offline, phrase("non-preferred leader"), ""),
        )
        if holds
    ]
    return PartitionRow(
        index=index,
        leader=partition.leader if partition.has_leader else None,
        replicas=" ".join(map(str, partition.replicas)),
        isr=" ".join(map(str, partition.isr)) or phrase("none"),
        tags=tags or [(phrase("healthy"), "good")],
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )


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


def topic_view(
    cluster: Cluster, table: TopicTable, topic: TopicImage, page: int, rows: int = PARTITIONS_ON_PAGE
) -> TopicView:
    """Return one topic with a page of its partitions."""
    table.refresh(cluster.image)
    row = table.row(topic.id)
    assert row is not None, "the table was refreshed from the image that has the topic"
    shown, page, pages = page_items(topic.sorted_partitions(), page, rows)
    return TopicView(
        row=row,
        partitions=[partition_row(index, each, row.min_isr) for index, each in shown],
        page=page,
        pages=pages,
        delete_refused=delete_refused(cluster),
    )


def delete_refused(cluster: Cluster) -> str:
    """Return why topics cannot be deleted on this cluster, "" if they can. Read from the brokers' static configs."""
    if cluster.static_configs.of_any().get("delete.topic.enable") == "false":
        return phrase("Disabled on this cluster: delete.topic.enable=false.")
    return ""


@router.get("/topics/{name}")
@shared
async def topic(request: Request, _caller: PastReader, name: str, page: int = 1) -> Response:
    """Return the page."""
    services = services_of(request)
    if services.cluster.image.topics.topic(name) is None and wants_page(request):
        return _missing(request, name)
    found = known_topic(services.cluster, name)
    cluster, rate = services.cluster, None
    if cluster.past is None:
        rate = rate_view((await cluster.topic_rates.of([found], SIZES_SECONDS))[found.id])
    view = topic_view(cluster, cluster.topic_table, found, page, rows_on_page(request, PARTITIONS_ON_PAGE))
    view = replace(view, rate=rate)
    return render(request, "topic.html", page=page_of(request, name, "/topics"), view=view)


@router.get("/topics/{name}/changes")
@shared
async def topic_changes(request: Request, _caller: PastReader, name: str) -> Response:
    """Return the page of the changes of one topic, newest first."""
    cluster = services_of(request).cluster
    found = known_topic(cluster, name)
    wanted = Concerns(found)
    entries = feed_entries(cluster.history.newest(CHANGES_ON_PAGE, wanted), CHANGES_ON_PAGE, wanted.is_about)
    view = TopicChangesView(found.name, entries, cluster.history.oldest_offset)
    return render(request, "topic_changes.html", page=page_of(request, name, "/topics"), view=view)


@dataclass(frozen=True, slots=True)
class MissingTopicView:
    """Model of missing_topic.html; `deleted_at` and `before` are offsets, None if the deletion is not at hand."""

    name: str
    text: str
    deleted_at: int | None
    before: int | None


def _missing(request: Request, name: str) -> Response:
    cluster, name = services_of(request).cluster, name[:249]
    deleted = topic_deletion(cluster, name)
    offsets = (None, None) if deleted is None else (deleted.offset, deleted.first_offset - 1)
    view = MissingTopicView(name, deleted_topic_text(cluster, name), *offsets)
    return render(
        request, "missing_topic.html", NotFoundError.status, page=page_of(request, phrase("Not found")), view=view
    )


def own_entries(cluster: Cluster, name: str) -> list[ConfigEntry]:
    """Return the configs that are set on a topic."""
    return [entry for entry in cluster.topic_configs(name) if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG]


def _delete_view(request: Request, found: TopicImage, error: str = "") -> ConfirmView:
    replicas = sum(len(each.replicas) for each in values_of(found.partitions))
    overrides = len(own_entries(services_of(request).cluster, found.name))
    return ConfirmView(
        title=phrase("Delete %(topic)s", topic=found.name),
        active="/topics",
        back=found.name,
        back_url=f"/topics/{found.name}",
        action=f"/topics/{found.name}/delete",
        button=phrase("Delete topic"),
        done_url="/topics",
        changes=[
            (phrase("Topic"), found.name, phrase("deleted")),
            (phrase("Partitions"), str(len(found.partitions)), "0"),
            (phrase("Replicas, with all their records"), str(replicas), "0"),
            (phrase("Config overrides"), str(overrides), "0"),
        ],
        consequences=[
            phrase("Producers and consumers of the topic fail or, with auto-creation, create it again under a new id.")
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
        return Flash("good", phrase("Topic %(topic)s deleted at offset %(offset)s.", topic=name, offset=offset))

    view = _delete_view(request, known_topic(services.cluster, name))
    return await preview_or_apply(request, view, confirmed=True, apply=apply, typed=typed)
