"""What the wizard of moves is asked, as its address says it: the goal, the partitions, where they go.

Everything is in the address, so that each step can be bookmarked and nothing is kept. Only a long pasted plan is not.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from typing import Final
from urllib.parse import urlencode

from app.cluster.partitions import Partition
from app.pages.config_values import BYTES as UNIT_OF_BYTES
from app.pages.config_values import Unit, parsed
from app.pages.frame import counted, optional_number, whole_number
from app.pages.plan_limits import Limits
from app.reports.executor.plan_text import PLAN_BYTES_MAX
from app.reports.proposals.options import (
    BALANCE,
    BYTES,
    EXPAND,
    LEADERS,
    MAX_REPLICATION_FACTOR,
    MOVE,
    REPAIR,
    REPLICATION_FACTOR,
    Options,
)
from app.texts import phrase, recognised
from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration, TopicImage

TICKED_MAX: Final = 200
TYPED_MAX: Final = 1_000
"""Partitions whose replicas can be typed one by one."""
ADDRESSED_MAX: Final = 3_000
"""Characters of a pasted plan that an address may have; a longer one is posted."""
ID_MAX: Final = 2**31 - 1
NO_PARTITIONS: Final = phrase(
    "Choose partitions: by topic, by the broker that holds them, or by ticks. * stands for all topics."
)
DRAINS_ALL: Final = phrase(
    "A drain moves everything from its brokers. Leave the choice of partitions empty, or choose another goal."
)


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of the wizard: its texts, and the planner's goals where the planner makes the plan."""

    label: str
    hint: str
    planner: frozenset[str] = frozenset()


GOALS: Final = {
    "move": Goal(
        phrase("Move partitions"), phrase("Chosen partitions go to brokers or racks of your choice."), frozenset({MOVE})
    ),
    "all": Goal(
        phrase("Repair and balance"),
        phrase("Mends the rack rule and lost replicas, then evens out replicas and leaders."),
        frozenset({REPAIR, BALANCE, LEADERS}),
    ),
    "repair": Goal(
        phrase("Repair only"),
        phrase("Replaces replicas that break the rack rule or are on lost disks or brokers."),
        frozenset({REPAIR}),
    ),
    "all_bytes": Goal(
        phrase("Repair and balance, bytes too"),
        phrase("The same, then replicas of a rack's brokers change places until their sizes are even."),
        frozenset({REPAIR, BALANCE, BYTES, LEADERS}),
    ),
    "balance": Goal(
        phrase("Balance replicas"), phrase("Every broker gets its share of replicas."), frozenset({BALANCE})
    ),
    "bytes": Goal(
        phrase("Balance bytes"),
        phrase("Replicas of a rack's brokers change places; all sizes must be known."),
        frozenset({BYTES}),
    ),
    "leaders": Goal(
        phrase("Balance leaders"), phrase("No data is copied: only preferred leaders change."), frozenset({LEADERS})
    ),
    "drain": Goal(phrase("Drain"), phrase("Brokers, racks or log directories are cordoned, then emptied.")),
    "expand": Goal(
        phrase("Expand"), phrase("New brokers are filled to their share; the others only give."), frozenset({EXPAND})
    ),
    "factor": Goal(
        phrase("Change the replication factor"),
        phrase("Replicas are added or removed."),
        frozenset({REPLICATION_FACTOR}),
    ),
    "paste": Goal(
        phrase("Paste a reassignment"), phrase("JSON of kafka-reassign-partitions, or one line per partition.")
    ),
    "report": Goal(phrase("Plan of a report"), phrase("The plan that a placement report proposes.")),
}
CHOSEN: Final = tuple(name for name in GOALS if name != "report")
"""Goals offered in the first step; a report's plan begins at the report."""


