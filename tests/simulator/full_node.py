"""A simulated process with the whole Node: raft, controller and image."""

from random import Random
from typing import Any

from kraft_core.controller.controller_config import ControllerConfig
from kraft_core.controller.controller_result import RequestContext
from kraft_core.node import CleanLog, ControllerRequest, CreateSnapshot, ImageChanged, Node, NodeConfig
from kraft_core.node_snapshot import snapshot_batches
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from kraft_core.raft.effects import Respond
from kraft_core.raft.events import SnapshotCreated
from tests.simulator.oracle import check
from tests.simulator.sim_node import SimNode

CONTROLLER_REQUESTS_FROM = 10**9
BROKER_RESOURCE = 4


class FullNode(SimNode):
    """Its workload are config changes: each write sets names of its own, and an acknowledged name is there for ever."""

    node: Node | None = None

    def _boot(self, random: Random) -> list[Any]:
        config = NodeConfig(
            raft=self.config,
            controller=ControllerConfig(node_id=self.id, cluster_id=self.config.cluster_id),
            max_bytes_between_snapshots=self.world.random.choice([1_500, 20_000]),
        )
        self.asked: dict[int, list[str]] = {}
        self.node = Node(config, self.log, self.election, random, self.now_ms)
        self.client = self.node.raft
        return list(self.node.start(self.now_ms))

    def _handle(self, event: Any) -> list[Any]:
        assert self.node is not None
        return list(self.node.step(event, self.now_ms))

    def _deadline_ms(self) -> int:
        assert self.node is not None
        return self.node.next_deadline_ms()

    def write(self, number: int, count: int) -> int | None:
        """Ask the active controller for a change; the offset of its last record, None when it is not active."""
        if self.node is None or not self.node.is_active:
            return None
        names = [f"name.{number}.{each}" for each in range(count)]
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=BROKER_RESOURCE,
            resource_name="",
            configs=tuple(
                IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=0, value=str(number))
                for name in names
            ),
        )
        request_id = CONTROLLER_REQUESTS_FROM + number
        self.asked[request_id] = names
        request = IncrementalAlterConfigsRequest(resources=(resource,))
        self.deliver(self.incarnation, ControllerRequest(request_id, request, 1, RequestContext()))
        return self.log.end_offset - 1

    def _carry_out_one(self, effect: Any) -> None:
        match effect:
            case Respond(request_id=request_id, message=message) if request_id >= CONTROLLER_REQUESTS_FROM:
                assert isinstance(message, IncrementalAlterConfigsResponse)
                names = self.asked.pop(request_id)
                code = message.responses[0].error_code
                if code == ErrorCode.NONE:
                    self.oracle.acknowledged_names += names
                else:
                    check(code == ErrorCode.NOT_CONTROLLER, "a write was refused", self, message)
            case CreateSnapshot():
                data = b"".join(
                    snapshot_batches(
                        effect.id,
                        effect.image,
                        effect.last_contained_log_timestamp,
                        effect.kraft_version,
                        effect.voters,
                    )
                )
                self.world.after(self.world.random.randint(500, 50_000), self._written, self.incarnation, effect, data)
            case ImageChanged(new=image):
                self.oracle.on_image(self, image)
            case CleanLog():
                self._clean()
            case _:
                super()._carry_out_one(effect)

    def _written(self, incarnation: int, effect: CreateSnapshot, data: bytes) -> None:
        if incarnation == self.incarnation:
            if effect.id.offset > self.log.start_offset:
                self.log.snapshots[effect.id] = data
                if self.world.chance(0.5):
                    self._clean()
            self.deliver(incarnation, SnapshotCreated(effect.id))

    def _clean(self) -> None:
        newest = self.log.latest_snapshot_id()
        if newest is not None and self.log.start_offset < newest.offset <= self.log.flushed_offset:
            self.log.drop_before(newest)

    def apply(self, offset: int) -> None:
        """The checksum goes on from a snapshot with what the oracle knows; the image is compared instead."""
        if self.applied < self.log.start_offset:
            self.applied = self.log.start_offset
            self.chain = self.oracle.chain_at(self.applied)
        super().apply(offset)

    def snapshot(self, *, drops_log: bool) -> None:
        """The node decides itself when to write one."""

    def check_at_end(self) -> None:
        """Every acknowledged name is in the image."""
        assert self.node is not None
        configs = self.node.image.configs.by_resource.get((BROKER_RESOURCE, ""))
        lost = [name for name in self.oracle.acknowledged_names if configs is None or name not in configs]
        check(
            not lost or self.node.applied_offset < self.oracle.committed_end,
            "acknowledged changes are lost",
            self,
            lost,
        )
