"""ACLs, as REST v3 has them."""

import re
from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from app.cluster.acl_files import ERRORS_MAX, WrongAclError, checked_acl
from app.cluster.acl_presets import Application
from app.cluster.acls import acl_of, acls_of, words_of
from app.error_responses import NATIVE
from app.http.errors import BadRequestError, FieldError, NotFoundError
from app.rest.item_results import item_result, outcomes
from app.rest.paging import PageDep
from app.rest.responses import DRY_RUN, answer, checked, created_at, multi_status, no_content, planned
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.acls import (
    AclDataList,
    AclImportData,
    ApplicationBody,
    CreateAclBody,
    CreateAclsBody,
    DeletedAclsData,
    ImportAclsBody,
)
from app.rest.view import NowViewDep, View, ViewDep
from app.services import Admin, ServicesDep
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.protocol.acl import (
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    acl_words,
)

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=["acls"], route_class=JsonRoute)


def _filter(
    resource_type: Annotated[str, Query(max_length=50)] = "ANY",
    resource_name: Annotated[str | None, Query(max_length=1_000)] = None,
    pattern_type: Annotated[str, Query(max_length=50)] = "ANY",
    principal: Annotated[str | None, Query(max_length=1_000)] = None,
    host: Annotated[str | None, Query(max_length=1_000)] = None,
    operation: Annotated[str, Query(max_length=50)] = "ANY",
    permission: Annotated[str, Query(max_length=50)] = "ANY",
) -> AclFilter:
    """Return the filter of the query. A parameter that is absent or empty matches everything."""
    return AclFilter(
        resource_type=_word(ResourceType, "ResourceType", resource_type),
        resource_name=resource_name or None,
        pattern_type=_word(PatternType, "PatternType", pattern_type),
        principal=principal or None,
        host=host or None,
        operation=_word(AclOperation, "Operation", operation),
        permission_type=_word(AclPermissionType, "Permission", permission),
    )


def _word(kind: type[IntEnum], name: str, text: str) -> int:
    """Return the number of a word of a filter, in any case. Raises NotFoundError in REST v3's words."""
    words = acl_words(kind, for_filter=True)
    if text.upper() not in words:
        raise NotFoundError(
            f"The valid values for {name} do not include '{text}'",
            errors=(
                FieldError("?" + re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower(), f"allowed: {', '.join(words)}"),
            ),
        )
    return kind[text.upper()]


FilterDep = Annotated[AclFilter, Depends(_filter)]


def _acl_data(view: View, acl: StandardAcl) -> dict[str, Any]:
    words = words_of(acl)
    return view.resource("KafkaAcl", ("acls",), tuple((f"acl-{key}", value) for key, value in words.items()), **words)


@router.get("/acls", responses={200: {"model": AclDataList}})
async def list_acls(view: ViewDep, wanted: FilterDep, page: PageDep, _caller: Admin) -> Response:
    """List the ACLs that match the filter."""
    acls = acls_of(view.image, wanted)
    return page.answer("KafkaAclList", acls, msgspec.structs.astuple, lambda acl: _acl_data(view, acl))


def _planned(view: View, acls: Sequence[StandardAcl]) -> Response:
    """Return the dry run of a creation. An ACL that exists stays as it is."""
    shown = {str(acl): (_acl_data(view, acl), view.image.acls.contains(acl)) for acl in acls}
    return planned([(f"ACL {name}", data if exists else None, data) for name, (data, exists) in shown.items()])


@router.post("/acls", status_code=201, responses=DRY_RUN)
async def create_acl(
    body: CreateAclBody, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Create one ACL. An ACL that exists already is not an error."""
    acl = acl_of(body.model_dump())
    offset = await services.actions.acls.create(caller, [acl], validate_only=validate_only)
    if validate_only:
        return _planned(view, [acl])
    members = body.model_dump(exclude={"validate_only"})
    query = urlencode({key: value for key, value in members.items() if value})
    return created_at(f"{view.url('acls')}?{query}", offset)


@router.post("/acls:batch", status_code=204, responses=DRY_RUN)
async def create_acls(
    body: CreateAclsBody, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Create several ACLs."""
    acls = [acl_of(each.model_dump()) for each in body.data]
    offset = await services.actions.acls.create(caller, acls, validate_only=validate_only)
    return _planned(view, acls) if validate_only else no_content(offset)


@router.post("/acls:application", status_code=204, responses=DRY_RUN)
async def create_application_acls(
    body: ApplicationBody, view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Create the ACLs of a producer, a consumer, Kafka Streams or Kafka Connect. Those that exist stay."""
    acls = Application(**body.model_dump(exclude={"validate_only"})).acls()
    offset = await services.actions.acls.create(caller, acls, validate_only=validate_only)
    return _planned(view, acls) if validate_only else no_content(offset)


@router.post("/acls:import", tags=[NATIVE], responses=outcomes(AclImportData, "imported"))
async def import_acls(
    body: ImportAclsBody, _view: NowViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Create the listed ACLs that do not exist and, if wanted, delete all others."""
    imported = await services.actions.acls.import_acls(
        caller, _listed(body), remove_others=body.remove_others, validate_only=validate_only
    )
    refused = sum(isinstance(each.made, Exception) for each in imported)
    counts = Counter(each.change for each in imported if not isinstance(each.made, Exception))
    found = {
        "kind": "KafkaAclImport",
        "created_count": counts["CREATE"],
        "unchanged_count": counts["NONE"],
        "deleted_count": counts["DELETE"],
        "refused_count": refused,
        "data": [item_result({**words_of(each.acl), "change": each.change}, each.made) for each in imported],
    }
    result = checked(found, validate_only=validate_only)
    offset = max((each.made for each in imported if isinstance(each.made, int)), default=None)
    return multi_status(result, offset) if refused else answer(result, offset)


def _listed(body: ImportAclsBody) -> list[StandardAcl]:
    """Return the ACLs of the body. Raises BadRequestError that names each wrong entry."""
    found, wrong = [], []
    for number, each in enumerate(body.data):
        try:
            found.append(checked_acl(each.model_dump()))
        except WrongAclError as error:
            wrong.append(FieldError(f"/data/{number}", str(error)))
    if wrong:
        text = "; ".join(f"{each.pointer} {each.message}" for each in wrong[:ERRORS_MAX])
        raise BadRequestError(f"Bad Request: {text}", errors=tuple(wrong[:ERRORS_MAX]))
    return found


@router.delete("/acls", responses={200: {"model": DeletedAclsData}})
async def delete_acls(
    request: Request,
    view: NowViewDep,
    wanted: FilterDep,
    services: ServicesDep,
    caller: Admin,
    validate_only: DryRun,
) -> Response:
    """Delete every ACL that matches the filter, of which four members are required as a safeguard."""
    required = ("resource_type", "pattern_type", "operation", "permission")
    missing = [name for name in required if name not in request.query_params]
    if missing:
        raise BadRequestError(f"Bad Request: {', '.join(missing)} must be given; ANY matches every value.")
    offset, deleted = await services.actions.acls.delete(caller, wanted, validate_only=validate_only)
    return answer(checked({"data": [_acl_data(view, acl) for acl in deleted]}, validate_only=validate_only), offset)
