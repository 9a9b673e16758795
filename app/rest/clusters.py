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
from app.services import Reader, root_of

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
async def list_clusters(request: Request, _caller: Reader, min_offset: MinOffset = -1) -> Response:
    """List the clusters that this process follows and can read now. Under /c/KEY it is the one with that key."""
    view = await ready_view(request, min_offset)
    others = [] if root_of(request) else clusters_of(request).all()[1:]
    views = [view, *(view_now(request, each) for each in others)]
    data = [cluster_data(each) for each in views if each is not None]
    return answer(list_body("KafkaClusterList", f"{view.base_url}/v3/clusters", data), view.offset)


@router.get("/{cluster_id}", tags=["clusters"], responses={200: {"model": ClusterData}})  # noqa: FAST003 - ViewDep reads it
async def get_cluster(view: ViewDep, _caller: Reader) -> Response:
    """Describe the cluster."""
    return answer(cluster_data(view), view.offset)


@router.get("/{cluster_id}/producer-ids", tags=[NATIVE, "nodes"], responses={200: {"model": ProducerIdsData}})  # noqa: FAST003 - ViewDep reads it
async def get_producer_ids(view: ViewDep, _caller: Reader) -> Response:
    """Return the first producer id that is not allocated. Brokers allocate them in blocks of 1,000."""
    next_id = max(0, view.image.producer_ids)
    body = view.resource("KafkaProducerIds", ("producer-ids",), (("producer-ids", ""),), next_producer_id=next_id)
    return answer(body, view.offset)
