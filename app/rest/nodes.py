"""Controllers as they registered, the log directories of brokers, the next producer id: what nodes told the quorum."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.answers import NATIVE
from app.http.errors import ApiError
from app.rest.common import PageDep, View, ViewDep, answer, list_body
from app.rest.routing import JsonRoute
from app.rest.schemas.brokers import LogDirectoryDataList
from app.rest.schemas.clusters import ProducerIdsData
from app.rest.schemas.controllers import ControllerData, ControllerDataList
from app.services import Reader
from kraft_core.image.metadata_image import BrokerRegistration, ControllerRegistration
from kraft_core.protocol.uuids import uuid_to_text

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=[NATIVE, "nodes"], route_class=JsonRoute)


def _controller_data(view: View, controller: ControllerRegistration) -> dict[str, Any]:
    return view.resource(
        "KafkaController",
        ("controllers", controller.id),
        (("controller", controller.id),),
        controller_id=controller.id,
        incarnation_id=uuid_to_text(controller.incarnation_id),
        is_leader=controller.id == view.cluster.quorum.leader_id,
        listeners=[{"name": at.name, "host": at.host, "port": at.port} for at in controller.listeners],
        features=[
            {"feature_name": name, "lowest_level": levels.min, "highest_level": levels.max}
            for name, levels in sorted(controller.supported_features.items())
        ],
        quorum=view.related("quorum"),
    )


@router.get("/controllers", responses={200: {"model": ControllerDataList}})
async def list_controllers(request: Request, view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the controllers that registered, by id."""
    controllers = sorted(view.image.cluster.controllers.values(), key=lambda each: each.id)
    body = list_body(
        request,
        view,
        "KafkaControllerList",
        controllers,
        page,
        lambda each: each.id,
        lambda each: _controller_data(view, each),
    )
    return answer(body, view.offset)


@router.get("/controllers/{controller_id}", responses={200: {"model": ControllerData}})
async def get_controller(controller_id: int, view: ViewDep, _caller: Reader) -> Response:
    """Describe one controller."""
    found = view.image.cluster.controllers.get(controller_id)
    if found is None:
        raise ApiError(404, f"Controller {controller_id} cannot be found in cluster {view.cluster_id}.")
    return answer(_controller_data(view, found), view.offset)


def _directories(view: View, broker: BrokerRegistration) -> list[dict[str, Any]]:
    replicas = dict.fromkeys(broker.directories, 0)
    for _, _, partition in view.image.topics.partitions_of_broker(broker.id):
        directory = partition.directory(broker.id)
        if directory in replicas:
            replicas[directory] += 1
    cordoned = broker.cordoned_directories
    return [
        view.resource(
            "KafkaLogDirectory",
            ("brokers", broker.id, "log-directories"),
            (("broker", broker.id), ("log-directory", uuid_to_text(directory))),
            broker_id=broker.id,
            directory_id=uuid_to_text(directory),
            is_cordoned=None if cordoned is None else directory in cordoned,
            replicas_count=count,
            partition_replicas=view.related("brokers", broker.id, "partition-replicas"),
        )
        for directory, count in replicas.items()
    ]


@router.get("/brokers/{broker_id}/log-directories", responses={200: {"model": LogDirectoryDataList}})
async def list_log_directories(
    request: Request, broker_id: int, view: ViewDep, page: PageDep, _caller: Reader
) -> Response:
    """List the broker's online log directories with the number of replicas that it assigned to each."""
    directories = sorted(_directories(view, view.broker(broker_id)), key=lambda each: str(each["directory_id"]))
    body = list_body(request, view, "KafkaLogDirectoryList", directories, page, lambda each: each["directory_id"], dict)
    return answer(body, view.offset)


@router.get("/producer-ids", responses={200: {"model": ProducerIdsData}})
async def get_producer_ids(view: ViewDep, _caller: Reader) -> Response:
    """Say which producer id comes next; brokers fetch them in blocks of 1,000."""
    following = max(0, view.image.producer_ids)
    body = view.resource("KafkaProducerIds", ("producer-ids",), (("producer-ids", ""),), next_producer_id=following)
    return answer(body, view.offset)
