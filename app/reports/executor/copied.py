"""Bytes of plans: the size of each partition when the plan is made.

Brokers are asked in the background with a bounded wait (see BrokerLogDirs). A size that no broker has told is None.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from app.cluster.cluster import Cluster
from app.cluster.log_dirs import FRESH_SECONDS, NOT_ASKED
from app.reports.executor.directories import Answers
from app.reports.executor.plan import Row
from app.reports.proposals.formats import ANY_LOG_DIR
from app.reports.sizes import partition_size
from kraft_core.image.metadata_image import MetadataImage

ASK_SECONDS: Final = 2.0
"""How long the creation of a plan waits for the brokers' answers."""


async def known_log_dirs(
    cluster: Cluster, wait_seconds: float = ASK_SECONDS, fresh_seconds: float = FRESH_SECONDS
) -> Answers:
    """Return the log directories of all brokers, as far as they have answered."""
    return await cluster.log_dirs.of(cluster.image.cluster.brokers.values(), wait_seconds, fresh_seconds)


def with_sizes(rows: Iterable[Row], image: MetadataImage, answers: Answers) -> list[Row]:
    """Return the rows with the sizes of their partitions, and the log directories from which replicas would move."""
    return [_with_size(row, image, answers) for row in rows]


def _with_size(row: Row, image: MetadataImage, answers: Answers) -> Row:
    found = row.registration(image)
    size = None if found is None else partition_size(row.topic, row.partition, found, answers)
    if not row.log_dirs:
        return replace(row, size_bytes=size)
    paths = tuple(answers.get(each, NOT_ASKED).path_of(*row.key) or ANY_LOG_DIR for each in row.original)
    return replace(row, size_bytes=size, original_log_dirs=paths)
