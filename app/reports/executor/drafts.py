"""Drafts of plans: the rows of a plan from what it was made of."""

from collections import Counter
from collections.abc import Iterable

from app.reports.executor.directories import Answers, problem
from app.reports.executor.plan import MOVED, Row, named_dirs
from app.reports.executor.plan_text import PlanError, PlanText
from app.reports.sizes import partition_size
from app.texts import phrase
from kraft_core.image.metadata_image import MetadataImage, PartitionRegistration
from kraft_core.protocol.uuids import uuid_to_text

PROBLEMS_SHOWN = 5
Bytes = Counter[tuple[int, str]]
"""Bytes that a plan puts into log directories, by (broker id, path)."""


def rows_of_plan(image: MetadataImage, wanted: PlanText, answers: Answers) -> list[Row]:
    """Return the rows of a plan, with the present replicas as those that it was made for.

    `answers`: what brokers have told of their log directories; needed where the plan names one.

    Raises PlanError for partitions that do not exist, for replicas that the controller would refuse, and for log
    directories that are unknown, offline, cordoned or too small for all that the plan puts there.
    """
    rows: list[Row] = []
    problems: list[str] = []
    needed: Bytes = Counter()
    for (name, index), replicas in wanted.replicas.items():
        topic = image.topics.topic(name)
        partition = None if topic is None else topic.partitions.get(index)
        if topic is None or partition is None:
            problems.append(f"{name}-{index} does not exist.")
            continue
        row = Row(
            topic=name,
            topic_id=uuid_to_text(topic.id),
            partition=index,
            original=tuple(each for each in partition.replicas if each not in partition.adding_replicas),
            proposed=tuple(replicas),
            log_dirs=wanted.log_dirs.get((name, index), ()),
        )
        found = _problem(image, row) or _directory_problem(row, partition, answers, needed)
        if found is None:
            rows.append(row)
        else:
            problems.append(f"{name}-{index}: {found}")
    if problems:
        more = f" {len(problems) - PROBLEMS_SHOWN} more." if len(problems) > PROBLEMS_SHOWN else ""
        raise PlanError(" ".join(problems[:PROBLEMS_SHOWN]) + more)
    return rows


def _problem(image: MetadataImage, row: Row) -> str | None:
    if not row.proposed:
        return "the plan gives it no replica."
    if len(set(row.proposed)) < len(row.proposed):
        return "the plan names a broker twice."
    unknown = [each for each in row.proposed if each not in image.cluster.brokers]
    return f"broker {unknown[0]} is not registered." if unknown else None


def _directory_problem(row: Row, partition: PartitionRegistration, answers: Answers, needed: Bytes) -> str | None:
    """Return why a log directory cannot take its replica, and count the bytes of those that can."""
    for broker_id, path in row.wanted_dirs.items():
        if broker_id in answers and answers[broker_id].path_of(*row.key) == path:
            continue
        size = partition_size(*row.key, partition, answers) or 0
        found = problem(answers, broker_id, path, needed[broker_id, path] + size)
        if found is not None:
            return found
        needed[broker_id, path] += size
    return None


def rollback_rows(image: MetadataImage, rows: Iterable[Row], answers: Answers) -> list[Row]:
    """Return the rows that bring the moved partitions of a plan back. Raises PlanError when there are none."""
    moved = [row for row in rows if row.state == MOVED]
    if not moved:
        raise PlanError(phrase("The plan has moved no partition, so there is nothing to bring back."))
    log_dirs = {row.key: row.original_log_dirs for row in moved if named_dirs(row.original, row.original_log_dirs)}
    return rows_of_plan(image, PlanText({row.key: row.original for row in moved}, log_dirs), answers)
