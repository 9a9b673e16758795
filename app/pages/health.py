"""The state of the cluster in one sentence, with the reasons."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from app.cluster.cluster import Cluster
from app.cluster.history import Change
from app.cluster.quorum import Quorum
from app.cluster.quorum_text import state_text
from app.cluster.topic_table import ClusterTotals
from app.pages.frame import counted, duration
from app.texts import phrase, phrases
from kraft_core.image.metadata_image import MetadataImage

DAY_MS: Final = 86_400_000
NO_SPARE: Final = phrase("survives no further controller failure")

Tone = Literal["good", "warn", "bad"]

FENCED_MAX: Final = 3
"""So many fenced brokers are named one by one, since their leaders have to be counted."""
COUNTED_MAX: Final = 100_000
"""In a cluster with more partitions the leaders that a broker costs are not counted: that takes too long for a page."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason and the page about it."""

    tone: Tone
    text: str
    href: str


@dataclass(frozen=True, slots=True)
class Health:
    """The sentence and its reasons, worst first. `tone` is that of the worst."""

    tone: Tone
    sentence: str
    reasons: Sequence[Reason]


def health_of(cluster: Cluster) -> Health:
    """Return the state from memory; nothing is asked."""
    freshness = cluster.freshness
    if not freshness.is_ready:
        cause = freshness.error or phrase("the quorum has not answered")
        text = phrase("No metadata yet: %(cause)s.", cause=cause)
        return Health("bad", text, ())
    now_ms = time.time() * 1000
    unclean = cluster.history.unclean_since(now_ms - DAY_MS)
    return health(cluster.quorum, cluster.image, cluster.topic_table.totals(), cluster.history, now_ms, unclean)


def health(
    quorum: Quorum,
    image: MetadataImage,
    totals: ClusterTotals,
    history: Iterable[Change],
    now_ms: float,
    unclean: int = 0,
) -> Health:
    """Return the state of this quorum and image.

    `history` tells since when brokers are fenced; `unclean` is the number of unclean elections in the last day.
    """
    reasons = [
        *quorum_reasons(quorum),
        *partition_reasons(totals),
        *broker_reasons(image, totals.partitions, history, now_ms),
        *unclean_reasons(unclean),
    ]
    reasons.sort(key=lambda reason: reason.tone != "bad")
    return Health(reasons[0].tone if reasons else "good", _sentence(quorum, totals, reasons), reasons)


def past_health(image: MetadataImage, totals: ClusterTotals, unclean: int) -> Health:
    """Return the state of partitions and brokers as they were; the log does not tell which controllers answered.

    `unclean` is the number of unclean elections in the day before.
    """
    reasons = [
        *partition_reasons(totals),
        *broker_reasons(image, totals.partitions, (), 0),
        *unclean_reasons(unclean, phrase("in the day before")),
    ]
    reasons.sort(key=lambda reason: reason.tone != "bad")
    sentence = _refused(totals) or (
        phrase("Partitions and brokers were not all well.")
        if reasons
        else phrase("All partitions and brokers were well.")
    )
    return Health(reasons[0].tone if reasons else "good", sentence, reasons)


def unclean_reasons(number: int, when: str = phrase("in the last day")) -> Iterator[Reason]:
    """Yield the unclean elections of a day."""
    if number:
        elections = counted(number, "unclean leader election")
        text = phrase("%(elections)s %(when)s: acknowledged records may be lost", elections=elections, when=when)
        yield Reason("warn", text, "/flaps/elections")


def _refused(totals: ClusterTotals) -> str:
    if totals.offline:
        return phrase(
            "%(partitions)s can be neither read nor written.", partitions=counted(totals.offline, "partition")
        )
    if totals.under_min:
        partitions = counted(totals.under_min, "partition")
        return phrases(
            "%(partitions)s rejects writes.", "%(partitions)s reject writes.", totals.under_min, partitions=partitions
        )
    return ""


