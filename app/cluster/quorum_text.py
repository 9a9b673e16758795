"""The state of the quorum in sentences, the same on pages, in probes and on the command line."""

import datetime as dt
from collections.abc import Iterable, Sequence

from app.cluster.quorum import Endpoint, Quorum, Replica
from app.cluster.reach import Reach


def clock(at_ms: int) -> str:
    """Return a time in UTC, to the second."""
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def endpoint_texts(endpoints: Iterable[Endpoint]) -> list[str]:
    """Return endpoints as operators write them, as CONTROLLER://host:9093."""
    return [f"{name}://{host}:{port}" for name, host, port in endpoints]


def state_text(quorum: Quorum, noun: str = "voter") -> str:
    """Return what is wrong with the quorum: voters that answer, voters that do not and since when, and the majority.

    "" if nothing is wrong. `noun` is "controller" when only the registered controllers are known, not which of them
    vote.
    """
    match quorum.standing:
        case "unknown":
            return f"No controller has described a quorum yet{_asked(quorum.asked)}."
        case "no-majority":
            who = f"The quorum has lost its majority: {_answering(quorum, noun)}{_silent(quorum.silent)}."
            return f"{who} Nothing can be changed until a majority answers again."
        case "no-leader":
            epoch = f" (epoch {quorum.leader_epoch})" if quorum.leader_epoch >= 0 else ""
            return f"The quorum has no leader{epoch}: {_answering(quorum, noun)}{_silent(quorum.silent)}."
        case "led" if quorum.silent:
            return f"Not all {noun}s answer: {_answering(quorum, noun)}{_silent(quorum.silent)}."
        case "led":
            return ""


def state_tone(quorum: Quorum) -> str:
    """Return the severity: "bad" while nothing can be decided, "warn" while a voter does not answer, "" otherwise."""
    if quorum.standing != "led":
        return "bad"
    return "warn" if quorum.silent else ""


def ids(numbers: Sequence[int]) -> str:
    """Return "node 1", "nodes 1 and 3" or "nodes 1, 2 and 3"."""
    text = [str(number) for number in numbers]
    if len(text) == 1:
        return f"node {text[0]}"
    return f"nodes {', '.join(text[:-1])} and {text[-1]}"


def _answering(quorum: Quorum, noun: str) -> str:
    answering = [voter.id for voter in quorum.voters if not voter.is_silent]
    total, needed = len(quorum.voters), quorum.majority
    who = noun if total == 1 else f"{noun}s"
    count = f"{len(answering)} of {total} {who} {'answers' if 1 in (len(answering), total) else 'answer'}"
    named = f" ({ids(answering)})" if answering else ""
    return f"{count}{named}, {needed} {'is' if needed == 1 else 'are'} needed"


def _silent(voters: Sequence[Replica]) -> str:
    if not voters:
        return ""
    texts = [
        f"node {voter.id} at {voter.reach.host}:{voter.reach.port} has not answered since {clock(voter.reach.since_ms)}"
        for voter in voters
        if voter.reach is not None
    ]
    return f"; {'; '.join(texts)}"


def _asked(asked: Sequence[Reach]) -> str:
    texts = [
        f"{each.host}:{each.port} answers, but names no leader"
        if each.answers
        else f"{each.host}:{each.port} has not answered since {clock(each.since_ms)} ({each.cause})"
        for each in asked
    ]
    return f": {'; '.join(texts)}" if texts else ""
