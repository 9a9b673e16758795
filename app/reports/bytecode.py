"""Compiles the modules that a report's job and Spark's workers import, where that has not been done.

    python -m app.reports.bytecode

Two thousand modules take some 8 s of processor time. A package installed without bytecode would take them in the first
report, and in every report if the environment has PYTHONDONTWRITEBYTECODE.
"""

import importlib
import sys

MODULES = (
    "app.reports.job",
    "app.reports.arrow_engine",
    "app.reports.body",
    "app.reports.proposals.default_plan",
    "app.reports.spark_files",
    "google.protobuf.text_format",
    "pandas",
    "pyarrow.dataset",
    "pyspark.daemon",
    "pyspark.sql.classic.dataframe",
    "pyspark.sql.pandas.map_ops",
    "pyspark.testing.utils",
    "pyspark.worker",
)


def main() -> int:
    """Import the modules, which compiles them. Returns 1 if this environment forbids to write bytecode."""
    for name in MODULES:
        importlib.import_module(name)
    return int(sys.dont_write_bytecode)


if __name__ == "__main__":
    sys.exit(main())
