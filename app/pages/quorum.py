"""The quorum page: voters and observers as the leader describes them, and the leaders of the log."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.actions.audited import Caller
from app.cluster.cluster import Cluster
from app.cluster.epochs import LONG_GAP_MS, Leadership
from app.cluster.observers import Observer, observers_of
from app.cluster.quorum import CAUGHT_UP_MS, Quorum, Replica
from app.cluster.quorum_text import endpoint_texts
from app.cluster.voter_changes import pending_change_text
from app.pages.epochs import EpochRow, clock, epoch_row, lately, short_clock
from app.pages.frame import UNKNOWN, age, duration, ids_text, number, page_of, render, size
from app.pages.shared_parts import shared
from app.security.roles import Role
from app.services import PastReader, Reader, services_of
from app.texts import joined, phrase
from kraft_core.protocol.uuids import ZERO_UUID, uuid_to_text

router = APIRouter(include_in_schema=False)

EPOCHS_SHOWN: Final = 10
NOT_IN_LOG: Final = phrase(
    "The metadata log does not tell, so it is not known for the past: which voters answered, how far they and the"
    " observers had read, the voters' directories, the latest snapshot, the level of kraft.version. The voters are"
    " those that the leader named when it was elected."
)
STATIC_HELP: Final = phrase(
    "Static voters: every node's server.properties lists them, so voters cannot be added or removed. To switch to"
    " dynamic voters, set `controller.quorum.bootstrap.servers` on all nodes; when all voters are caught up, run"
    " `kafka-features --bootstrap-controller HOST:PORT upgrade --feature kraft.version=1`; then remove"
    " `controller.quorum.voters` from all nodes. This cannot be undone."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
    """One voter or observer in words. `change_url` is the page that adds or removes the voter, "" if there is none."""

    id: int
    kind: str
    state: str
    tone: str
    log_end_offset: int
    lag: int | None
    lag_time: str
    last_fetch: str
    last_caught_up: str
    endpoints: str
    directory_id: str
    change_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumView:
    """Model of quorum.html. `facts` are (label, value, tone, why). `unknown`: what a past state cannot tell, or ""."""

    problem: str
    unknown: str
    under_way: str
    facts: Sequence[tuple[str, str, str, str]]
    static_help: str
    voters: Sequence[ReplicaRow]
    observers: Sequence[ReplicaRow]
    epochs: Sequence[EpochRow]
    epochs_known: int
    features: Sequence[tuple[str, int]]


def _leader_now(quorum: Quorum) -> int:
    """Return the leader's clock at its answer, to which its timestamps relate."""
    leader = quorum.leader
    return leader.last_caught_up_timestamp if leader and leader.last_caught_up_timestamp > 0 else quorum.asked_at_ms


def _state(replica: Replica, quorum: Quorum) -> tuple[str, str]:
    if replica.is_leader and quorum.leader_id is not None:
        return phrase("leader"), "info"
    if replica.is_silent:
        return phrase("does not answer"), "bad"
    if not quorum.is_live:
        return (phrase("answers"), "") if replica.reach is not None else (phrase("unknown"), "")
    if replica.is_caught_up:
        return phrase("caught up"), "good"
    is_silent = _leader_now(quorum) - replica.last_fetch_timestamp > CAUGHT_UP_MS
    return (phrase("silent"), "bad") if is_silent else (phrase("behind"), "warn")


def replica_row(replica: Replica, quorum: Quorum, change: str = "", kind: str = "") -> ReplicaRow:
    """Return one row, with ages by the leader's clock at its answer. `change` is add, remove or empty."""
    now_ms = _leader_now(quorum)
    state, tone = _state(replica, quorum)
    fetched = replica.last_fetch_timestamp
    fetch = UNKNOWN if fetched < 0 else age(max(0, now_ms - fetched))
    return ReplicaRow(
        id=replica.id,
        kind=kind,
        state=state,
        tone=tone,
        log_end_offset=replica.log_end_offset,
        lag=replica.lag,
        lag_time=UNKNOWN if replica.lag_ms is None else duration(replica.lag_ms),
        last_fetch="" if replica.is_leader else fetch,
        last_caught_up="" if replica.is_leader else short_clock(replica.last_caught_up_timestamp, now_ms),
        endpoints=", ".join(endpoint_texts(replica.endpoints)) or UNKNOWN,
        directory_id=UNKNOWN if replica.directory_id == ZERO_UUID else uuid_to_text(replica.directory_id),
        change_url=""
        if not change or replica.directory_id == ZERO_UUID
        else f"/quorum/voters/{replica.id}/{uuid_to_text(replica.directory_id)}/{change}",
    )


