"""Answers about the cluster and its producer ids."""

from typing import Literal

from app.rest.schemas.base import ListOf, Related, Resource


class ClusterData(Resource):
    """A cluster."""

    kind: Literal["KafkaCluster"]
    controller: Related | None
    acls: Related
    brokers: Related
    broker_configs: Related
    consumer_groups: Related
    topics: Related
    partition_reassignments: Related
    quorum: Related


class ClusterDataList(ListOf[ClusterData]):
    """Clusters."""

    kind: Literal["KafkaClusterList"]


class ProducerIdsData(Resource):
    """Producer ids. `next_producer_id` is the first that is not allocated to a broker."""

    kind: Literal["KafkaProducerIds"]
    next_producer_id: int
