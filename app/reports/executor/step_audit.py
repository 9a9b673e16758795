"""The audit of an executor's steps: each is an event of the person who approved the plan."""

from typing import Any

from app.reports.executor.cluster_steps import StepResult
from app.reports.executor.driver import Record
from app.reports.executor.models import PlanRecord
from app.reports.executor.plan import Alter, Cordon, Elect, Place, PlanAgain, Reassign, Step, Unregister
from app.security.recorder import Recorder, RequestInfo
from app.security.roles import Actor


def step_recorder(recorder: Recorder, cluster: str) -> Record:
    """Return the function that records a step in the cluster with this key."""

    async def record(plan: PlanRecord, step: Step, result: StepResult | None, error: str | None) -> None:
        name = plan.approved_by or plan.made_by
        action, detail = described(step)
        refused = [] if result is None else [*result.partitions.values(), *result.resources.values()]
        await recorder.record(
            Actor(name, "token" if name.startswith("token:") else "user"),
            f"plan.{action}",
            f"plan/{plan.id}",
            "failed" if error or refused else "ok",
            RequestInfo(source="plan executor", request_id=f"plan-{plan.id}", cluster=cluster),
            error=error or "; ".join(refused[:5]) or None,
            detail=detail,
            metadata_offset=None if result is None else result.offset,
        )

    return record


def described(step: Step) -> tuple[str, dict[str, Any]]:
    """Return the name of a step's action and its detail."""
    match step:
        case Alter(changes, clears):
            detail = {name: dict(values) for (_, name), values in changes.items()}
            return "unthrottle" if clears else "throttle", detail
        case Cordon(broker_id, value):
            return "cordon", {"broker": broker_id, "log_dirs": value}
        case Place(wanted_dirs, undo):
            paths = {
                str(broker): {f"{topic}-{index}": path for (topic, index), path in each.items()}
                for broker, each in wanted_dirs.items()
            }
            return "unplace" if undo else "place", paths
        case Reassign(wanted, _):
            listed = {
                f"{topic}-{index}": "cancel" if ids is None else list(ids) for (topic, index), ids in wanted.items()
            }
            return "reassign", listed
        case Elect(partitions):
            return "elect", {"partitions": [f"{topic}-{index}" for topic, index in partitions]}
        case Unregister(broker_id):
            return "unregister", {"broker": broker_id}
        case PlanAgain(brokers, log_dirs):
            return "propose", {"brokers": list(brokers), "log_dirs": [list(each) for each in log_dirs]}
