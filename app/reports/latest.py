"""The latest report in short, for pages that are rendered often: a report's JSON can have megabytes."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.db.database import Database
from app.reports import store
from app.reports.models import ReportRun


@dataclass(frozen=True, slots=True)
class LatestReport:
    """The verdict and the trends of a report on all topics. `trends` is None without a lake."""

    id: int
    offset: int
    finished_at: dt.datetime | None
    verdict: Mapping[str, Any]
    trends: Mapping[str, Any] | None

    @classmethod
    def of(cls, run: ReportRun) -> "LatestReport":
        """Return the short form of a run that succeeded."""
        assert run.result is not None, "a succeeded run has a result"
        assert run.image_offset is not None, "a succeeded run has an offset"
        body = run.result["body"]
        return cls(run.id, run.image_offset, run.finished_at, body["verdict"], run.result.get("trends"))


class LatestReports:
    """Keeps the latest report in short until there is a newer one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._found: LatestReport | None = None

    async def get(self) -> LatestReport | None:
        """Return the latest report, None before the first. Reads its JSON only when there is a newer one."""
        newest = await self._database.read(store.latest_report_id)
        if newest is None:
            return None
        if self._found is None or self._found.id != newest:
            run = await self._database.read(store.latest_report)
            self._found = None if run is None else LatestReport.of(run)
        return self._found
