"""The quorum as its leader describes it, and the leaders seen so far."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.actions import Caller
from app.cluster.cluster import Cluster
from app.cluster.history import Epoch
from app.cluster.quorum import Quorum, Replica
from app.pages.frame import UNKNOWN, age, moment, page_of, render
from app.security.roles import Role
from app.services import Reader, services_of
from kraft_core.protocol.uuids import ZERO_UUID, uuid_to_text

router = APIRouter(include_in_schema=False)

EPOCHS_SHOWN: Final = 20
STATIC_HELP: Final = (
    "These voters stand in every node's settings, so none can be added or removed here. To keep them in the log: give all"
    " nodes `controller.quorum.bootstrap.servers`, then run"
    " `kafka-features --bootstrap-controller HOST:PORT upgrade --feature kraft.version=1`, once all voters run and are caught"
    " up; then take `controller.quorum.voters` out of the settings. There is no way back."
)


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One voter or observer, ready to be shown. `change_url`: where it is made a voter, or none; "" if it cannot be."""

    id: int
    state: str
    tone: str
    log_end_offset: int
    lag: int | None
    last_fetch: str
    last_caught_up: str
    endpoints: str
    directory_id: str
    change_url: str = ""


@dataclass(frozen=True, slots=True)
class EpochRow:
    """One leadership the log has told of. `votes`: who of the voters granted it; `before`: what the log says led to it."""

    epoch: int
    leader: str
    start_offset: int
    seen_at: str
    votes: str
    before: str


@dataclass(frozen=True, slots=True)
class QuorumView:
    """What quorum.html shows."""

    problem: str
    leader_id: int | None
    leader_text: str
    epoch: int
    high_watermark: int
    failures_left_text: str
    failures_tone: str
    failures_why: str
    kraft_version: str
    static_help: str
    metadata_version_text: str
    voters: Sequence[ReplicaRow]
    observers: Sequence[ReplicaRow]
    epochs: Sequence[EpochRow]
    features: Sequence[tuple[str, int]]


def _ago(timestamp: int, now_ms: int, *, is_leader: bool) -> str:
    if is_leader:
        return "now"
    return UNKNOWN if timestamp < 0 else age(max(0, now_ms - timestamp))


def replica_row(replica: Replica, quorum: Quorum, change: str = "") -> ReplicaRow:
    """One row; the leader's clock says how long ago, as of when it answered. `change`: add, remove or nothing."""
    leader = next((each for each in quorum.voters if each.is_leader), None)
    now_ms = leader.last_caught_up_timestamp if leader and leader.last_caught_up_timestamp > 0 else quorum.asked_at_ms
    if replica.is_leader:
        state, tone = "leader", "info"
    elif replica.is_caught_up:
        state, tone = "follower", "good"
    else:
        state, tone = ("unknown", "") if not quorum.is_live else ("behind or silent", "bad")
    return ReplicaRow(
        id=replica.id,
        state=state,
        tone=tone,
        log_end_offset=replica.log_end_offset,
        lag=replica.lag,
        last_fetch=_ago(replica.last_fetch_timestamp, now_ms, is_leader=replica.is_leader),
        last_caught_up=_ago(replica.last_caught_up_timestamp, now_ms, is_leader=replica.is_leader),
        endpoints=", ".join(f"{name}://{host}:{port}" for name, host, port in replica.endpoints) or UNKNOWN,
        directory_id=UNKNOWN if replica.directory_id == ZERO_UUID else uuid_to_text(replica.directory_id),
        change_url=""
        if not change or replica.directory_id == ZERO_UUID
        else f"/quorum/voters/{replica.id}/{uuid_to_text(replica.directory_id)}/{change}",
    )


