"""The first blocks of a report, computed from the image for the page of reports before the first run."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from markupsafe import Markup

from app.pages import placement_charts
from app.pages.report_strip import StripItem, strip
from app.reports.live import live_report
from app.texts import recognised
from kraft_core.image.metadata_image import MetadataImage

PREVIEW_PARTITIONS: Final = 10_000
"""Most partitions of a preview: it is computed in this process, in about 2 s per 100,000 partitions."""


@dataclass(frozen=True, slots=True)
class PreviewView:
    """Model of _report_preview.html. `offset` is the one of the image."""

    offset: int
    strip: Sequence[StripItem]
    brokers_summary: str
    brokers_chart: Callable[[], Markup | None]
    advice: Sequence[str]
    racks: Sequence[Mapping[str, Any]]


async def preview(image: MetadataImage) -> PreviewView | None:
    """Return the preview of an image, None without partitions or with more than PREVIEW_PARTITIONS."""
    if not 0 < image.topics.partition_count() <= PREVIEW_PARTITIONS:
        return None
    body = await asyncio.to_thread(live_report, image)
    return PreviewView(
        offset=image.offset,
        strip=[unlinked(item) for item in strip(body["verdict"], None)],
        brokers_summary=placement_charts.summary(body["brokers"]),
        brokers_chart=partial(placement_charts.deviation_chart, body["brokers"]),
        advice=[recognised(each) for each in body["advice"]],
        racks=body["racks"],
    )


def unlinked(item: StripItem) -> StripItem:
    """Return the item without its link, whose rows only a report has."""
    return StripItem(item.label, item.value, item.tone, item.why, item.delta)
