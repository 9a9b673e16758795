"""The clusters that admins have added to this process, beside that of the settings."""

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from app.cluster.known_clusters import ClusterSpec, UnknownClusterError, clusters, known_cluster
from app.clusters import clusters_of
from app.db.models import ClusterRecord
from app.error_responses import NATIVE
from app.rest.responses import DRY_RUN, answer, checked, list_body, no_content, planned
from app.rest.routing import DryRun, JsonRoute
from app.rest.schemas.cluster_connections import (
    ClusterConnectionBody,
    ClusterConnectionData,
    ClusterConnectionDataList,
)
from app.security.roles import Role
from app.services import Anyone, Owner, api_url_of, principal_of, services_of

router = APIRouter(prefix="/v3/cluster-connections", tags=[NATIVE, "clusters"], route_class=JsonRoute)

KeyPath = Annotated[str, Path(max_length=100)]


def _data(request: Request, record: ClusterRecord) -> dict[str, Any]:
    base = f"{api_url_of(request)}/v3"
    return {
        "kind": "ConclaveClusterConnection",
        "metadata": {"self": f"{base}/cluster-connections/{quote(record.key, safe='')}", "resource_name": None},
        "key": record.key,
        "name": record.name,
        "cluster_id": record.cluster_id,
        "bootstrap_controllers": record.bootstrap_controllers.split(","),
        "command_config": record.command_config or None,
        "schema_registry_url": record.schema_registry_url or None,
        "color": record.color,
        "changed_by": record.changed_by,
        "changed_at": record.changed_at.isoformat(),
        "cluster": {"related": f"{base}/clusters/{quote(record.cluster_id)}"},
    }


async def _record(request: Request, key: str) -> ClusterRecord:
    """Return an added cluster that the caller may see. Raises UnknownClusterError."""
    found = await services_of(request).database.read(known_cluster, key)
    if principal_of(request).role_in(key) < Role.VIEWER:
        raise UnknownClusterError(key)
    return found


@router.get("", responses={200: {"model": ClusterConnectionDataList}})
async def list_cluster_connections(request: Request, _caller: Anyone) -> Response:
    """List the added clusters by name."""
    known = await services_of(request).database.read(clusters)
    data = [_data(request, each) for each in known if principal_of(request).role_in(each.key) >= Role.VIEWER]
    url = f"{api_url_of(request)}/v3/cluster-connections"
    return answer(list_body("ConclaveClusterConnectionList", url, data), None)


@router.get("/{key}", responses={200: {"model": ClusterConnectionData}})
async def get_cluster_connection(request: Request, key: KeyPath, _caller: Anyone) -> Response:
    """Describe an added cluster."""
    return answer(_data(request, await _record(request, key)), None)


@router.put("/{key}", responses={200: {"model": ClusterConnectionData}})
async def put_cluster_connection(
    request: Request, key: KeyPath, body: ClusterConnectionBody, caller: Owner, validate_only: DryRun
) -> Response:
    """Add or change a cluster. Its controllers, of which one must answer, and its schema registry are asked first."""
    known = {each.key for each in await services_of(request).database.read(clusters)}
    spec = ClusterSpec(
        key=key,
        name=body.name,
        bootstrap_controllers=tuple(body.bootstrap_controllers),
        command_config=body.command_config or "",
        schema_registry_url=body.schema_registry_url or "",
        color=body.color,
    )
    _, record = await clusters_of(request).actions.put(
        caller, spec, is_new=key not in known, validate_only=validate_only
    )
    return answer(checked(_data(request, record), validate_only=validate_only), None)


@router.delete("/{key}", status_code=204, responses=DRY_RUN)
async def delete_cluster_connection(request: Request, key: KeyPath, caller: Owner, validate_only: DryRun) -> Response:
    """Remove a cluster from this process, with its reports, schedules and plans. Nothing changes on the cluster."""
    record = await _record(request, key)
    before = _data(request, record)
    await clusters_of(request).actions.remove(caller, key, validate_only=validate_only)
    return planned([(f"cluster {key}", before, None)]) if validate_only else no_content()
