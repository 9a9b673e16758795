"""Client quotas, in the style of REST v3."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from app.error_responses import NATIVE
from app.rest.paging import PageDep
from app.rest.responses import DRY_RUN, no_content, planned
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.quotas import AlterQuotaBody, ClientQuotaDataList
from app.rest.validation import refuse_repeated
from app.rest.view import NowViewDep, View, ViewDep
from app.services import Admin, ServicesDep
from kraft_core.clients.admin.quotas import ClientQuotaEntity

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=[NATIVE, "client-quotas"], route_class=JsonRoute)


def _key(entity: ClientQuotaEntity) -> tuple[tuple[str, bool, str], ...]:
    return tuple((kind, name is not None, name or "") for kind, name in entity)


def _quota_data(view: View, entity: ClientQuotaEntity, quotas: dict[str, float]) -> dict[str, Any]:
    return view.resource(
        "KafkaClientQuota",
        ("client-quotas",),
        tuple((kind, "<default>" if name is None else name) for kind, name in entity),
        entity=[{"entity_type": kind, "entity_name": name} for kind, name in entity],
        quotas=[{"key": key, "value": value} for key, value in sorted(quotas.items())],
    )


@router.get("/client-quotas", responses={200: {"model": ClientQuotaDataList}})
async def list_client_quotas(view: ViewDep, page: PageDep, _caller: Admin) -> Response:
    """List the quotas by entity, defaults before names."""
    quotas = view.image.client_quotas
    return page.answer(
        "KafkaClientQuotaList",
        sorted(quotas, key=_key),
        lambda entity: tuple(map(list, _key(entity))),
        lambda entity: _quota_data(view, entity, dict(quotas[entity].items())),
    )


@router.post("/client-quotas:alter", status_code=204, responses=DRY_RUN)
async def alter_client_quota(
    body: AlterQuotaBody, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Set or remove quotas of one entity, all or none."""
    refuse_repeated("Quota", (entry.key for entry in body.data))
    refuse_repeated("Entity type", (each.entity_type for each in body.entity))
    changes = {entry.key: entry.value for entry in body.data}
    entity = tuple(sorted(((each.entity_type, each.entity_name) for each in body.entity), key=lambda each: each[0]))
    offset = await services.actions.quotas.alter(caller, entity, changes, validate_only=validate_only)
    if validate_only:
        held = dict(view.image.client_quotas[entity].items()) if entity in view.image.client_quotas else {}
        return planned([(f"quota {key}", held.get(key), value) for key, value in changes.items()])
    return no_content(offset)
