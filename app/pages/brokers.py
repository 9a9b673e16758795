"""Brokers: who is registered, in which state, and what each one holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.cluster.topic_table import TopicTable
from app.http.errors import ApiError
from app.pages.frame import page_of, render
from app.reports.broker_state import broker_state
from app.services import Reader, services_of
from kraft_core.configs.config_resource import BROKER
from kraft_core.image.changes import is_secret_config
from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
from kraft_core.protocol.uuids import uuid_to_text

router = APIRouter(include_in_schema=False)

PARTITIONS_ON_PAGE: Final = 100
TONES: Final = {"ACTIVE": "good", "SHUTTING_DOWN": "warn", "FENCED": "bad"}


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker in the list."""

    id: int
    state: str
    rack: str | None
    endpoints: str
    replicas: int
    leaders: int
    out_of_sync: int
    epoch: int


@dataclass(frozen=True, slots=True)
class BrokersView:
    """What brokers.html shows."""

    summary: str
    rows: Sequence[BrokerRow]


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """One replica on a broker."""

    topic: str
    index: int
    leads: bool
    in_sync: bool
    replicas: str


@dataclass(frozen=True, slots=True)
class BrokerView:
    """What broker.html shows."""

    row: BrokerRow
    tone: str
    incarnation_id: str
    directories: str
    features: Sequence[tuple[str, int, int]]
    configs: Sequence[tuple[str, str]]
    partitions: Sequence[HeldPartition]
    page: int
    pages: int


def broker_row(broker: BrokerRegistration, table: TopicTable) -> BrokerRow:
    """One row, counted by the table of topics."""
    totals = table.totals()
    return BrokerRow(
        id=broker.id,
        state=broker_state(broker),
        rack=broker.rack,
        endpoints=", ".join(f"{each.name}://{each.host}:{each.port}" for each in broker.listeners),
        replicas=totals.replicas_of.get(broker.id, 0),
        leaders=totals.leaders_of.get(broker.id, 0),
        out_of_sync=totals.out_of_sync_of.get(broker.id, 0),
        epoch=broker.epoch,
    )


def brokers_view(image: MetadataImage, table: TopicTable) -> BrokersView:
    """All registered brokers by id."""
    table.refresh(image)
    rows = [broker_row(broker, table) for _, broker in sorted(image.cluster.brokers.items())]
    fenced = sum(row.state == "FENCED" for row in rows)
    return BrokersView(f"{len(rows)} registered, {fenced} fenced", rows)


def broker_view(image: MetadataImage, table: TopicTable, broker: BrokerRegistration, page: int) -> BrokerView:
    """One broker with a page of what it holds, sorted by topic and partition."""
    table.refresh(image)
    held = sorted(
        ((topic.name, index, each) for topic, index, each in image.topics.partitions_of_broker(broker.id)),
        key=lambda found: found[:2],
    )
    pages = max(1, -(-len(held) // PARTITIONS_ON_PAGE))
    page = min(max(1, page), pages)
    start = (page - 1) * PARTITIONS_ON_PAGE
    row = broker_row(broker, table)
    configs = {**dict(image.configs.of(BROKER, "")), **dict(image.configs.of(BROKER, str(broker.id)))}
    return BrokerView(
        row=row,
        tone=TONES.get(row.state, ""),
        incarnation_id=uuid_to_text(broker.incarnation_id),
        directories=", ".join(uuid_to_text(directory) for directory in broker.directories),
        features=[(name, each.min, each.max) for name, each in sorted(broker.supported_features.items())],
        configs=[(name, "hidden" if is_secret_config(name) else value) for name, value in sorted(configs.items())],
        partitions=[
            HeldPartition(
                topic, index, each.leader == broker.id, broker.id in each.isr, " ".join(map(str, each.replicas))
            )
            for topic, index, each in held[start : start + PARTITIONS_ON_PAGE]
        ],
        page=page,
        pages=pages,
    )


def known_broker(image: MetadataImage, broker_id: int) -> BrokerRegistration:
    """The broker's registration. Raises ApiError 404."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None:
        raise ApiError(404, f"No broker {broker_id} is registered.")
    return broker


@router.get("/brokers")
async def brokers(request: Request, _caller: Reader) -> Response:
    """The list."""
    services = services_of(request)
    view = brokers_view(services.cluster.image, services.cluster.topic_table)
    return render(request, "brokers.html", page=page_of(request, "Brokers", "/brokers"), view=view)


@router.get("/fragments/brokers")
async def brokers_fragment(request: Request, _caller: Reader) -> Response:
    """The list without its frame."""
    services = services_of(request)
    return render(request, "_brokers.html", view=brokers_view(services.cluster.image, services.cluster.topic_table))


@router.get("/brokers/{broker_id}")
async def broker(request: Request, _caller: Reader, broker_id: int, page: int = 1) -> Response:
    """One broker."""
    services = services_of(request)
    image = services.cluster.image
    view = broker_view(image, services.cluster.topic_table, known_broker(image, broker_id), page)
    return render(request, "broker.html", page=page_of(request, f"Broker {broker_id}", "/brokers"), view=view)
