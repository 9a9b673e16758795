"""Brokers: registrations, state and replicas; unregistering one with a preview."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.brokers import broker_use
from app.cluster.log_dirs import NOT_ASKED, NOT_IN_LOG, LogDirs
from app.cluster.quorum_text import endpoint_texts
from app.cluster.topic_table import TopicTable
from app.http.errors import NotFoundError
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import UNKNOWN, moment, page_items, page_of, render, rows_on_page, share, size
from app.pages.shared_parts import shared
from app.reports.broker_state import ACTIVE, FENCED, SHUTTING_DOWN, UNREGISTERED, broker_state
from app.services import Admin, PastReader, Services, services_of
from app.texts import phrase
from kraft_core.configs.config_resource import BROKER
from kraft_core.image.changes import is_secret_config
from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
from kraft_core.protocol.uuids import uuid_to_text

router = APIRouter(include_in_schema=False)

PARTITIONS_ON_PAGE: Final = 100
STATE_WORDS: Final[Mapping[str, str]] = {
    ACTIVE: phrase("active"),
    SHUTTING_DOWN: phrase("shutting down"),
    FENCED: phrase("fenced"),
    UNREGISTERED: phrase("unregistered"),
}


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker in the list; `why` says why its size is not known, or not new."""

    id: int
    state: str
    rack: str | None
    endpoints: str
    replicas: int
    leaders: int
    out_of_sync: int
    size_bytes: int | None
    why: str
    epoch: int

    @property
    def state_text(self) -> str:
        """The state in words."""
        return STATE_WORDS[self.state]


@dataclass(frozen=True, slots=True)
class BrokersView:
    """Model of brokers.html. `notes` say why sizes of active brokers are not known, or not new."""

    summary: str
    rows: Sequence[BrokerRow]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """One replica on a broker."""

    topic: str
    index: int
    leads: bool
    in_sync: bool
    replicas: str


@dataclass(frozen=True, slots=True)
class LogDirRow:
    """One log directory, from the broker's answer."""

    path: str
    directory_id: str
    state: str
    tone: str
    replicas: int
    size: str
    capacity: str
    usable: str


@dataclass(frozen=True, slots=True)
class LogDirsView:
    """The log directories of a broker; `note` says how old the figures are and why, if the broker does not answer."""

    note: str
    failed: bool
    rows: Sequence[LogDirRow]
    unanswered: Sequence[str]


@dataclass(frozen=True, slots=True)
class BrokerView:
    """Model of broker.html."""

    row: BrokerRow
    incarnation_id: str
    log_dirs: LogDirsView
    features: Sequence[tuple[str, int, int]]
    configs: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ReplicasView:
    """Model of broker_replicas.html: a page of the replicas on a broker."""

    broker_id: int
    partitions: Sequence[HeldPartition]
    page: int
    pages: int


def broker_row(broker: BrokerRegistration, table: TopicTable, log_dirs: LogDirs) -> BrokerRow:
    """Return one row, with the counts of the table of topics and the size that the broker gave."""
    totals = table.totals()
    return BrokerRow(
        id=broker.id,
        state=broker_state(broker),
        rack=broker.rack,
        endpoints=", ".join(endpoint_texts((each.name, each.host, each.port) for each in broker.listeners)),
        replicas=totals.replicas_of.get(broker.id, 0),
        leaders=totals.leaders_of.get(broker.id, 0),
        out_of_sync=totals.out_of_sync_of.get(broker.id, 0),
        size_bytes=log_dirs.size_bytes,
        why=_why_unknown(broker, log_dirs),
        epoch=broker.epoch,
    )


def _why_unknown(broker: BrokerRegistration, log_dirs: LogDirs) -> str:
    if log_dirs is NOT_IN_LOG:
        return phrase("The metadata log does not tell sizes.")
    if log_dirs.error:
        return phrase("Broker %(id)s does not answer: %(error)s", id=broker.id, error=log_dirs.error)
    if log_dirs.asked_at is not None:
        return ""
    if broker.fenced:
        return phrase("Broker %(id)s is fenced and not asked.", id=broker.id)
    return phrase("Broker %(id)s has not answered yet.", id=broker.id)


