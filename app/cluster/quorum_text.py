"""The state of the quorum in sentences, the same on pages, in probes and on the command line."""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Literal

from app.cluster.quorum import Endpoint, Quorum, Replica
from app.cluster.reach import Reach
from app.texts import Text, joined, phrase, phrases, sentences


def clock(at_ms: int) -> str:
    """Return a time in UTC, to the second."""
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def endpoint_texts(endpoints: Iterable[Endpoint]) -> list[str]:
    """Return endpoints as operators write them, as CONTROLLER://host:9093."""
    return [f"{name}://{host}:{port}" for name, host, port in endpoints]


def state_text(quorum: Quorum, noun: Literal["voter", "controller"] = "voter") -> str:
    """Return what is wrong with the quorum: voters that answer, voters that do not and since when, and the majority.

    "" if nothing is wrong. `noun` is "controller" when only the registered controllers are known, not which of them
    vote.
    """
    who = _answering(quorum, noun), _silent(quorum.silent)
    match quorum.standing:
        case "unknown":
            return phrase("No controller has described a quorum yet%(asked)s.", asked=_asked(quorum.asked))
        case "no-majority":
            text = phrase("The quorum has lost its majority: %(answering)s%(silent)s.", answering=who[0], silent=who[1])
            return sentences([text, phrase("Nothing can be changed until a majority answers again.")])
        case "no-leader":
            epoch = phrase(" (epoch %(epoch)s)", epoch=quorum.leader_epoch) if quorum.leader_epoch >= 0 else ""
            return phrase(
                "The quorum has no leader%(epoch)s: %(answering)s%(silent)s.",
                epoch=epoch,
                answering=who[0],
                silent=who[1],
            )
        case "led" if quorum.silent and noun == "voter":
            return phrase("Not all voters answer: %(answering)s%(silent)s.", answering=who[0], silent=who[1])
        case "led" if quorum.silent:
            return phrase("Not all controllers answer: %(answering)s%(silent)s.", answering=who[0], silent=who[1])
        case "led":
            return ""


def state_tone(quorum: Quorum) -> str:
    """Return the severity: "bad" while nothing can be decided, "warn" while a voter does not answer, "" otherwise."""
    if quorum.standing != "led":
        return "bad"
    return "warn" if quorum.silent else ""


def ids(numbers: Sequence[int]) -> Text:
    """Return "node 1", "nodes 1 and 3" or "nodes 1, 2 and 3"."""
    text = [str(number) for number in numbers]
    if len(text) == 1:
        return phrase("node %(id)s", id=text[0])
    return phrase("nodes %(ids)s and %(last)s", ids=joined(", ", text[:-1]), last=text[-1])


def _answering(quorum: Quorum, noun: Literal["voter", "controller"]) -> Text:
    answering = [voter.id for voter in quorum.voters if not voter.is_silent]
    total, needed = len(quorum.voters), quorum.majority
    counts = {"answering": len(answering), "total": total}
    one = 1 if 1 in (len(answering), total) else 2
    named = phrase(" (%(nodes)s)", nodes=ids(answering)) if answering else ""
    if noun == "voter" and total == 1:
        count = phrase("%(answering)s of %(total)s voter answers%(named)s", named=named, **counts)
    elif noun == "voter":
        count = phrases(
            "%(answering)s of %(total)s voters answers%(named)s",
            "%(answering)s of %(total)s voters answer%(named)s",
            one,
            named=named,
            **counts,
        )
    elif total == 1:
        count = phrase("%(answering)s of %(total)s controller answers%(named)s", named=named, **counts)
    else:
        count = phrases(
            "%(answering)s of %(total)s controllers answers%(named)s",
            "%(answering)s of %(total)s controllers answer%(named)s",
            one,
            named=named,
            **counts,
        )
    return joined(", ", [count, phrases("%(count)s is needed", "%(count)s are needed", needed)])


def _silent(voters: Sequence[Replica]) -> str:
    if not voters:
        return ""
    texts = [
        phrase(
            "node %(id)s at %(address)s has not answered since %(time)s",
            id=voter.id,
            address=f"{voter.reach.host}:{voter.reach.port}",
            time=clock(voter.reach.since_ms),
        )
        for voter in voters
        if voter.reach is not None
    ]
    return phrase("; %(nodes)s", nodes=joined("; ", texts))


def _asked(asked: Sequence[Reach]) -> str:
    texts = [
        phrase("%(address)s answers, but names no leader", address=f"{each.host}:{each.port}")
        if each.answers
        else phrase(
            "%(address)s has not answered since %(time)s (%(cause)s)",
            address=f"{each.host}:{each.port}",
            time=clock(each.since_ms),
            cause=each.cause,
        )
        for each in asked
    ]
    return phrase(": %(nodes)s", nodes=joined("; ", texts)) if texts else ""
