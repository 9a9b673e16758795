"""Checks how active controllers handle requests, by the image at their arrival. Numbers as in docs/invariants.md."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kraft_core.image.metadata_image import BrokerRegistration, MetadataImage
from kraft_core.node import ControllerRequest
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.messages import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
)
from kraft_core.protocol.wire import Message
from tests.simulator.invariant import check

if TYPE_CHECKING:
    from tests.simulator.sim_node import SimNode

GRACE_MS = 500
"""Tolerated time until an active controller fences a broker whose session has expired."""


@dataclass(slots=True)
class Claim:
    """The oracle's state for one activation of a controller."""

    epoch: int
    brokers: Any  # of the tip, as of the last step
    contacts: dict[int, tuple[int, int]] = field(default_factory=dict)  # broker -> epoch, ms of the last heartbeat
    wants_fence: set[int] = field(default_factory=set)
    leaving: set[tuple[int, int]] = field(default_factory=set)  # (broker, epoch): shutting down for good
    overdue_since_ms: dict[int, int] = field(default_factory=dict)
    stale: set[int] = field(default_factory=set)  # requests of brokers that have registered again since
    wrong: dict[int, dict[tuple[UUID, int], str]] = field(default_factory=dict)  # request -> partition -> why


class ControllerOracle:
    """One for all nodes; each node has its own claim."""

    def __init__(self) -> None:
        self.session_timeout_ms = 9_000
        self.stale_requests = self.refused_changes = self.accepted_changes = self.sessions_expired = 0

    # --- requests ---------------------------------------------------------------------------------------------------

    def on_request(self, node: "SimNode", request: ControllerRequest) -> None:
        """Record a request before the node handles it."""
        claim, message = node.claim, request.message
        assert node.node is not None
        if claim is None or not node.node.is_active:
            return
        image = node.node.tip
        broker_epoch = getattr(message, "broker_epoch", None)
        if broker_epoch is None:
            return
        broker_id = message.broker_id  # type: ignore[attr-defined]  # each message with a broker's epoch has its id
        known = image.cluster.brokers.get(broker_id)
        if known is None or known.epoch != broker_epoch:
            claim.stale.add(request.request_id)
            self.stale_requests += 1
            return
        if isinstance(message, BrokerHeartbeatRequest):
            claim.contacts[broker_id] = (broker_epoch, node.now_ms)
            claim.overdue_since_ms.pop(broker_id, None)
            if message.want_shut_down:
                claim.leaving.add((broker_id, broker_epoch))
            if message.want_fence:
                claim.wants_fence.add(broker_id)
            else:
                claim.wants_fence.discard(broker_id)
        if isinstance(message, AlterPartitionRequest):
            claim.wrong[request.request_id] = {
                (topic.topic_id, each.partition_index): reason
                for topic in message.topics
                for each in topic.partitions
                if (reason := why_not(image, topic.topic_id, each, broker_id))
            }

    def on_answer(self, node: "SimNode", request_id: int, message: Message) -> None:
        """Check 22 and 25: requests that must be refused were refused."""
        claim = node.claim
        if claim is None:
            return
        if request_id in claim.stale:
            claim.stale.discard(request_id)
            code = message.error_code  # type: ignore[attr-defined]  # the answers to brokers all have one
            check(code != ErrorCode.NONE, "a stale broker epoch was accepted", node, message)
        wrong = claim.wrong.pop(request_id, None)
        if wrong is None or not isinstance(message, AlterPartitionResponse):
            return
        for topic in message.topics:
            for each in topic.partitions:
                taken = each.error_code in {ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED}
                self.accepted_changes += taken
                self.refused_changes += not taken
                reason = wrong.get((topic.topic_id, each.partition_index))
                check(not taken or reason is None, f"an ISR was accepted: {reason}", node, topic.topic_id, each)

    # --- sessions ---------------------------------------------------------------------------------------------------

    def after_step(self, node: "SimNode") -> None:
        """Check 30 and 21: a session expires its timeout after the last heartbeat, not before and not much later."""
        assert node.node is not None
        if not node.node.is_active:
            node.claim = None
            return
        brokers, now_ms = node.node.tip.cluster.brokers, node.now_ms
        claim = node.claim
        if claim is None or claim.epoch != node.raft.epoch:
            claim = node.claim = Claim(node.raft.epoch, brokers)
            claim.contacts = {each.id: (each.epoch, now_ms) for each in brokers.values() if not each.fenced}
        if brokers is not claim.brokers:
            for now in brokers.values():
                was = claim.brokers.get(now.id)
                if was is not None:
                    self._check_session(node, claim, was, now)
            claim.brokers = brokers
        limit_ms = self.session_timeout_ms * 9 // 8
        for broker_id, (epoch, contact_ms) in claim.contacts.items():
            if now_ms - contact_ms <= limit_ms:
                continue
            broker = brokers.get(broker_id)
            if broker is None or broker.fenced or broker.epoch != epoch:
                continue
            since_ms = claim.overdue_since_ms.setdefault(broker_id, now_ms)
            check(now_ms - since_ms <= GRACE_MS, "a silent broker is not fenced", node, broker_id, now_ms - contact_ms)

    def _check_session(self, node: "SimNode", claim: Claim, was: BrokerRegistration, now: BrokerRegistration) -> None:
        epoch, contact_ms = claim.contacts.get(now.id, (-1, 0))
        is_over = epoch != was.epoch or node.now_ms - contact_ms > self.session_timeout_ms
        if now.epoch != was.epoch:
            check(is_over, "a broker registered while another incarnation's session was valid", node, was, now)
        elif now.fenced and not was.fenced:
            if now.id not in claim.wants_fence and (now.id, now.epoch) not in claim.leaving:
                check(is_over, "a broker was fenced before its session was over", node, now, node.now_ms - contact_ms)
                self.sessions_expired += 1
            claim.overdue_since_ms.pop(now.id, None)


def why_not(
    image: MetadataImage, topic_id: UUID, asked: AlterPartitionRequestPartitionData, broker_id: int
) -> str | None:
    """Check 25: return the reason to refuse a leader's ISR change, None without one."""
    partition = image.topics.partition(topic_id, asked.partition_index)
    if partition is None:
        return "no such partition"
    if partition.leader != broker_id:
        return "not the leader"
    if (partition.leader_epoch, partition.partition_epoch) != (asked.leader_epoch, asked.partition_epoch):
        return "other epochs"
    for each in asked.new_isr_with_epochs:
        broker = image.cluster.brokers.get(each.broker_id)
        if broker is None or not broker.active:
            return f"broker {each.broker_id} is not active"
        if each.broker_epoch not in {-1, broker.epoch}:
            return f"another incarnation of broker {each.broker_id}"
        if each.broker_id not in partition.replicas:
            return f"broker {each.broker_id} is no replica"
    return None
