"""The clients: config changes on every leading node, with unique names, and their acknowledgements."""

from dataclasses import dataclass

from kraft_core.controller.controller_request_context import ControllerRequestContext
from kraft_core.node import ControllerRequest
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from kraft_core.protocol.wire import Message
from tests.simulator.invariant import check
from tests.simulator.oracle import Oracle
from tests.simulator.read_oracle import REFUSALS
from tests.simulator.sim_node import SimNode

REQUESTS_FROM = 10**9
READS_FROM = 2 * 10**9
BROKER_RESOURCE = 4
RESOURCE = (BROKER_RESOURCE, "")


@dataclass
class Write:
    """A change of a few names in one request."""

    node: SimNode
    names: list[str]
    offset: int  # of its last record, if the request was accepted
    epoch: int
    acknowledged_before: int  # the highest offset acknowledged before the request
    is_acknowledged: bool = False


@dataclass
class Read:
    """A read of the names of the newest write that was acknowledged before it."""

    node: SimNode
    names: list[str]


class Workload:
    """Invariants 13 to 16: acknowledged writes are durable, atomic, in real-time order and readable at once."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.writes: dict[int, Write] = {}
        self.reads: dict[int, Read] = {}
        self.acknowledged = 0
        self._highest = -1
        self._newest: list[str] = []

    def write(self, node: SimNode, count: int) -> Write | None:
        """Send a change of `count` names to an active controller; return None if this node is not active."""
        if node.node is None or not node.node.is_active or node.log is None:
            return None
        number = len(self.writes)
        names = [f"name.{number}.{each}" for each in range(count)]
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=BROKER_RESOURCE,
            resource_name="",
            configs=tuple(
                IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=0, value=str(number))
                for name in names
            ),
        )
        request_id = REQUESTS_FROM + number
        write = self.writes[request_id] = Write(
            node, names, node.log.end_offset + count - 1, node.raft.epoch, self._highest
        )
        request = ControllerRequest(
            request_id, IncrementalAlterConfigsRequest(resources=(resource,)), 1, ControllerRequestContext()
        )
        node.deliver(node.incarnation, request)
        return write

    def read(self, node: SimNode) -> None:
        """Read the newest acknowledged write from a node that considers itself active."""
        if node.node is None or not node.node.is_active or not self._newest:
            return
        request_id = READS_FROM + len(self.reads)
        self.reads[request_id] = Read(node, self._newest)
        resource = DescribeConfigsRequestDescribeConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name="", configuration_keys=tuple(self._newest)
        )
        request = ControllerRequest(
            request_id, DescribeConfigsRequest(resources=(resource,)), 4, ControllerRequestContext()
        )
        node.deliver(node.incarnation, request)

    def _on_read(self, read: Read, message: DescribeConfigsResponse) -> None:
        """Check invariant 16: the response contains what was acknowledged before the read."""
        result = message.results[0]
        if result.error_code in REFUSALS:
            return
        found = {each.name for each in result.configs}
        check(found == set(read.names), "an active controller's answer was old", read.node, found, read.names)

    def on_answer(self, request_id: int, message: Message) -> None:
        """Record an acknowledgement, or a refusal."""
        if isinstance(message, DescribeConfigsResponse):
            self._on_read(self.reads[request_id], message)
            return
        assert isinstance(message, IncrementalAlterConfigsResponse)
        write = self.writes[request_id]
        node = write.node
        code = message.responses[0].error_code
        if code != ErrorCode.NONE:
            check(code == ErrorCode.NOT_CONTROLLER, "a write was refused", node, message)
            return
        write.is_acknowledged = True
        self.acknowledged += 1
        check(write.offset < self.oracle.committed_end, "acknowledged before it was committed", node, write.offset)
        check(write.offset > write.acknowledged_before, "acknowledged out of real-time order", node, write)
        if write.offset > self._highest:
            self._highest, self._newest = write.offset, write.names
        assert node.node is not None
        check(_count(node, write.names) == len(write.names), "acknowledged, but not to be read", node, write.names)

    def check_at_end(self, node: SimNode) -> None:
        """Check invariants 13 and 14: every acknowledged name is in the image, and of each write all names or none."""
        assert node.node is not None
        if node.node.applied_offset < self.oracle.committed_end:
            return
        for write in self.writes.values():
            found = _count(node, write.names)
            check(found == len(write.names) or not write.is_acknowledged, "an acknowledged write is lost", node, write)
            check(found in {0, len(write.names)}, "half a write", node, write)


def _count(node: SimNode, names: list[str]) -> int:
    assert node.node is not None
    configs = node.node.image.configs.by_resource.get(RESOURCE)
    return 0 if configs is None else sum(name in configs for name in names)
