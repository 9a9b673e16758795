"""Checks reads of active controllers against what the cluster had committed when each arrived. Invariant 16."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kraft_core.controller.controller_operations import CONFIRMED_READS
from kraft_core.node import ControllerRequest
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import DescribeConfigsResponse
from tests.simulator.invariant import check

if TYPE_CHECKING:
    from tests.simulator.sim_node import SimNode

REFUSALS = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)


class ReadOracle:
    """One for all nodes. `committed_end` returns the end of the log that any of them has committed."""

    def __init__(self, committed_end: Callable[[], int]) -> None:
        self.confirmed = self.refused = 0
        self._committed_end = committed_end
        self._asked: dict[tuple[int, int, int], int] = {}  # (node, incarnation, request) -> committed end before

    def on_request(self, node: "SimNode", request: ControllerRequest) -> None:
        """Record a request before the node handles it."""
        assert node.node is not None
        if node.node.is_active and type(request.message) in CONFIRMED_READS:
            self._asked[node.id, node.incarnation, request.request_id] = self._committed_end()

    def on_answer(self, node: "SimNode", request_id: int, message: Any) -> None:
        """Check that the response reflects all that any node had committed when the request arrived."""
        before = self._asked.pop((node.id, node.incarnation, request_id), None)
        if before is None:
            return
        result = message.results[0] if isinstance(message, DescribeConfigsResponse) else message
        if result.error_code in REFUSALS:
            self.refused += 1
            return
        self.confirmed += 1
        assert node.node is not None
        seen = node.node.applied_offset
        check(seen >= before, "an active controller read what was old", node, seen, before)
