"""A node whose controller has more events than one step runs."""

from kraft_core.controller.controller_request_context import ControllerRequestContext
from kraft_core.node import EVENTS_PER_STEP, ControllerRequest
from kraft_core.protocol.errors import ErrorCode
from kraft_core.raft.events import Shutdown, Timer
from tests.node_cluster import Cluster, Member, create_topic


def flood(member: Member, count: int, **context: int) -> list[int]:
    """Send `count` requests that arrive together; return their ids."""
    ids = [member.cluster.new_id() for _ in range(count)]
    member.step(
        *(ControllerRequest(each, create_topic(f"t-{each}"), 7, ControllerRequestContext(**context)) for each in ids)
    )
    return ids


def test_a_step_runs_a_part_of_the_queue_and_the_node_reports_the_rest() -> None:
    cluster = Cluster(1)
    active = cluster.with_broker()
    ids = flood(active, 3 * EVENTS_PER_STEP)
    assert len(active.topics(active.node.tip)) == EVENTS_PER_STEP
    assert active.node.next_deadline_ms() == cluster.now_ms
    active.step(Timer())
    assert len(active.topics(active.node.tip)) == 2 * EVENTS_PER_STEP
    cluster.until(lambda: ids[-1] in active.answers)
    assert all(active.answers[each].topics[0].error_code == ErrorCode.NONE for each in ids)
    assert active.node.next_deadline_ms() > cluster.now_ms


def test_a_vote_is_answered_while_requests_are_pending() -> None:
    cluster = Cluster(3)
    active = cluster.with_broker()
    ids = flood(active, 4 * EVENTS_PER_STEP)
    assert active.asked_to_vote() is not None
    assert ids[-1] not in active.answers


def test_completed_requests_are_committed_and_answered_while_others_are_pending() -> None:
    cluster = Cluster(1)
    active = cluster.with_broker()
    ids = flood(active, 4 * EVENTS_PER_STEP)
    active.flush()
    assert active.answers[ids[0]].topics[0].error_code == ErrorCode.NONE
    assert ids[-1] not in active.answers


def test_a_stopping_leader_answers_all_pending_requests() -> None:
    cluster = Cluster(1)
    active = cluster.with_broker()
    ids = flood(active, 4 * EVENTS_PER_STEP)
    active.step(Shutdown(1_000))
    cluster.run(1_000)
    codes = {active.answers[each].topics[0].error_code for each in ids}
    assert codes == {ErrorCode.NOT_CONTROLLER}, "what was begun may be committed by the next leader, or not"


def test_a_stopped_node_leaves_no_request_pending() -> None:
    cluster = Cluster(3)
    active = cluster.with_broker()
    follower = next(each for each in cluster.members.values() if each is not active)
    plain = flood(follower, 2 * EVENTS_PER_STEP)
    timed = flood(follower, 2 * EVENTS_PER_STEP, deadline_ms=cluster.now_ms + 60_000)
    follower.step(Shutdown(1_000))
    codes = [{follower.answers[each].topics[0].error_code for each in ids} for ids in (plain, timed)]
    assert codes == [{ErrorCode.NOT_CONTROLLER}, {ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT}]
    late = flood(follower, 1)[0]
    assert follower.answers[late].topics[0].error_message == "The controller is shutting down."