class Scope:
    """The partitions that the filters and ticks choose. Nothing is listed before it is asked for."""

    def __init__(self, image: MetadataImage, topics: Sequence[TopicImage] | None, holder: int | None) -> None:
        self._image = image
        self._topics = topics
        self._holder = holder

    @property
    def topics(self) -> Sequence[TopicImage]:
        """The topics, by name."""
        if self._topics is not None:
            return self._topics
        by_name = self._image.topics.by_name
        found = (self._image.topics.topic(name) for name in sorted(by_name))
        return [topic for topic in found if topic is not None]

    def rows(self) -> Iterator[tuple[str, int, PartitionRegistration]]:
        """Yield (topic, partition, its registration), by name and number."""
        for topic in self.topics:
            if self._holder is not None and self._holder not in topic.brokers:
                continue
            for number, each in topic.sorted_partitions():
                if self._holder is None or self._holder in each.replicas:
                    yield topic.name, number, each

    @cached_property
    def count(self) -> int:
        """The number of partitions."""
        if self._holder is None:
            return sum(len(topic.partitions) for topic in self.topics)
        return sum(1 for _ in self.rows())

    def page(self, page: int, size: int) -> Sequence[tuple[str, int, PartitionRegistration]]:
        """Return the rows of a page."""
        return list(islice(self.rows(), (page - 1) * size, page * size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The parameters as typed. Lists are of texts, such as broker ids and `topic-0`; see `of` and `errors`."""

    goal: str = "move"
    topics: str = ""
    holder: str = ""
    p: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    to_rack: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    drain_rack: tuple[str, ...] = ()
    drain_dir: str = ""
    unregister: str = ""
    without: tuple[str, ...] = ()
    factor: str = ""
    max_moves: str = ""
    max_bytes: str = ""
    report: str = ""
    plan: str = ""

    @classmethod
    def of(cls, given: Iterable[tuple[str, str]]) -> "Choice":
        """Return the choice of an address or form; what is not known is ignored."""
        found: dict[str, list[str]] = {}
        for name, value in given:
            found.setdefault(name, []).append(value)
        several = {each.name for each in fields(cls) if isinstance(each.default, tuple)}
        limit = {"plan": PLAN_BYTES_MAX + 1}
        values: dict[str, str | tuple[str, ...]] = {}
        for each in fields(cls):
            if each.name in several:
                texts = tuple(dict.fromkeys(value[:260] for value in found.get(each.name, ()) if value))
                values[each.name] = texts[: 2 * TICKED_MAX] if each.name == "p" else texts
            elif each.name in found:
                values[each.name] = found[each.name][-1][: limit.get(each.name, 4_000)].strip()
        if values.get("goal") not in GOALS:
            values.pop("goal", None)
        return cls(**values)  # type: ignore[arg-type]  # each value has the type of its field's default

    def pairs(self, *, leave: Sequence[str] = ()) -> list[tuple[str, str]]:
        """Return the parameters that are given, without those to `leave`."""
        found = []
        for each in fields(self):
            value = getattr(self, each.name)
            values = value if isinstance(value, tuple) else (value,) if value else ()
            found += [(each.name, text) for text in values if each.name not in leave]
        return found

    def address(self, step: str, limits: Limits | None = None, **changed: str) -> str:
        """Return the address of a step. It lacks a plan that is posted."""
        left = ("plan",) if self.is_posted else ()
        pairs = [(name, value) for name, value in self.pairs(leave=left) if name not in changed]
        pairs += [*changed.items(), *(limits.pairs() if limits else ()), ("step", step)]
        return f"/moves/new?{urlencode(pairs)}"

    @property
    def is_posted(self) -> bool:
        """Whether the pasted plan is too long for an address."""
        return len(self.plan) > ADDRESSED_MAX

    @property
    def has_scope(self) -> bool:
        """Whether some partitions are chosen."""
        return bool(self.topics or self.holder or self.p)


class Problems(Exception):  # noqa: N818 - what is wrong with the fields of a step, not an error of the program
    """What is wrong with a choice, by field; "" for the whole."""

    def __init__(self, step: str, by_field: dict[str, str]) -> None:
        super().__init__("; ".join(by_field.values()))
        self.step = step
        self.by_field = by_field


def scope_of(choice: Choice, image: MetadataImage) -> Scope:
    """Return the partitions that the filters choose, without the ticks. Raises Problems of step what."""
    wrong: dict[str, str] = {}
    topics: list[TopicImage] | None = None
    if choice.topics:
        topics, unknown = _matching(choice.topics, image)
        if unknown:
            wrong["topics"] = unknown
    holder = whole_number(choice.holder, 0, ID_MAX) if choice.holder else None
    if choice.holder and holder is None:
        wrong["holder"] = phrase(
            "'%(text)s' is not a broker id, a whole number from 0 to %(most)s.", text=choice.holder[:40], most=ID_MAX
        )
    if wrong:
        raise Problems("what", wrong)
    return Scope(image, topics, holder)


def _matching(text: str, image: MetadataImage) -> tuple[list[TopicImage], str]:
    """Return the topics of a list of names and patterns, by name, and what is wrong with the list."""
    names = sorted(image.topics.by_name)
    chosen: set[str] = set()
    for word in text.replace(",", " ").split():
        if "*" in word:
            pattern = re.compile(".*".join(map(re.escape, re.split(r"\*+", word))))
            found = {name for name in names if pattern.fullmatch(name)}
            if not found and word.strip("*"):
                return [], phrase("No topic matches '%(name)s'.", name=word[:249])
            chosen |= found
        elif word in image.topics.by_name:
            chosen.add(word)
        else:
            return [], phrase(
                "Topic '%(name)s' does not exist. Use * for any characters, as in orders-*.", name=word[:249]
            )
    topics = (image.topics.topic(name) for name in sorted(chosen))
    return [topic for topic in topics if topic is not None], ""


def ticked(choice: Choice, image: MetadataImage) -> list[Partition]:
    """Return the ticked partitions. Raises Problems of step what."""
    if len(choice.p) > TICKED_MAX:
        wrong = phrase(
            "%(partitions)s are ticked, at most %(most)s can be. Choose by topic or broker.",
            partitions=counted(len(choice.p), "partition"),
            most=TICKED_MAX,
        )
        raise Problems("what", {"p": wrong})
    found = []
    for text in choice.p:
        name, _, digits = text.rpartition("-")
        number = whole_number(digits, 0, ID_MAX)
        topic = image.topics.topic(name)
        if number is None or topic is None or number not in topic.partitions:
            raise Problems("what", {"p": phrase("Partition %(name)s does not exist.", name=text[:260])})
        found.append((name, number))
    return found


def scope_options(choice: Choice, image: MetadataImage) -> dict[str, frozenset[str] | frozenset[Partition]]:
    """Return topics or partitions as arguments of the planner's options. Raises Problems of step what."""
    if choice.p:
        return {"partitions": frozenset(ticked(choice, image))}
    scope = scope_of(choice, image)
    if choice.holder:
        return {"partitions": frozenset((name, number) for name, number, _ in scope.rows())}
    return {"topics": frozenset(topic.name for topic in scope.topics)} if choice.topics else {}


def planner_options(choice: Choice, image: MetadataImage) -> Options:
    """Return the planner's options of a goal that it plans. Raises Problems."""
    scope = scope_options(choice, image)
    if choice.goal == "move" and not choice.has_scope:
        raise Problems("what", {"topics": NO_PARTITIONS})
    given: dict[str, object] = dict(scope)
    if choice.goal in {"move", "expand"}:
        targets = brokers_of(choice.to, choice.to_rack, image, "to")
        if choice.goal == "move" and not targets:
            raise Problems("where", {"to": phrase("Choose the brokers or racks that get the replicas.")})
        given["target_brokers" if choice.goal == "move" else "expand_brokers"] = frozenset(targets)
    if choice.goal == "factor":
        wanted = whole_number(choice.factor, 1, MAX_REPLICATION_FACTOR)
        if wanted is None:
            text = phrase(
                "'%(text)s' is not a replication factor from 1 to %(most)s.",
                text=choice.factor[:40],
                most=MAX_REPLICATION_FACTOR,
            )
            raise Problems("where", {"factor": text})
        given["replication_factor"] = wanted
    given["max_moves"] = _budget(choice.max_moves, "max_moves", phrase("Replicas to copy"), None)
    given["max_bytes"] = _budget(choice.max_bytes, "max_bytes", phrase("Bytes to copy"), UNIT_OF_BYTES)
    excluded = frozenset(brokers_of(choice.without, (), image, "without"))
    return Options(goals=GOALS[choice.goal].planner, exclude_brokers=excluded, **given)  # type: ignore[arg-type]  # each has the type of its field


def _budget(text: str, field: str, label: str, unit: Unit | None) -> int | None:
    """Return a limit of the planner, None without one. Raises Problems of step where."""
    try:
        value, wrong = optional_number(parsed(text, unit), label, 2**62)
    except ValueError as unreadable:
        value, wrong = None, phrase("%(label)s: %(problem)s", label=label, problem=recognised(str(unreadable)))
    if wrong:
        raise Problems("where", {field: wrong})
    return value


def brokers_of(ids: Sequence[str], racks: Sequence[str], image: MetadataImage, field: str) -> list[int]:
    """Return the brokers of these ids and racks. Raises Problems of step where."""
    known = image.cluster.brokers
    found = []
    for text in ids:
        broker_id = whole_number(text, 0, ID_MAX)
        if broker_id is None or broker_id not in known:
            listed = ", ".join(map(str, sorted(known)[:20]))
            raise Problems(
                "where",
                {field: phrase("Broker %(id)s is not registered; registered: %(ids)s.", id=text[:40], ids=listed)},
            )
        found.append(broker_id)
    for rack in racks:
        within = [each.id for each in known.values() if each.rack == rack]
        if not within:
            raise Problems("where", {field: phrase("No broker is in rack '%(rack)s'.", rack=rack[:249])})
        found += within
    return sorted(set(found))


def drained_of(choice: Choice, image: MetadataImage) -> tuple[tuple[int, ...], tuple[tuple[int, str], ...]]:
    """Return the brokers and log directories to drain. Raises Problems."""
    if choice.has_scope:
        raise Problems("what", {"holder" if choice.holder else "topics" if choice.topics else "p": DRAINS_ALL})
    brokers = tuple(brokers_of(choice.drain, choice.drain_rack, image, "drain"))
    log_dirs = []
    for word in filter(None, map(str.strip, choice.drain_dir.split(","))):
        broker, _, path = word.partition(":")
        broker_id = whole_number(broker, 0, ID_MAX)
        if broker_id is None or not path.startswith("/"):
            text = phrase("'%(text)s' is not a log directory in the form BROKER:/PATH.", text=word[:80])
            raise Problems("where", {"drain_dir": text})
        log_dirs.append((broker_id, path))
    if not brokers and not log_dirs:
        raise Problems("where", {"drain": phrase("Choose what to drain: brokers, racks or log directories.")})
    return brokers, tuple(dict.fromkeys(log_dirs))


def typed_lines(choice: Choice, image: MetadataImage) -> str:
    """Return the present replicas of the chosen partitions as lines to edit, "" for too many. Raises Problems."""
    if not choice.has_scope:
        return ""
    if choice.p:
        rows = []
        for name, number in ticked(choice, image):
            topic = image.topics.topic(name)
            assert topic is not None, "ticked has found it"
            rows.append((name, number, topic.partitions[number]))
    else:
        rows = list(islice(scope_of(choice, image).rows(), TYPED_MAX + 1))
    if len(rows) > TYPED_MAX:
        return ""
    return "\n".join(f"{name} {number} {','.join(map(str, each.replicas))}" for name, number, each in rows)