def _sentence(quorum: Quorum, totals: ClusterTotals, reasons: Sequence[Reason]) -> str:
    if quorum.standing != "led":
        return phrase("Nothing can be changed: the quorum has no leader that a majority follows.")
    if refused := _refused(totals):
        return refused
    spare = quorum.failures_tolerated
    safety = NO_SPARE
    if len(quorum.voters) == 1:
        safety = phrase("one controller, without which nothing can be changed")
    elif spare:
        safety = phrases(
            "survives %(count)s more controller failure", "survives %(count)s more controller failures", spare
        )
    if any(reason.tone == "bad" for reason in reasons):
        return phrase("Working, but something is missing; %(safety)s.", safety=safety)
    if reasons:
        return phrase("Working, with less safety: %(safety)s.", safety=safety)
    return phrase("Healthy: %(safety)s.", safety=safety)


def quorum_reasons(quorum: Quorum) -> Iterator[Reason]:
    """Yield what is wrong with the voters."""
    text = state_text(quorum)
    if text:
        yield Reason("warn" if quorum.standing == "led" else "bad", text, "/quorum")
    behind = [voter.id for voter in quorum.behind]
    if quorum.standing == "led" and quorum.is_live and behind:
        names = ", ".join(map(str, behind))
        yield Reason("warn", phrase("Voter %(ids)s is not caught up with the leader.", ids=names), "/quorum")


def partition_reasons(totals: ClusterTotals) -> Iterator[Reason]:
    """Yield what is wrong with partitions."""
    if totals.offline:
        text = phrase("%(partitions)s offline: no leader", partitions=counted(totals.offline, "partition"))
        yield Reason("bad", text, "/topics?problem=offline")
    under_min = totals.under_min - totals.offline
    if under_min > 0:
        text = phrase(
            "%(partitions)s under min.insync.replicas: acks=all is refused", partitions=counted(under_min, "partition")
        )
        yield Reason("bad", text, "/topics?problem=under-min")
    if totals.under_replicated > totals.under_min:
        writable = counted(totals.under_replicated - totals.under_min, "partition")
        text = phrase("%(partitions)s under-replicated, still writable", partitions=writable)
        yield Reason("warn", text, "/topics?problem=under-replicated")


def broker_reasons(image: MetadataImage, partitions: int, history: Iterable[Change], now_ms: float) -> Iterator[Reason]:
    """Yield fenced brokers, with the time since then as far as it is kept, and the leaders that they cost."""
    fenced = sorted(broker.id for broker in image.cluster.brokers.values() if broker.fenced)
    for broker_id in fenced[:FENCED_MAX]:
        since = fenced_since_ms(history, broker_id)
        leaders = leaders_lost(image, broker_id) if partitions <= COUNTED_MAX else 0
        cost = phrase(": costs %(leaders)s", leaders=counted(leaders, "leader")) if leaders else ""
        text = phrase("Broker %(id)s fenced%(cost)s", id=broker_id, cost=cost)
        if since is not None:
            time_text = duration(max(0, int(now_ms - since)))
            text = phrase("Broker %(id)s fenced for %(time)s%(cost)s", id=broker_id, time=time_text, cost=cost)
        yield Reason("bad", text, f"/brokers/{broker_id}")
    if len(fenced) > FENCED_MAX:
        yield Reason("bad", phrase("%(count)s more brokers fenced", count=len(fenced) - FENCED_MAX), "/brokers")
    for broker in sorted(image.cluster.brokers.values(), key=lambda each: each.id):
        if broker.in_controlled_shutdown and not broker.fenced:
            yield Reason("warn", phrase("Broker %(id)s is shutting down", id=broker.id), f"/brokers/{broker.id}")


def leaders_lost(image: MetadataImage, broker_id: int) -> int:
    """Return for how many partitions the broker is the preferred leader and not the leader."""
    return sum(
        partition.replicas[0] == broker_id and partition.leader != broker_id
        for _, _, partition in image.topics.partitions_of_broker(broker_id)
    )


def fenced_since_ms(history: Iterable[Change], broker_id: int) -> int | None:
    """Return when the broker was fenced, None if that is no longer kept."""
    for change in reversed(list(history)):
        before, after = change.before.cluster.brokers.get(broker_id), change.after.cluster.brokers.get(broker_id)
        if before is not after and after is not None and after.fenced and (before is None or not before.fenced):
            return change.timestamp_ms
    return None