def epoch_row(epoch: Epoch, previous: Epoch | None) -> EpochRow:
    """One row. Why a leader went is not in the log, so only what is there is said."""
    granted = [str(each) for each in epoch.granting_voter_ids]
    before: list[str] = []
    if previous is not None:
        same = previous.leader_id == epoch.leader_id
        before.append("the same node again" if same else f"after node {previous.leader_id}")
        if previous.leader_id not in epoch.voter_ids:
            before.append("which was no voter any more")
        between = epoch.epoch - previous.epoch - 1
        if between:
            before.append(f"{between} {'epoch' if between == 1 else 'epochs'} between without a leader")
    return EpochRow(
        epoch.epoch,
        f"node {epoch.leader_id}",
        epoch.start_offset,
        moment(dt.datetime.fromtimestamp(max(0, epoch.timestamp_ms) / 1000, dt.UTC)),
        f"{', '.join(granted)} of {', '.join(map(str, epoch.voter_ids))}" if granted else UNKNOWN,
        ", ".join(before) or UNKNOWN,
    )


def failures(quorum: Quorum) -> tuple[str, str, str]:
    """(how many, tone, why): how many more voters may fail before nothing can be decided."""
    if not quorum.is_live:
        return UNKNOWN, "bad", "the leader does not answer"
    left = quorum.failures_tolerated
    why = f"a decision needs {quorum.majority} of {len(quorum.voters)}"
    if len(quorum.voters) == 1:
        return "0", "warn", "a single voter"
    return str(left), "good" if left else "bad", why


def _may_be_voter(replica: Replica, cluster: Cluster) -> bool:
    """Whether it registered as a controller: brokers observe too. Others can be added with their endpoints over REST."""
    return replica.id in cluster.image.cluster.controllers


async def quorum_view(cluster: Cluster, *, may_change: bool = False) -> QuorumView:
    """What the leader says now (at most a second old), and what the log has told. `may_change`: links for admins."""
    quorum = await cluster.quorum()
    epochs = cluster.history.epochs[: EPOCHS_SHOWN + 1]
    is_changeable = may_change and quorum.is_live and quorum.kraft_version >= 1
    left, tone, why = failures(quorum)
    features = cluster.image.features
    return QuorumView(
        problem=""
        if quorum.is_live
        else f"The leader does not answer: {quorum.error}. Only what the log says is shown.",
        leader_id=quorum.leader_id,
        leader_text="none" if quorum.leader_id is None else f"node {quorum.leader_id}",
        epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        failures_left_text=left,
        failures_tone=tone,
        failures_why=why,
        kraft_version="1 (dynamic voters)" if quorum.kraft_version else "0 (static voters)",
        static_help=STATIC_HELP if may_change and quorum.is_live and not quorum.kraft_version else "",
        metadata_version_text=UNKNOWN if features.metadata_version is None else str(features.metadata_version),
        voters=[replica_row(voter, quorum, "remove" if is_changeable else "") for voter in quorum.voters],
        observers=[
            replica_row(observer, quorum, "add" if is_changeable and _may_be_voter(observer, cluster) else "")
            for observer in quorum.observers
        ],
        epochs=[
            epoch_row(epoch, previous)
            for epoch, previous in zip_longest(epochs[:EPOCHS_SHOWN], epochs[1:])
            if epoch is not None
        ],
        features=[("metadata.version", features.level("metadata.version")), *sorted(features.levels.items())],
    )


@router.get("/quorum")
async def quorum(request: Request, caller: Reader) -> Response:
    """The page."""
    view = await quorum_view(services_of(request).cluster, may_change=_may_change(caller))
    return render(request, "quorum.html", page=page_of(request, "Quorum", "/quorum"), view=view)


@router.get("/fragments/quorum")
async def quorum_fragment(request: Request, caller: Reader) -> Response:
    """The same without its frame."""
    view = await quorum_view(services_of(request).cluster, may_change=_may_change(caller))
    return render(request, "_quorum.html", view=view)


def _may_change(caller: Caller) -> bool:
    return caller.principal.may(Role.ADMIN, "admin")
