"""The clusters that this process follows, and the next producer id of each."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.clusters import clusters_of
from app.error_responses import NATIVE
from app.rest.responses import answer, list_body
from app.rest.routing import JsonRoute
from app.rest.schemas.clusters import ClusterData, ClusterDataList, ProducerIdsData
from app.rest.view import MinOffset, View, ViewDep, ready_view, view_now
from app.services import Anyone, api_url_of, principal_of, root_of, services_of

router = APIRouter(prefix="/v3/clusters", route_class=JsonRoute)


def cluster_data(view: View) -> dict[str, Any]:
    """Return the cluster. `controller` links to the leader of the quorum."""
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


@router.get("", tags=["clusters"], responses={200: {"model": ClusterDataList}})
async def list_clusters(request: Request, _caller: Anyone, min_offset: MinOffset = -1) -> Response:
    """List the clusters that this process follows and can read now. Under /c/KEY it is the one with that key."""
    principal, own = principal_of(request), services_of(request)
    seen = clusters_of(request).seen_by(principal)
    if root_of(request):
        seen = [each for each in seen if each is own]
    view = await ready_view(request, min_offset) if own in seen else None
    views = [view if each is own else view_now(request, each) for each in seen]
    data = [cluster_data(each) for each in views if each is not None]
    body = list_body("KafkaClusterList", f"{api_url_of(request)}/v3/clusters", data)
    return answer(body, None if view is None else view.offset)


@router.get("/{cluster_id}", tags=["clusters"], responses={200: {"model": ClusterData}})  # noqa: FAST003 - ViewDep reads it
async def get_cluster(view: ViewDep, _caller: Anyone) -> Response:
    """Describe the cluster."""
    return answer(cluster_data(view), view.offset)


@router.get("/{cluster_id}/producer-ids", tags=[NATIVE, "nodes"], responses={200: {"model": ProducerIdsData}})  # noqa: FAST003 - ViewDep reads it
async def get_producer_ids(view: ViewDep, _caller: Anyone) -> Response:
    """Return the first producer id that is not allocated. Brokers allocate them in blocks of 1,000."""
    next_id = max(0, view.image.producer_ids)
    body = view.resource("KafkaProducerIds", ("producer-ids",), (("producer-ids", ""),), next_producer_id=next_id)
    return answer(body, view.offset)