def observer_row(observer: Observer, quorum: Quorum, *, is_changeable: bool) -> ReplicaRow:
    """Return one row, also for a registered node that does not fetch. Only a controller can become a voter."""
    kind: str = {"BROKER": phrase("broker"), "CONTROLLER": phrase("controller")}.get(
        observer.kind, phrase("not registered")
    )
    if observer.is_fenced:
        kind = phrase("%(kind)s, fenced", kind=kind)
    if observer.replica is not None:
        change = "add" if is_changeable and observer.kind == "CONTROLLER" else ""
        return replica_row(observer.replica, quorum, change, kind)
    return ReplicaRow(
        id=observer.id,
        kind=kind,
        state=phrase("does not fetch"),
        tone="bad" if observer.kind == "BROKER" and not observer.is_fenced else "warn",
        log_end_offset=-1,
        lag=None,
        lag_time=UNKNOWN,
        last_fetch=UNKNOWN,
        last_caught_up=UNKNOWN,
        endpoints=UNKNOWN,
        directory_id=UNKNOWN,
    )


def failures(quorum: Quorum) -> tuple[str, str, str]:
    """Return (count, tone, why): how many more voters can fail before the quorum is lost."""
    why = phrase("majority is %(majority)s of %(count)s", majority=quorum.majority, count=len(quorum.voters))
    if not quorum.has_majority:
        return phrase("no quorum"), "bad", why if quorum.voters else phrase("no known voters")
    if not quorum.is_live:
        return UNKNOWN, "bad", phrase("no leader")
    left = quorum.failures_tolerated
    if len(quorum.voters) == 1:
        return "0", "warn", phrase("single voter")
    return str(left), "good" if left else "bad", why


def _leader_facts(quorum: Quorum, known: Sequence[Leadership]) -> list[tuple[str, str, str, str]]:
    current = known[0] if known and known[0].epoch.epoch == quorum.leader_epoch else None
    since = "" if current is None else phrase("since %(time)s", time=clock(current.epoch.timestamp_ms))
    changes, longest = lately(known, quorum.asked_at_ms)
    text = phrase("none") if quorum.leader_id is None else phrase("node %(id)s", id=quorum.leader_id)
    tone = "" if not changes else "warn" if longest is not None and longest >= LONG_GAP_MS else ""
    wait = phrase("last 24 h")
    if longest is not None:
        wait = phrase("last 24 h, longest leaderless time %(duration)s", duration=duration(longest))
    return [
        (phrase("Leader"), text, "good" if quorum.leader_id is not None else "bad", since),
        (phrase("Leader epoch"), number(quorum.leader_epoch), "", ""),
        (phrase("Leader changes"), number(changes), tone, wait),
    ]


def _log_facts(quorum: Quorum) -> list[tuple[str, str, str, str]]:
    lag, lag_ms = quorum.max_follower_lag, quorum.max_follower_lag_ms
    lag_tone = "" if lag_ms is None else "good" if lag_ms <= CAUGHT_UP_MS else "bad"
    lag_time = "" if lag_ms is None else duration(lag_ms)
    held: str = ""
    if quorum.log_start_offset >= 0 and quorum.log_end_offset >= 0:
        first, last = number(quorum.log_start_offset), number(quorum.log_end_offset)
        held = phrase("log from %(first)s to %(last)s", first=first, last=last)
    snapshot = quorum.snapshot
    made_of: list[str] = [] if snapshot is None else [phrase("epoch %(epoch)s", epoch=snapshot.epoch)]
    if snapshot is not None and snapshot.size_bytes >= 0:
        made_of.append(size(snapshot.size_bytes))
    if snapshot is not None and snapshot.last_timestamp_ms >= 0:
        made_of.append(phrase("as of %(time)s", time=clock(snapshot.last_timestamp_ms)))
    none = phrase("none yet") if quorum.is_live else UNKNOWN
    return [
        (phrase("Max follower lag"), UNKNOWN if lag is None else _records(lag), lag_tone, lag_time),
        (phrase("High watermark"), number(quorum.high_watermark), "", held),
        (
            phrase("Latest snapshot"),
            none if snapshot is None else number(snapshot.end_offset),
            "",
            joined(", ", made_of),
        ),
    ]


