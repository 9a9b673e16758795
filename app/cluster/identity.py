"""The cluster that this process belongs to.

It is the configured cluster, else the one stored in the database, else that of the first controller that answers. The
log does not carry the cluster id, so this process asks the controllers until one of the right cluster answers. It never
reads from a controller of another cluster and never sends it a change. Such a controller is logged once as an error
with both ids, and the process is not ready while it answers.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, cast

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.db.database import Database
from app.db.models import QuorumEpoch
from app.tasks import cancel_tasks
from kraft_core.clients.kafka_client import ControllerClient, KafkaConnection
from kraft_core.clients.metadata_observer import MetadataObserver
from kraft_core.clients.quorum_fetch import ObserverIdentity
from kraft_core.protocol.endpoint_type import EndpointType
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import DescribeClusterRequest, DescribeClusterResponse
from kraft_core.security.listener_security import ClientSecurity

log = logging.getLogger(__name__)

ASK_SECONDS: Final = 1.0
FIRST_ASK_SECONDS: Final = 0.1
TIMEOUT_MS: Final = 3_000


class ClusterIdentity:
    """Finds the cluster's id, and then starts the observer, after `before_start` was awaited with the id."""

    def __init__(
        self,
        bootstrap: list[tuple[str, int]],
        database: Database,
        observer: MetadataObserver,
        client: ControllerClient,
        configured: str | None,
        security: ClientSecurity,
        before_start: Callable[[str], Awaitable[None]],
    ) -> None:
        self.cluster_id = configured
        self._before_start = before_start
        self.foreign = ""
        self._source = "the setting cluster_id" if configured is not None else ""
        self._bootstrap = bootstrap
        self._database = database
        self._observer = observer
        self._client = client
        self._security = security
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task."""
        self._task = asyncio.create_task(self._run(), name="cluster-id")

    async def stop(self) -> None:
        """Stop the task."""
        await cancel_tasks(self._task)

    async def _run(self) -> None:
        while self.cluster_id is None:
            try:
                remembered = await self._database.read(remembered_cluster)
            except SQLAlchemyError:  # the database's outage log has it
                await asyncio.sleep(ASK_SECONDS)
                continue
            if remembered is not None:
                self._belong_to(remembered, "the database")
            break
        while self.cluster_id is None:
            await self._ask_all()
            if self.cluster_id is None:
                await asyncio.sleep(FIRST_ASK_SECONDS)
        await self._before_start(self.cluster_id)
        self._observer.start()
        while True:
            if self._observer.confirmed_leader is None:
                await self._ask_all()
            else:
                self.foreign = ""
            await asyncio.sleep(ASK_SECONDS)

    def _belong_to(self, cluster_id: str, source: str) -> None:
        self.cluster_id, self._source = cluster_id, source
        self._observer.identity = ObserverIdentity(cluster_id=cluster_id)
        self._client.require_cluster(cluster_id)

    async def _ask_all(self) -> None:
        """Ask the controllers in turn, until one belongs to the right cluster."""
        foreign = ""
        for host, port in self._bootstrap:
            try:
                found = await ask_cluster_id(host, port, self._security)
            except (ConnectionError, KafkaError) as cause:
                if self.cluster_id is None:
                    log.info("cluster_id_unknown", extra={"host": host, "port": port, "cause": str(cause)})
                continue
            if self.cluster_id is None:
                self._belong_to(found, "its first contact")
            if found == self.cluster_id:
                self.foreign = ""
                return
            foreign = foreign or (
                f"This process belongs to cluster {self.cluster_id}, as {self._source} says, but the controller at "
                f"{host}:{port} belongs to cluster {found}: correct bootstrap_controllers, or set cluster_id to follow "
                "the other cluster."
            )
            if self.foreign != foreign:
                extra = {"cluster_id": self.cluster_id, "source": self._source, "foreign_cluster_id": found}
                log.error("foreign_cluster", extra=extra | {"host": host, "port": port})
                self.foreign = foreign
        self.foreign = foreign


async def ask_cluster_id(host: str, port: int, security: ClientSecurity) -> str:
    """Return the cluster id that one controller reports. Raises ConnectionError, KafkaError."""
    connection = await KafkaConnection.open(host, port, "conclave-cluster-id", TIMEOUT_MS, security)
    try:
        request = DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLER)
        answer = cast("DescribeClusterResponse", await connection.request(request, TIMEOUT_MS))
    finally:
        connection.close()
    if answer.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(answer.error_code), answer.error_message or None)
    return answer.cluster_id


def remembered_cluster(session: Session) -> str | None:
    """Return the cluster whose epochs were stored last, None for a new database."""
    return session.scalars(select(QuorumEpoch.cluster_id).order_by(QuorumEpoch.id.desc()).limit(1)).one_or_none()
