"""The lake's part in a report: it registers the report and computes the trends that are stored with the report."""

import datetime as dt
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from app.reports.failures import reason_of
from app.reports.lake.lake import Lake, LakeError
from app.reports.lake.register import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LAKE_ERRORS: Final = (LakeError, OSError, pa.ArrowException)


def report_to_lake(
    spark: "SparkSession",
    location: str,
    conf: Mapping[str, str],
    snapshot: Path,
    manifest: Mapping[str, Any],
    body: Mapping[str, Any],
) -> dict[str, Any] | None:
    """Register a report in the lake at `location`, and return the trends, None if the lake has no records.

    A lake that cannot be read or written does not fail the report: the job's log has the reason, and there are no
    trends. Raises Spark's exceptions for a lost session only.
    """
    from app.reports.lake.trends import trends

    now = dt.datetime.now(dt.UTC)
    try:
        lake = Lake(location, conf)
        if not manifest.get("topic_prefix"):  # a part of the topics is no snapshot of the cluster
            register(lake, snapshot, manifest, body, round(now.timestamp() * 1000))
        try:
            return trends(spark, lake, manifest["cluster_id"], now)
        except Exception as error:  # Py4J's class or Connect's, by the session: only the text says that a file has gone
            if reason_of(error)[0] != "FILES_NOT_SHARED":
                raise
            return trends(spark, lake, manifest["cluster_id"], now)  # its writer may have merged files meanwhile
    except Exception as error:  # as above; what is neither the lake's nor a file's fails the report
        if not isinstance(error, _LAKE_ERRORS) and reason_of(error)[0] != "FILES_NOT_SHARED":
            raise
        sys.stderr.write(f"No trends, because of the lake '{location}': {type(error).__name__}: {error}\n")
        return None