def _records(count: int) -> str:
    return phrase("%(count)s records", count=number(count))


def past_view(cluster: Cluster) -> QuorumView:
    """Return the page as far as the metadata log tells it for a past offset."""
    quorum, known, features = cluster.quorum, cluster.epochs.leaderships(), cluster.image.features
    return QuorumView(
        problem="",
        unknown=NOT_IN_LOG,
        under_way="",
        facts=[
            *_leader_facts(quorum, known),
            (
                phrase("Voters"),
                ids_text([voter.id for voter in quorum.voters]),
                "",
                phrase("when the leader was elected"),
            ),
            (phrase("High watermark"), number(quorum.high_watermark), "", ""),
            ("metadata.version", _metadata_version(cluster), "", ""),
        ],
        static_help="",
        voters=[
            replace(
                replica_row(voter, quorum),
                state=phrase("leader") if voter.is_leader else phrase("voter"),
                tone="",
                last_fetch="",
            )
            for voter in quorum.voters
        ],
        observers=(),
        epochs=[epoch_row(leadership) for leadership in known[:EPOCHS_SHOWN]],
        epochs_known=len(known),
        features=[("metadata.version", features.level("metadata.version")), *sorted(features.levels.items())],
    )


def _metadata_version(cluster: Cluster) -> str:
    version = cluster.image.features.metadata_version
    return UNKNOWN if version is None else str(version)


def quorum_view(cluster: Cluster, *, may_change: bool = False) -> QuorumView:
    """Return the page from the leader's answer (at most a second old) and the log. `may_change`: links for admins."""
    quorum = cluster.quorum
    known = cluster.epochs.leaderships()
    is_changeable = may_change and quorum.is_live and quorum.kraft_version >= 1
    left, tone, why = failures(quorum)
    features = cluster.image.features
    return QuorumView(
        problem=""
        if quorum.is_live or quorum.standing != "led"
        else phrase(
            "The leader does not answer DescribeQuorum: %(error)s. Values are from the metadata log.",
            error=quorum.error,
        ),
        unknown="",
        under_way=phrase("Voter change in progress: %(change)s.", change=pending_change_text(quorum))
        if quorum.is_change_pending
        else "",
        facts=[
            *_leader_facts(quorum, known),
            (phrase("Tolerated failures"), left, tone, why),
            *_log_facts(quorum),
            (
                "kraft.version",
                str(quorum.kraft_version),
                "",
                phrase("dynamic voters") if quorum.kraft_version else phrase("static voters"),
            ),
            ("metadata.version", _metadata_version(cluster), "", ""),
        ],
        static_help=STATIC_HELP if may_change and quorum.is_live and not quorum.kraft_version else "",
        voters=[replica_row(voter, quorum, "remove" if is_changeable else "") for voter in quorum.voters],
        observers=[
            observer_row(observer, quorum, is_changeable=is_changeable)
            for observer in observers_of(quorum, cluster.image)
        ],
        epochs=[epoch_row(leadership) for leadership in known[:EPOCHS_SHOWN]],
        epochs_known=len(known),
        features=[("metadata.version", features.level("metadata.version")), *sorted(features.levels.items())],
    )


@router.get("/quorum")
async def quorum(request: Request, caller: PastReader) -> Response:
    """Return the page."""
    cluster = services_of(request).cluster
    view = quorum_view(cluster, may_change=_may_change(caller)) if cluster.past is None else past_view(cluster)
    return render(request, "quorum.html", page=page_of(request, phrase("Quorum"), "/quorum"), view=view)


@router.get("/fragments/quorum")
@shared
async def quorum_fragment(request: Request, caller: Reader) -> Response:
    """Return the page without its frame."""
    view = quorum_view(services_of(request).cluster, may_change=_may_change(caller))
    return render(request, "_quorum.html", view=view)


def _may_change(caller: Caller) -> bool:
    return caller.principal.may(Role.ADMIN, "admin")
