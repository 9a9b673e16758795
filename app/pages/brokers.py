"""Brokers: registrations, state and replicas; unregistering one with a preview."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.cluster.brokers import broker_use
from app.cluster.quorum_text import endpoint_texts
from app.cluster.topic_table import TopicTable
from app.http.errors import NotFoundError
from app.pages.confirm import ConfirmView, cluster_curl, preview_or_apply
from app.pages.flash import Flash
from app.pages.frame import page_items, page_of, render
from app.reports.broker_state import broker_state
from app.services import Admin, Reader, services_of
from kraft_core.configs.config_resource import BROKER
from kraft_core.image.changes import is_secret_config
from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
from kraft_core.protocol.uuids import uuid_to_text

router = APIRouter(include_in_schema=False)

PARTITIONS_ON_PAGE: Final = 100


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
    """Model of brokers.html."""

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
    """Model of broker.html."""

    row: BrokerRow
    incarnation_id: str
    directories: str
    features: Sequence[tuple[str, int, int]]
    configs: Sequence[tuple[str, str]]
    partitions: Sequence[HeldPartition]
    page: int
    pages: int


def broker_row(broker: BrokerRegistration, table: TopicTable) -> BrokerRow:
    """Return one row, with the counts of the table of topics."""
    totals = table.totals()
    return BrokerRow(
        id=broker.id,
        state=broker_state(broker),
        rack=broker.rack,
        endpoints=", ".join(endpoint_texts((each.name, each.host, each.port) for each in broker.listeners)),
        replicas=totals.replicas_of.get(broker.id, 0),
        leaders=totals.leaders_of.get(broker.id, 0),
        out_of_sync=totals.out_of_sync_of.get(broker.id, 0),
        epoch=broker.epoch,
    )


def brokers_view(image: MetadataImage, table: TopicTable) -> BrokersView:
    """Return all registered brokers by id."""
    table.refresh(image)
    rows = [broker_row(broker, table) for _, broker in sorted(image.cluster.brokers.items())]
    fenced = sum(row.state == "FENCED" for row in rows)
    return BrokersView(f"{len(rows)} registered, {fenced} fenced", rows)


def broker_view(image: MetadataImage, table: TopicTable, broker: BrokerRegistration, page: int) -> BrokerView:
    """Return one broker with a page of its replicas, sorted by topic and partition."""
    table.refresh(image)
    held = sorted(
        ((topic.name, index, each) for topic, index, each in image.topics.partitions_of_broker(broker.id)),
        key=lambda found: found[:2],
    )
    shown, page, pages = page_items(held, page, PARTITIONS_ON_PAGE)
    row = broker_row(broker, table)
    configs = {**dict(image.configs.of(BROKER, "")), **dict(image.configs.of(BROKER, str(broker.id)))}
    return BrokerView(
        row=row,
        incarnation_id=uuid_to_text(broker.incarnation_id),
        directories=", ".join(uuid_to_text(directory) for directory in broker.directories),
        features=[(name, each.min, each.max) for name, each in sorted(broker.supported_features.items())],
        configs=[(name, "hidden" if is_secret_config(name) else value) for name, value in sorted(configs.items())],
        partitions=[
            HeldPartition(
                topic, index, each.leader == broker.id, broker.id in each.isr, " ".join(map(str, each.replicas))
            )
            for topic, index, each in shown
        ],
        page=page,
        pages=pages,
    )


def known_broker(image: MetadataImage, broker_id: int) -> BrokerRegistration:
    """Return the broker's registration. Raises NotFoundError."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None:
        raise NotFoundError(f"Broker {broker_id} is not registered.")
    return broker


@router.get("/brokers")
async def brokers(request: Request, _caller: Reader) -> Response:
    """Return the list."""
    services = services_of(request)
    view = brokers_view(services.cluster.image, services.cluster.topic_table)
    return render(request, "brokers.html", page=page_of(request, "Brokers", "/brokers"), view=view)


@router.get("/fragments/brokers")
async def brokers_fragment(request: Request, _caller: Reader) -> Response:
    """Return the list without its frame."""
    services = services_of(request)
    return render(request, "_brokers.html", view=brokers_view(services.cluster.image, services.cluster.topic_table))


@router.get("/brokers/{broker_id}")
async def broker(request: Request, _caller: Reader, broker_id: int, page: int = 1) -> Response:
    """Return one broker."""
    services = services_of(request)
    image = services.cluster.image
    view = broker_view(image, services.cluster.topic_table, known_broker(image, broker_id), page)
    return render(request, "broker.html", page=page_of(request, f"Broker {broker_id}", "/brokers"), view=view)


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
        return Flash("good", f"Broker {broker_id} unregistered at offset {offset}.")

    path = f"brokers/{broker_id}:unregister{'?force=true' if use.is_any else ''}"
    view = ConfirmView(
        title=f"Unregister broker {broker_id}",
        active="/brokers",
        back=f"Broker {broker_id}",
        back_url=f"/brokers/{broker_id}",
        action=f"/brokers/{broker_id}/unregister",
        button="Unregister broker",
        done_url="/brokers",
        changes=[
            ("Registration", "fenced" if broker.fenced else "active", "none"),
            ("Partitions led", str(use.leaders), "led by other replicas, or offline"),
            ("Replicas assigned", str(use.replicas), "unchanged, on no broker"),
        ],
        checks=[
            (not use.is_live, f"Broker {broker_id} is live" if use.is_live else f"Broker {broker_id} is not live"),
            (not use.replicas, use.reasons[-1] if use.replicas else "No replicas are assigned to it"),
        ],
        consequences=["For a broker that is gone for good. A live broker has to be restarted to register again."],
        fields=[("force", "yes")] if use.is_any else [],
        curl=cluster_curl(request, "POST", path),
        type_name=str(broker_id),
        dangerous=True,
    )
    return await preview_or_apply(request, view, confirmed=bool(confirmed), apply=apply, typed=typed)
