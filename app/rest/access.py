"""Who may do what in the cluster, and how much: ACLs as REST v3 has them; SCRAM users and client quotas in its style."""

from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from app.answers import NATIVE
from app.cluster.acls import acls_of
from app.cluster.quotas import QuotaEntity
from app.http.errors import ApiError
from app.http.locations import located
from app.rest.common import DRY_RUN, VALIDATED, PageDep, View, ViewDep, answer, dry_answer, list_body, no_content
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.acls import AclDataList, AclEntry, CreateAclBody, CreateAclsBody, DeletedAclsData
from app.rest.schemas.quotas import AlterQuotaBody, ClientQuotaDataList
from app.rest.schemas.scram import ScramName, ScramUserBody, ScramUserData, ScramUserDataList
from app.services import Admin, ServicesDep
from kraft_core.image.acls_image import AclFilter, StandardAcl
from kraft_core.image.scram_mechanism import SCRAM_MECHANISMS, SCRAM_MECHANISMS_BY_TYPE, ScramMechanism
from kraft_core.protocol.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kraft_core.protocol.errors import ErrorCode, KafkaError

router = APIRouter(prefix="/v3/clusters/{cluster_id}", route_class=JsonRoute)

_ACLS: Final[list[str | Enum]] = ["acls"]
_SCRAM: Final[list[str | Enum]] = [NATIVE, "scram-users"]
_QUOTAS: Final[list[str | Enum]] = [NATIVE, "client-quotas"]


def _code(kind: type[IntEnum], text: str, what: str, *, for_filter: bool = False) -> int:
    """Read a word such as TOPIC. Raises KafkaError INVALID_REQUEST that lists the words."""
    words = [each.name for each in kind if each.name not in {"UNKNOWN", *(() if for_filter else ("ANY", "MATCH"))}]
    if text.upper() not in words:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{what} '{text}' is none of {', '.join(words)}.")
    return kind[text.upper()]


def _filter(  # the query parameters that REST v3 has
    resource_type: Annotated[str, Query(max_length=50)] = "ANY",
    resource_name: Annotated[str | None, Query(max_length=1_000)] = None,
    pattern_type: Annotated[str, Query(max_length=50)] = "ANY",
    principal: Annotated[str | None, Query(max_length=1_000)] = None,
    host: Annotated[str | None, Query(max_length=1_000)] = None,
    operation: Annotated[str, Query(max_length=50)] = "ANY",
    permission: Annotated[str, Query(max_length=50)] = "ANY",
) -> AclFilter:
    """Read which ACLs are meant; what is absent or empty is left open."""
    return AclFilter(
        resource_type=_code(ResourceType, resource_type, "resource_type", for_filter=True),
        resource_name=resource_name or None,
        pattern_type=_code(PatternType, pattern_type, "pattern_type", for_filter=True),
        principal=principal or None,
        host=host or None,
        operation=_code(AclOperation, operation, "operation", for_filter=True),
        permission_type=_code(AclPermissionType, permission, "permission", for_filter=True),
    )


FilterDep = Annotated[AclFilter, Depends(_filter)]


def _acl_data(view: View, acl: StandardAcl) -> dict[str, Any]:
    words = {
        "resource_type": ResourceType(acl.resource_type).name,
        "resource_name": acl.resource_name,
        "pattern_type": PatternType(acl.pattern_type).name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": AclOperation(acl.operation).name,
        "permission": AclPermissionType(acl.permission_type).name,
    }
    return view.resource("KafkaAcl", ("acls",), tuple((f"acl-{key}", value) for key, value in words.items()), **words)


def _acl(body: AclEntry) -> StandardAcl:
    return StandardAcl(
        resource_type=_code(ResourceType, body.resource_type, "resource_type"),
        resource_name=body.resource_name,
        pattern_type=_code(PatternType, body.pattern_type, "pattern_type"),
        principal=body.principal,
        host=body.host,
        operation=_code(AclOperation, body.operation, "operation"),
        permission_type=_code(AclPermissionType, body.permission, "permission"),
    )


