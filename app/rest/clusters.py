"""Clusters: the one this process follows."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from app.rest.common import View, ViewDep, answer, ready_cluster
from app.rest.routing import JsonRoute
from app.rest.schemas.clusters import ClusterData, ClusterDataList
from app.services import Reader, base_url_of

router = APIRouter(prefix="/v3/clusters", tags=["clusters"], route_class=JsonRoute)


def cluster_data(view: View) -> dict[str, Any]:
    """Return the cluster. `controller` is the leader of the quorum itself, never a broker that claims to be it."""
    return view.resource(
        "KafkaCluster",
        (),
        (),
        controller=None if view.cluster.quorum.leader_id is None else view.related("quorum"),
        acls=view.related("acls"),
        brokers=view.related("brokers"),
        broker_configs=view.related("broker-configs"),
        consumer_groups=view.related("consumer-groups"),
        topics=view.related("topics"),
        partition_reassignments=view.related("topics", "-", "partitions", "-", "reassignment"),
        quorum=view.related("quorum"),
    )


@router.get("", responses={200: {"model": ClusterDataList}})
async def list_clusters(
    request: Request, _caller: Reader, min_offset: Annotated[int, Query(ge=-1, le=2**63 - 1)] = -1
) -> Response:
    """List the clusters: one."""
    cluster = await ready_cluster(request, min_offset)
    assert cluster.cluster_id is not None, "a ready cluster knows its id"
    offset = cluster.observer.applied_offset
    view = View(cluster, cluster.image, cluster.cluster_id, offset, base_url_of(request))
    body = {
        "kind": "KafkaClusterList",
        "metadata": {"self": f"{view.base_url}/v3/clusters", "next": None},
        "data": [cluster_data(view)],
    }
    return answer(body, offset)


@router.get("/{cluster_id}", responses={200: {"model": ClusterData}})  # noqa: FAST003 - the view reads it
async def get_cluster(view: ViewDep, _caller: Reader) -> Response:
    """Describe the cluster."""
    return answer(cluster_data(view), view.offset)
