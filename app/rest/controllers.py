"""Registered controllers."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from app.error_responses import NATIVE
from app.rest.paging import PageDep
from app.rest.responses import answer
from app.rest.routing import JsonRoute
from app.rest.schemas.controllers import ControllerData, ControllerDataList
from app.rest.view import View, ViewDep
from app.services import Reader
from kraft_core.image.metadata_image import ControllerRegistration
from kraft_core.protocol.uuids import uuid_to_text

router = APIRouter(prefix="/v3/clusters/{cluster_id}/controllers", tags=[NATIVE, "nodes"], route_class=JsonRoute)


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


@router.get("", responses={200: {"model": ControllerDataList}})
async def list_controllers(view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the registered controllers by id."""
    controllers = sorted(view.image.cluster.controllers.values(), key=lambda each: each.id)
    return page.answer(
        "KafkaControllerList", controllers, lambda each: each.id, lambda each: _controller_data(view, each)
    )


@router.get("/{controller_id}", responses={200: {"model": ControllerData}})
async def get_controller(controller_id: int, view: ViewDep, _caller: Reader) -> Response:
    """Describe one controller."""
    found = view.image.cluster.controllers.get(controller_id)
    if found is None:
        raise view.not_found(f"Controller {controller_id}")
    return answer(_controller_data(view, found), view.offset)
