"""The steps of a plan on the real cluster, through its admin, and what the executor needs to know of the cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from app.cluster.brokers import BrokerInUseError
from app.cluster.cluster import Cluster
from app.cluster.configs import Resource
from app.cluster.elections import batches
from app.cluster.log_dirs import LogDirs
from app.cluster.partitions import Outcome, Partition
from app.cluster.topic_table import partition_health, replication_factor
from app.reports.executor.plan import Alter, Cordon, Elect, Place, PlanAgain, Reassign, Row, Step, Unregister
from app.reports.executor.throttles import CORDONED
from kraft_core.clients.admin.configs import ConfigChange
from kraft_core.clients.admin.partitions import ElectionType
from kraft_core.configs.alter_config_op import AlterConfigOp
from kraft_core.configs.config_resource import BROKER
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.uuids import uuid_from_text

log = structlog.get_logger(__name__)

CATCH_UP_MS: Final = 5_000
_NO_REPLICA_YET: Final = (ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_NO_ERROR: Final = (ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The offset of a step's change, None without one, and the messages of what was refused."""

    offset: int | None = None
    partitions: Mapping[Partition, str] = field(default_factory=dict)
    resources: Mapping[Resource, str] = field(default_factory=dict)


class ClusterSteps:
    """The cluster of the web process. The steps raise ConnectionError, and KafkaError when all of one is refused."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster, None until the image has been read."""
        return self._cluster.cluster_id if self._cluster.freshness.is_ready else None

    @property
    def image(self) -> MetadataImage:
        """The newest image."""
        return self._cluster.image

    async def catch_up(self) -> None:
        """Wait until the image contains all that has been acknowledged. Raises KafkaError, ConnectionError."""
        await self._cluster.catch_up(CATCH_UP_MS)

    def under_min(self) -> frozenset[Partition]:
        """Return the partitions under min ISR. Only topics that have one are searched."""
        found = self._cluster.topic_table.page(problem="under-min", page_size=2**31)
        topics = self.image.topics.by_id
        return frozenset(
            (row.name, index)
            for row in found.rows
            for index, partition in topics[row.id].sorted_partitions()
            if partition_health(partition, row.min_isr).under_min
        )

    def margin(self, row: Row) -> int:
        """Return how many replicas a partition can lose from its ISR before it refuses writes."""
        found = row.registration(self.image)
        if found is None:
            return 0
        topic = self._cluster.topic_table.row(uuid_from_text(row.topic_id))
        return len(found.isr) - min(1 if topic is None else topic.min_isr, replication_factor(found))

    async def carry_out(self, step: Step) -> StepResult:
        """Carry out a step."""
        match step:
            case Alter(changes):
                return await self._alter(changes)
            case Cordon(broker_id, value):
                return await self._alter_on_broker(broker_id, value)
            case Place(by_broker):
                return await self._place(by_broker)
            case Reassign(wanted, log_dirs):
                await self._place(log_dirs)  # what a broker cannot do yet is done when it has the replica
                done = await self._cluster.admin.partitions.alter_reassignments(wanted)
            case Elect(partitions):
                done = await self._elect(partitions)
            case Unregister(broker_id):
                return await self._unregister(broker_id)
            case PlanAgain():
                raise AssertionError("the executor plans again without the cluster")
        refused = {key: each.message for key, each in done.failures.items() if each.code not in _NO_ERROR}
        return StepResult(offset=done.offset, partitions=refused)

    async def _elect(self, partitions: Sequence[Partition]) -> Outcome:
        """Elect the preferred leaders in batches: the controller refuses more changes than one batch of it may have."""
        elect = self._cluster.admin.partitions.elect_leaders
        return Outcome.of_batches([await elect(ElectionType.PREFERRED, some) for some in batches(partitions)])

    async def _alter(self, changes: Mapping[Resource, Mapping[str, str | None]]) -> StepResult:
        """Change configs. Only the broker accepts directories in cordoned.log.dirs; only it is asked for those."""
        offset: int | None = None
        resources: dict[Resource, str] = {}
        others: dict[Resource, list[ConfigChange]] = {}
        for (kind, name), values in changes.items():
            for config, value in values.items():
                if config == CORDONED and value:
                    restored = await self._alter_on_broker(int(name), value)
                    offset, resources = restored.offset, {**resources, **restored.resources}
                else:
                    others.setdefault((kind, name), []).append(_change(config, value))
        if others:
            offset, failures = await self._cluster.admin.configs.alter_several(others)
            resources |= {resource: error.message for resource, error in failures.items()}
        return StepResult(offset=offset, resources=resources)

    async def log_dirs(self, brokers: Iterable[int], fresh_seconds: float) -> Mapping[int, LogDirs]:
        """Return what brokers have told of their log directories, and ask those again whose answer is older."""
        known = self.image.cluster.brokers
        wanted = [known[each] for each in brokers if each in known]
        return await self._cluster.log_dirs.of(wanted, 0.0, fresh_seconds)

    async def _place(self, by_broker: Mapping[int, Mapping[Partition, str]]) -> StepResult:
        """Move replicas between log directories. A broker that cannot be reached is asked again by the next tick."""
        refused: dict[Partition, str] = {}
        for broker_id, wanted in by_broker.items():
            broker = self.image.cluster.brokers.get(broker_id)
            if broker is None or broker.fenced:
                continue
            try:
                errors = await self._cluster.log_dirs.move(broker, wanted)
            except ConnectionError as error:
                log.warning("log_dirs_not_altered", broker_id=broker_id, cause=str(error))
                continue
            except KafkaError as error:
                refused |= dict.fromkeys(wanted, f"Broker {broker_id}: {error.message}")
                continue
            refused |= {key: each.message for key, each in errors.items() if each.code not in _NO_REPLICA_YET}
        return StepResult(partitions=refused)

    async def _alter_on_broker(self, broker_id: int, value: str) -> StepResult:
        resource = (BROKER, str(broker_id))
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None:
            return StepResult(resources={resource: f"Broker {broker_id} is not registered."})
        try:
            offset = await self._cluster.admin.configs.alter_on_broker(broker, [_change(CORDONED, value)])
        except KafkaError as refused:
            return StepResult(resources={resource: refused.message})
        return StepResult(offset=offset)

    async def _unregister(self, broker_id: int) -> StepResult:
        """Remove the cordon, which the controller accepts of registered brokers only, and unregister the broker."""
        resource = (BROKER, str(broker_id))
        try:
            await self._cluster.admin.configs.alter(*resource, [_change(CORDONED, None)])
            return StepResult(offset=await self._cluster.admin.brokers.unregister(broker_id))
        except (BrokerInUseError, KafkaError) as refused:
            return StepResult(resources={resource: str(refused)})


def _change(config: str, value: str | None) -> ConfigChange:
    return ConfigChange(config, AlterConfigOp.DELETE if value is None else AlterConfigOp.SET, value)
