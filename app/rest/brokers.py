"""Brokers as they registered, and the replicas they hold."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.rest.common import PageDep, View, ViewDep, answer, list_body
from app.rest.routing import JsonRoute
from app.rest.schemas.brokers import BrokerData, BrokerDataList
from app.rest.schemas.partitions import ReplicaDataList
from app.rest.topics import replica_data
from app.services import Reader
from kraft_core.image.metadata_image import BrokerRegistration
from kraft_core.protocol.uuids import uuid_to_text

router = APIRouter(prefix="/v3/clusters/{cluster_id}/brokers", tags=["brokers"], route_class=JsonRoute)


def broker_data(view: View, broker: BrokerRegistration) -> dict[str, Any]:
    """Return one broker; `host` and `port` are those of its first listener. The state is an addition to REST v3."""
    first = broker.listeners[0] if broker.listeners else None
    return view.resource(
        "KafkaBroker",
        ("brokers", broker.id),
        (("broker", broker.id),),
        broker_id=broker.id,
        host=first.host if first else None,
        port=first.port if first else None,
        rack=broker.rack,
        configs=view.related("brokers", broker.id, "configs"),
        partition_replicas=view.related("brokers", broker.id, "partition-replicas"),
        is_fenced=broker.fenced,
        is_shutting_down=broker.in_controlled_shutdown,
        broker_epoch=broker.epoch,
        incarnation_id=uuid_to_text(broker.incarnation_id),
        listeners=[{"name": at.name, "host": at.host, "port": at.port} for at in broker.listeners],
        log_directories=[uuid_to_text(directory) for directory in broker.directories],
    )


@router.get("", responses={200: {"model": BrokerDataList}})
async def list_brokers(request: Request, view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the registered brokers by id, fenced ones too."""
    brokers = sorted(view.image.cluster.brokers.values(), key=lambda broker: broker.id)
    body = list_body(
        request, view, "KafkaBrokerList", brokers, page, lambda one: one.id, lambda one: broker_data(view, one)
    )
    return answer(body, view.offset)


@router.get("/{broker_id}", responses={200: {"model": BrokerData}})
async def get_broker(broker_id: int, view: ViewDep, _caller: Reader) -> Response:
    """Describe one broker."""
    return answer(broker_data(view, view.broker(broker_id)), view.offset)


@router.get("/{broker_id}/partition-replicas", responses={200: {"model": ReplicaDataList}})
async def list_replicas(request: Request, broker_id: int, view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the replicas the broker holds, by topic and partition."""
    view.broker(broker_id)
    held = sorted(
        (
            (topic.name, index, topic, partition)
            for topic, index, partition in view.image.topics.partitions_of_broker(broker_id)
        ),
        key=lambda item: item[:2],
    )
    body = list_body(
        request,
        view,
        "KafkaReplicaList",
        held,
        page,
        lambda item: (item[0], item[1]),
        lambda item: replica_data(view, item[0], item[1], item[3], broker_id),
    )
    return answer(body, view.offset)
