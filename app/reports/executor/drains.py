"""Plans from the planner: rows for options, and new places for what drained brokers and log directories hold."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from app.cluster.log_dirs import LogDirs
from app.cluster.partitions import Partition
from app.reports.executor.directories import Answers, room_bytes, unusable
from app.reports.executor.driver import DrainRefusedError
from app.reports.executor.plan import PlanAgain, Row
from app.reports.executor.plan_text import PlanError
from app.reports.proposals.directories import place_within
from app.reports.proposals.formats import ANY_LOG_DIR, proposal_numbers
from app.reports.proposals.layout import layout_from_image
from app.reports.proposals.options import DRAIN, InvalidOptionsError, Options
from app.reports.proposals.planner import propose
from app.reports.proposals.proposal import IN_FLIGHT, OFFLINE, UNSOLVED_REASONS, Proposal
from app.reports.sizes import directory_space, partition_sizes
from app.texts import phrase
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.metadata_version import is_cordoned_log_dirs_supported
from kraft_core.protocol.uuids import uuid_to_text

_TRANSIENT: Final = {IN_FLIGHT, OFFLINE}


def propose_again(image: MetadataImage, step: PlanAgain, answers: Answers) -> Mapping[Partition, Row]:
    """Return rows for the replicas that are still to be drained; none while those cannot be moved yet.

    Raises DrainRefusedError when the rest can never be moved.
    """
    try:
        rows, numbers = drained_rows(image, step.brokers, step.log_dirs, answers)
    except PlanError as refused:
        raise DrainRefusedError(phrase("The replicas cannot be moved: %(reason)s", reason=str(refused))) from refused
    lasting = [each for each in numbers["unsolved"] if each["reason"] not in _TRANSIENT]
    if lasting and not rows:
        reasons = "; ".join(f"{each['text']} ({each['count']})" for each in lasting)
        raise DrainRefusedError(phrase("The replicas cannot be moved: %(reasons)s.", reasons=reasons))
    return {row.key: row for row in rows}


def check_drain(image: MetadataImage, brokers: Sequence[int], log_dirs: Sequence[tuple[int, str]] = ()) -> None:
    """Raise PlanError unless the brokers or log directories can be cordoned and drained."""
    named = [*brokers, *(broker for broker, _ in log_dirs)]
    unknown = [each for each in named if each not in image.cluster.brokers]
    if not named or unknown:
        known = ", ".join(map(str, sorted(image.cluster.brokers)))
        if unknown:
            raise PlanError(phrase("Broker %(id)s is not registered; registered: %(ids)s.", id=unknown[0], ids=known))
        raise PlanError(phrase("No broker is named; registered: %(ids)s.", ids=known))
    if brokers and log_dirs:
        raise PlanError(phrase("A drain empties either brokers or log directories, not both."))
    if not is_cordoned_log_dirs_supported(image.features.metadata_version or 0):
        raise PlanError(
            phrase(
                "A drain cordons its brokers, which needs metadata.version 30 (4.3-IV0); the cluster has %(version)s.",
                version=image.features.metadata_version,
            )
        )


def proposed_rows(image: MetadataImage, options: Options, answers: Answers) -> tuple[list[Row], dict[str, Any]]:
    """Return the rows of the planner's proposal, and its numbers. Takes about 6 s per million partitions.

    `answers`: what the brokers have told of their log directories, for sizes and free space.

    Raises PlanError when the planner refuses, or proposes no change.
    """
    rows, numbers = _proposed(image, options, answers)
    if not rows:
        raise PlanError(phrase("The planner proposes no change: the goals are reached as far as they can be."))
    return rows, numbers


def _proposed(image: MetadataImage, options: Options, answers: Answers) -> tuple[list[Row], dict[str, Any]]:
    try:
        layout = layout_from_image(image, partition_sizes(image, answers), directory_space(image, answers))
        proposal = propose(layout, options)
    except InvalidOptionsError as wrong:
        raise PlanError(str(wrong)) from wrong
    if proposal.refused:
        raise PlanError(" ".join(proposal.refused))
    return _rows(proposal), {"metadata_offset": proposal.offset, **proposal_numbers(proposal)}


def drained_rows(
    image: MetadataImage, brokers: Sequence[int], log_dirs: Sequence[tuple[int, str]], answers: Answers
) -> tuple[list[Row], dict[str, Any]]:
    """Return the rows that empty brokers or log directories, and the proposal's numbers.

    A replica of a log directory moves to another one of its broker that has space, else to another broker.
    `directory_moves` of the numbers counts the former. Raises PlanError when it cannot be done.
    """
    held = {broker: _held(image, broker, log_dirs, answers) for broker in sorted({each for each, _ in log_dirs})}
    within = {broker: place_within(sizes, _room(answers[broker], broker, log_dirs)) for broker, sizes in held.items()}
    left = frozenset((*key, broker) for broker, sizes in held.items() for key in sizes if key not in within[broker])
    rows: list[Row] = []
    numbers: dict[str, Any] = {"metadata_offset": image.offset, "moves": 0, "bound": 0, "leader_changes": 0}
    numbers["unsolved"] = []
    if brokers or left:
        options = Options(goals=frozenset({DRAIN}), drain_brokers=frozenset(brokers), drain_replicas=left)
        rows, numbers = _proposed(image, options, answers)
    if log_dirs:
        rows = _with_directories(image, rows, within)
        moved = sum(len(row.wanted_dirs) for row in rows)
        numbers["directory_moves"] = moved
        busy = sum(map(len, within.values())) - moved
        if busy:
            text = UNSOLVED_REASONS[IN_FLIGHT]
            numbers["unsolved"] = [*numbers["unsolved"], {"reason": IN_FLIGHT, "text": text, "count": busy}]
    return rows, numbers


def _held(
    image: MetadataImage, broker_id: int, log_dirs: Iterable[tuple[int, str]], answers: Answers
) -> dict[Partition, int]:
    """Return the bytes of the replicas in the drained directories of a broker. Raises PlanError if it has not told."""
    drained = {path for each, path in log_dirs if each == broker_id}
    for path in sorted(drained):
        wrong = unusable(answers, broker_id, path)
        if wrong is not None:
            raise PlanError(wrong)
    told = answers[broker_id]
    found: dict[Partition, int] = {}
    for name, number, size, directory in told.sizes:
        topic = image.topics.topic(name)
        partition = topic.partitions.get(number) if topic else None
        if told.dirs[directory].path in drained and partition is not None and broker_id in partition.replicas:
            found[name, number] = size
    return found


def _room(told: LogDirs, broker_id: int, log_dirs: Iterable[tuple[int, str]]) -> dict[str, int | None]:
    """Return what the other directories of a broker may take, those that are online and not cordoned."""
    return {
        each.path: room_bytes(each)
        for each in told.dirs
        if (broker_id, each.path) not in set(log_dirs) and not each.error and not each.is_cordoned
    }


def _with_directories(
    image: MetadataImage, rows: Iterable[Row], within: Mapping[int, Mapping[Partition, str]]
) -> list[Row]:
    """Return the rows with the wanted log directories, and rows for the partitions that need nothing else."""
    found = {row.key: row for row in rows}
    paths: dict[Partition, dict[int, str]] = {}
    for broker_id, placed in within.items():
        for key, path in placed.items():
            paths.setdefault(key, {})[broker_id] = path
    for (name, number), wanted in sorted(paths.items()):
        topic = image.topics.topic(name)
        partition = None if topic is None else topic.partitions.get(number)
        if topic is None or partition is None or partition.is_reassigning:
            continue
        now = partition.replicas
        row = found.get((name, number)) or Row(
            topic=name, topic_id=uuid_to_text(topic.id), partition=number, original=now, proposed=now
        )
        log_dirs = tuple(wanted.get(each, ANY_LOG_DIR) for each in row.proposed)
        found[name, number] = replace(row, log_dirs=log_dirs)
    return list(found.values())


def _rows(proposal: Proposal) -> list[Row]:
    return [
        Row(
            topic=each.topic,
            topic_id=uuid_to_text(each.topic_id),
            partition=each.partition,
            original=each.current,
            proposed=each.proposed,
        )
        for each in proposal.changes
    ]
