"""Features and their finalized levels, in the style of REST v3."""

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.cluster.features import FeatureUpdate
from app.error_responses import NATIVE
from app.rest.paging import Page, PageDep
from app.rest.responses import answer, checked
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.features import FeatureDataList, UpdateFeaturesBody
from app.rest.validation import refuse_repeated
from app.rest.view import NowViewDep, View, ViewDep
from app.services import Admin, Reader, ServicesDep
from kraft_core.protocol.metadata_version import FEATURES

router = APIRouter(prefix="/v3/clusters/{cluster_id}/features", tags=[NATIVE, "operations"], route_class=JsonRoute)


def _feature_data(view: View, name: str, kraft_version: int | None) -> dict[str, Any]:
    known = FEATURES.get(name)
    level = kraft_version if name == "kraft.version" else view.image.features.level(name)
    return view.resource(
        "KafkaFeature",
        ("features", name),
        (("feature", name),),
        feature_name=name,
        level=level,
        lowest_level=None if known is None else known.minimum,
        highest_level=None if known is None else known.maximum,
        brokers=[
            {"broker_id": broker_id, "lowest_level": supported.min, "highest_level": supported.max}
            for broker_id, broker in sorted(view.image.cluster.brokers.items())
            if (supported := broker.supported_features.get(name)) is not None
        ],
    )


def _body(page: Page) -> dict[str, Any]:
    view = page.view
    quorum = view.cluster.quorum
    kraft_version = None if quorum.standing == "unknown" or quorum.kraft_version < 0 else quorum.kraft_version
    names = sorted({*FEATURES, *view.image.features.levels})
    return page.body(
        "KafkaFeatureList", names, lambda name: name, lambda name: _feature_data(view, name, kraft_version)
    )


@router.get("", responses={200: {"model": FeatureDataList}})
async def list_features(view: ViewDep, page: PageDep, _caller: Reader) -> Response:
    """List the features: the finalized level, and the levels that this software and each broker support."""
    return answer(_body(page), view.offset)


@router.patch("", responses={200: {"model": FeatureDataList}})
async def update_features(
    request: Request,
    body: UpdateFeaturesBody,
    view: NowViewDep,
    services: ServicesDep,
    caller: Admin,
    validate_only: DryRun,
) -> Response:
    """Change feature levels, all or none. The answer lists all features after the change."""
    refuse_repeated("Feature", (entry.feature_name for entry in body.data))
    updates = [
        FeatureUpdate(name=entry.feature_name, level=entry.level, upgrade_type=entry.upgrade_type)
        for entry in body.data
    ]
    offset = await services.actions.features.update(caller, updates, validate_only=validate_only)
    after = _body(Page(request, replace(view, image=view.cluster.image)))
    if validate_only:
        levels = {update.name: update.level for update in updates}
        for item in after["data"]:
            item["level"] = levels.get(item["feature_name"], item["level"])
    return answer(checked(after, validate_only=validate_only), view.offset if offset is None else offset)