def log_dirs_view(image: MetadataImage, broker: BrokerRegistration, log_dirs: LogDirs) -> LogDirsView:
    """Return the directories by path. Registered ones that no answer names are listed by id."""
    ids = log_dirs.directory_ids(image, broker)
    rows = []
    for each in sorted(log_dirs.dirs, key=lambda found: found.path):
        state: str = each.error
        tone = "bad"
        if not each.error:
            state, tone = (phrase("cordoned"), "warn") if each.is_cordoned else (phrase("online"), "good")
        rows.append(
            LogDirRow(
                path=each.path,
                directory_id=uuid_to_text(ids[each.path]) if each.path in ids else UNKNOWN,
                state=state,
                tone=tone,
                replicas=each.replicas,
                size=size(None if each.error else each.size_bytes),
                capacity=size(each.total_bytes),
                usable=free_text(each.usable_bytes, each.total_bytes),
            )
        )
    left = [] if rows else [uuid_to_text(each) for each in broker.directories]
    return LogDirsView(_log_dirs_note(broker, log_dirs), bool(log_dirs.error), rows, left)


def _log_dirs_note(broker: BrokerRegistration, log_dirs: LogDirs) -> str:
    asked = log_dirs.asked_at
    if log_dirs is NOT_IN_LOG:
        return phrase("The metadata log does not tell paths and sizes.")
    if log_dirs.error and asked is None:
        return phrase("Broker %(id)s does not answer: %(error)s", id=broker.id, error=log_dirs.error)
    if log_dirs.error:
        return phrase(
            "Broker %(id)s does not answer: %(error)s Figures are as of %(time)s.",
            id=broker.id,
            error=log_dirs.error,
            time=moment(asked),
        )
    if asked is not None:
        return phrase("As of %(time)s, from the broker.", time=moment(asked))
    if broker.fenced:
        return phrase("Broker %(id)s is fenced and not asked.", id=broker.id)
    return phrase("Broker %(id)s has not answered yet; reload the page.", id=broker.id)


def free_text(usable: int | None, total: int | None) -> str:
    """Return the free bytes of a directory and their share, a dash if the broker does not tell."""
    return UNKNOWN if usable is None or total is None else f"{size(usable)} ({share(usable, total)})"


def brokers_view(image: MetadataImage, table: TopicTable, log_dirs: Mapping[int, LogDirs]) -> BrokersView:
    """Return all registered brokers by id."""
    table.refresh(image)
    rows = [
        broker_row(broker, table, log_dirs.get(broker.id, NOT_ASKED))
        for _, broker in sorted(image.cluster.brokers.items())
    ]
    fenced = sum(row.state == FENCED for row in rows)
    notes = dict.fromkeys(row.why for row in rows if row.why and row.state != FENCED)
    summary = phrase("%(registered)s registered, %(fenced)s fenced", registered=len(rows), fenced=fenced)
    return BrokersView(summary, rows, list(notes))


def broker_view(image: MetadataImage, table: TopicTable, broker: BrokerRegistration, log_dirs: LogDirs) -> BrokerView:
    """Return one broker."""
    table.refresh(image)
    configs = {**dict(image.configs.of(BROKER, "")), **dict(image.configs.of(BROKER, str(broker.id)))}
    return BrokerView(
        row=broker_row(broker, table, log_dirs),
        incarnation_id=uuid_to_text(broker.incarnation_id),
        log_dirs=log_dirs_view(image, broker, log_dirs),
        features=[(name, each.min, each.max) for name, each in sorted(broker.supported_features.items())],
        configs=[
            (name, phrase("hidden") if is_secret_config(name) else value) for name, value in sorted(configs.items())
        ],
    )


def replicas_view(image: MetadataImage, broker_id: int, page: int, rows: int) -> ReplicasView:
    """Return a page of the replicas on a broker, sorted by topic and partition."""
    held = sorted(
        ((topic.name, index, each) for topic, index, each in image.topics.partitions_of_broker(broker_id)),
        key=lambda found: found[:2],
    )
    shown, page, pages = page_items(held, page, rows)
    return ReplicasView(
        broker_id,
        [
            HeldPartition(
                topic, index, each.leader == broker_id, broker_id in each.isr, " ".join(map(str, each.replicas))
            )
            for topic, index, each in shown
        ],
        page,
        pages,
    )


