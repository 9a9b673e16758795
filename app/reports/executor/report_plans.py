"""The default plan of a report as rows of a plan."""

import json
from pathlib import Path

from app.cluster.partitions import Partition
from app.reports.executor.plan import Row
from app.reports.executor.plan_text import PlanError
from app.reports.proposals.formats import REASSIGN, ROLLBACK
from app.texts import phrase
from kraft_core.image.metadata_image import MetadataImage
from kraft_core.protocol.uuids import uuid_to_text


def report_rows(image: MetadataImage, folder: Path) -> list[Row]:
    """Return the rows of the default plan in the output folder of a report, without topics that no longer exist.

    The original replicas are those of the report, so that a partition which has moved since is stale. Raises PlanError
    when the report has no plan, or an empty one.
    """
    try:
        proposed, original = _read(folder / REASSIGN), _read(folder / ROLLBACK)
    except FileNotFoundError:
        raise PlanError(
            phrase(
                "The report has no plan: it was refused or not made, or its files were removed by age. "
                "Run another report."
            )
        ) from None
    rows = []
    for (name, index), replicas in proposed.items():
        topic = image.topics.topic(name)
        if topic is not None:
            rows.append(
                Row(
                    topic=name,
                    topic_id=uuid_to_text(topic.id),
                    partition=index,
                    original=original[name, index],
                    proposed=replicas,
                )
            )
    if not rows:
        raise PlanError(phrase("The plan of the report changes nothing."))
    return rows


def _read(path: Path) -> dict[Partition, tuple[int, ...]]:
    entries = json.loads(path.read_bytes())["partitions"]
    return {(each["topic"], each["partition"]): tuple(each["replicas"]) for each in entries}
