"""Runs the planner in a forked process, so that a large cluster's plan takes no time of the web process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from app.cluster.partitions import Partition
from app.forked import ForkFailedError, run_forked
from app.reports.executor.copied import with_sizes
from app.reports.executor.directories import Answers
from app.reports.executor.drains import drained_rows, propose_again, proposed_rows
from app.reports.executor.driver import DrainRefusedError
from app.reports.executor.effect import effect_of
from app.reports.executor.plan import PlanAgain, Row
from app.reports.executor.plan_text import PlanError
from app.reports.proposals.layout import layout_from_image
from app.reports.proposals.options import Options
from app.reports.sizes import partition_sizes
from app.texts import phrase
from kraft_core.image.metadata_image import MetadataImage

Draft = tuple[list[Row], dict[str, Any]]
"""Rows of a plan and the numbers of its proposal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    rows: list[Row] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    refused: str | None = None


async def proposed(image: MetadataImage, options: Options, answers: Answers) -> Draft:
    """Return `proposed_rows`. Raises PlanError."""
    return await _drafted(lambda: proposed_rows(image, options, answers))


async def drained(
    image: MetadataImage, brokers: Sequence[int], log_dirs: Sequence[tuple[int, str]], answers: Answers
) -> Draft:
    """Return `drained_rows`. Raises PlanError."""
    return await _drafted(lambda: drained_rows(image, brokers, log_dirs, answers))


async def reviewed(image: MetadataImage, work: Callable[[], Draft], answers: Answers) -> Draft:
    """Return the draft that `work` makes, its rows with their sizes, its numbers with `effect` (see effect_of).

    Raises PlanError as `work` does.
    """

    def whole() -> Draft:
        rows, numbers = work()
        rows = with_sizes(rows, image, answers)
        return rows, {**numbers, "effect": effect_of(layout_from_image(image, partition_sizes(image, answers)), rows)}

    return await _drafted(whole)


async def proposed_again(image: MetadataImage, step: PlanAgain, answers: Answers) -> Mapping[Partition, Row]:
    """Return `propose_again`. Raises DrainRefusedError; ForkFailedError and OSError as run_forked does."""
    try:
        rows, _ = await _planned(lambda: (list(propose_again(image, step, answers).values()), {}))
    except PlanError as refused:
        raise DrainRefusedError(str(refused)) from refused
    return {row.key: row for row in rows}


async def _drafted(work: Callable[[], Draft]) -> Draft:
    try:
        return await _planned(work)
    except (ForkFailedError, OSError) as failed:
        raise PlanError(phrase("No plan could be made: %(reason)s", reason=str(failed))) from failed


async def _planned(work: Callable[[], Draft]) -> Draft:
    def encoded() -> bytes:
        try:
            rows, numbers = work()
        except (PlanError, DrainRefusedError) as refused:
            return msgspec.json.encode(_Outcome(refused=str(refused)))
        return msgspec.json.encode(_Outcome(rows=rows, numbers=numbers))

    found = msgspec.json.decode(await run_forked(encoded), type=_Outcome)
    if found.refused is not None:
        raise PlanError(found.refused)
    return found.rows, found.numbers