def known_broker(image: MetadataImage, broker_id: int) -> BrokerRegistration:
    """Return the broker's registration. Raises NotFoundError."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None:
        raise NotFoundError(phrase("Broker %(id)s is not registered.", id=broker_id))
    return broker


async def current_brokers(services: Services) -> BrokersView:
    """Return the list with the sizes that brokers have given."""
    cluster = services.cluster
    log_dirs = await cluster.log_dirs.of(cluster.image.cluster.brokers.values())
    return brokers_view(cluster.image, cluster.topic_table, log_dirs)


@router.get("/brokers")
async def brokers(request: Request, _caller: PastReader) -> Response:
    """Return the list."""
    view = await current_brokers(services_of(request))
    return render(request, "brokers.html", page=page_of(request, phrase("Brokers"), "/brokers"), view=view)


@router.get("/fragments/brokers")
@shared
async def brokers_fragment(request: Request, _caller: PastReader) -> Response:
    """Return the list without its frame."""
    return render(request, "_brokers.html", view=await current_brokers(services_of(request)))


@router.get("/brokers/{broker_id}")
@shared
async def broker(request: Request, _caller: PastReader, broker_id: int) -> Response:
    """Return one broker."""
    cluster = services_of(request).cluster
    found = await cluster.log_dirs.of([known_broker(cluster.image, broker_id)])
    image = cluster.image
    view = broker_view(image, cluster.topic_table, known_broker(image, broker_id), found[broker_id])
    return render(
        request, "broker.html", page=page_of(request, phrase("Broker %(id)s", id=broker_id), "/brokers"), view=view
    )


@router.get("/brokers/{broker_id}/replicas")
@shared
async def replicas(request: Request, _caller: PastReader, broker_id: int, page: int = 1) -> Response:
    """Return the replicas on one broker."""
    image = services_of(request).cluster.image
    known_broker(image, broker_id)
    view = replicas_view(image, broker_id, page, rows_on_page(request, PARTITIONS_ON_PAGE))
    return render(
        request,
        "broker_replicas.html",
        page=page_of(request, phrase("Broker %(id)s", id=broker_id), "/brokers"),
        view=view,
    )


@router.post("/brokers/{broker_id}/unregister")
async def unregister(
    request: Request,
    caller: Admin,
    broker_id: int,
    confirmed: Annotated[str, Form()] = "",
    typed: Annotated[str, Form()] = "",
    force: Annotated[str, Form()] = "",
) -> Response:
    """Preview the unregistration of a broker; with confirmed=yes and its id typed unregister it.

    `force` comes from a preview that showed why the broker is in use. A broker in use only since then is refused.
    """
    services = services_of(request)
    image = services.cluster.image
    broker = known_broker(image, broker_id)
    use = broker_use(image, broker_id)

    async def apply() -> Flash:
        offset = await services.actions.brokers.unregister(caller, broker_id, force=force == "yes")
        return Flash("good", phrase("Broker %(id)s unregistered at offset %(offset)s.", id=broker_id, offset=offset))

    path = f"brokers/{broker_id}:unregister{'?force=true' if use.is_any else ''}"
    view = ConfirmView(
        title=phrase("Unregister broker %(id)s", id=broker_id),
        active="/brokers",
        back=phrase("Broker %(id)s", id=broker_id),
        back_url=f"/brokers/{broker_id}",
        action=f"/brokers/{broker_id}/unregister",
        button=phrase("Unregister broker"),
        done_url="/brokers",
        changes=[
            (phrase("Registration"), STATE_WORDS[FENCED if broker.fenced else ACTIVE], phrase("none")),
            (phrase("Partitions led"), str(use.leaders), phrase("led by other replicas, or offline")),
            (phrase("Replicas assigned"), str(use.replicas), phrase("unchanged, on no broker")),
        ],
        checks=[
            (
                not use.is_live,
                phrase("Broker %(id)s is live", id=broker_id)
                if use.is_live
                else phrase("Broker %(id)s is not live", id=broker_id),
            ),
            (not use.replicas, use.reasons[-1] if use.replicas else phrase("No replicas are assigned to it")),
        ],
        consequences=[
            phrase("For a broker that is gone for good. A live broker has to be restarted to register again.")
        ],
        fields=[("force", "yes")] if use.is_any else [],
        curl=cluster_curl(request, "POST", path),
        type_name=str(broker_id),
        dangerous=True,
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply, typed=typed)