@router.get("/acls", tags=_ACLS, responses={200: {"model": AclDataList}})
async def list_acls(request: Request, view: ViewDep, wanted: FilterDep, page: PageDep, _caller: Admin) -> Response:
    """List the ACLs that the filter fits."""
    body = list_body(
        request,
        view,
        "KafkaAclList",
        acls_of(view.image, wanted),
        page,
        lambda acl: (
            acl.resource_type,
            acl.resource_name,
            acl.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        ),
        lambda acl: _acl_data(view, acl),
    )
    return answer(body, view.offset)


def _planned_acls(view: View, acls: Sequence[StandardAcl]) -> Response:
    """Answer a dry run of a creation: an ACL that exists stays as it is."""
    shown = {str(acl): (_acl_data(view, acl), view.image.acls.contains(acl)) for acl in acls}
    return dry_answer([(f"ACL {name}", data if exists else None, data) for name, (data, exists) in shown.items()])


@router.post("/acls", tags=_ACLS, status_code=201, responses=DRY_RUN)
async def create_acl(
    body: CreateAclBody, view: ViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Create one ACL; one that is there already is no error."""
    acl = _acl(body)
    offset = await services.actions.acls.create(caller, [acl], validate_only=validate_only)
    if validate_only:
        return _planned_acls(view, [acl])
    members = body.model_dump(exclude={"validate_only"})
    query = urlencode({key: value for key, value in members.items() if value})
    headers = {**located(f"{view.url('acls')}?{query}"), "X-Metadata-Offset": str(offset)}
    return Response(status_code=201, headers=headers)


@router.post("/acls:batch", tags=_ACLS, status_code=204, responses=DRY_RUN)
async def create_acls(
    body: CreateAclsBody, view: ViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Create several ACLs."""
    acls = [_acl(each) for each in body.data]
    offset = await services.actions.acls.create(caller, acls, validate_only=validate_only)
    return _planned_acls(view, acls) if validate_only else no_content(offset)


@router.delete("/acls", tags=_ACLS, responses={200: {"model": DeletedAclsData}})
async def delete_acls(
    request: Request, view: ViewDep, wanted: FilterDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Delete every ACL that the filter fits; four of its members must be given, so that none is forgotten."""
    required = ("resource_type", "pattern_type", "operation", "permission")
    missing = [name for name in required if name not in request.query_params]
    if missing:
        raise ApiError(400, f"Bad Request: {', '.join(missing)} must be given, ANY if any is meant.")
    offset, deleted = await services.actions.acls.delete(caller, wanted, validate_only=validate_only)
    return answer({"data": [_acl_data(view, acl) for acl in deleted], **(VALIDATED if validate_only else {})}, offset)


# SCRAM users


def _mechanism(name: str) -> ScramMechanism:
    found = SCRAM_MECHANISMS.get(name.upper())
    if found is None:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"mechanism '{name}' is none of {', '.join(SCRAM_MECHANISMS)}."
        )
    return found


def _scram_users(view: View) -> dict[str, list[dict[str, Any]]]:
    users: dict[str, list[dict[str, Any]]] = {}
    for kind in sorted(view.image.scram):
        for name, credential in view.image.scram[kind].items():
            told = {"mechanism": SCRAM_MECHANISMS_BY_TYPE[kind].name, "iterations": credential.iterations}
            users.setdefault(name, []).append(told)
    return users


def _user_data(view: View, name: str, credentials: list[dict[str, Any]]) -> dict[str, Any]:
    path = ("scram-users", name)
    return view.resource("KafkaScramUser", path, (("scram-user", name),), user_name=name, credentials=credentials)


@router.get("/scram-users", tags=_SCRAM, responses={200: {"model": ScramUserDataList}})
async def list_scram_users(request: Request, view: ViewDep, page: PageDep, _caller: Admin) -> Response:
    """List the users that log in to the cluster by SCRAM; nothing of their passwords is told."""
    users = sorted(_scram_users(view).items())
    body = list_body(
        request, view, "KafkaScramUserList", users, page, lambda item: item[0], lambda item: _user_data(view, *item)
    )
    return answer(body, view.offset)


@router.get("/scram-users/{user_name}", tags=_SCRAM, responses={200: {"model": ScramUserData}})
async def get_scram_user(user_name: str, view: ViewDep, _caller: Admin) -> Response:
    """Describe one SCRAM user."""
    found = _scram_users(view).get(user_name)
    if found is None:
        raise ApiError(404, f"SCRAM user {user_name} cannot be found in cluster {view.cluster_id}.")
    return answer(_user_data(view, user_name, found), view.offset)


@router.put("/scram-users/{user_name}/credentials/{mechanism}", tags=_SCRAM, status_code=204, responses=DRY_RUN)
async def put_scram_user(
    user_name: Annotated[ScramName, Path()],
    mechanism: str,
    body: ScramUserBody,
    view: ViewDep,
    services: ServicesDep,
    caller: Admin,
    validate_only: DryRun,
) -> Response:
    """Set a user's password for one mechanism."""
    found = _mechanism(mechanism)
    offset = await services.actions.scram.put(
        caller, user_name, found, body.password, body.iterations, validate_only=validate_only
    )
    after = {"mechanism": found.name, "iterations": body.iterations}
    return _planned_scram(view, user_name, found, after) if validate_only else no_content(offset)


@router.delete("/scram-users/{user_name}/credentials/{mechanism}", tags=_SCRAM, status_code=204, responses=DRY_RUN)
async def delete_scram_user(
    user_name: str, mechanism: str, view: ViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Take a user's password for one mechanism away."""
    found = _mechanism(mechanism)
    offset = await services.actions.scram.delete(caller, user_name, found, validate_only=validate_only)
    return _planned_scram(view, user_name, found, None) if validate_only else no_content(offset)


def _planned_scram(view: View, name: str, mechanism: ScramMechanism, after: dict[str, Any] | None) -> Response:
    held = _scram_users(view).get(name, [])
    before = next((each for each in held if each["mechanism"] == mechanism.name), None)
    return dry_answer([(f"SCRAM user {name}", before, after)])


# quotas


def _quota_key(entity: QuotaEntity) -> tuple[tuple[str, bool, str], ...]:
    return tuple((kind, name is not None, name or "") for kind, name in entity)


def _quota_data(view: View, entity: QuotaEntity, quotas: dict[str, float]) -> dict[str, Any]:
    return view.resource(
        "KafkaClientQuota",
        ("client-quotas",),
        tuple((kind, "<default>" if name is None else name) for kind, name in entity),
        entity=[{"entity_type": kind, "entity_name": name} for kind, name in entity],
        quotas=[{"key": key, "value": value} for key, value in sorted(quotas.items())],
    )


@router.get("/client-quotas", tags=_QUOTAS, responses={200: {"model": ClientQuotaDataList}})
async def list_client_quotas(request: Request, view: ViewDep, page: PageDep, _caller: Admin) -> Response:
    """List the quotas by entity; defaults come before names."""
    entities = sorted(view.image.client_quotas, key=_quota_key)
    body = list_body(
        request,
        view,
        "KafkaClientQuotaList",
        entities,
        page,
        lambda entity: tuple(map(list, _quota_key(entity))),
        lambda entity: _quota_data(view, entity, dict(view.image.client_quotas[entity].items())),
    )
    return answer(body, view.offset)


@router.post("/client-quotas:alter", tags=_QUOTAS, status_code=204, responses=DRY_RUN)
async def alter_client_quota(
    body: AlterQuotaBody, view: ViewDep, services: ServicesDep, caller: Admin, validate_only: DryRun
) -> Response:
    """Set or remove quotas of one entity, all or none."""
    changes = {entry.key: entry.value for entry in body.data}
    if len(changes) != len(body.data):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A quota is given twice.")
    entity = tuple(sorted(((each.entity_type, each.entity_name) for each in body.entity), key=lambda each: each[0]))
    if len({kind for kind, _ in entity}) != len(entity):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "An entity type is given twice.")
    offset = await services.actions.quotas.alter(caller, entity, changes, validate_only=validate_only)
    if validate_only:
        held = dict(view.image.client_quotas[entity].items()) if entity in view.image.client_quotas else {}
        return dry_answer([(f"quota {key}", held.get(key), value) for key, value in changes.items()])
    return no_content(offset)
