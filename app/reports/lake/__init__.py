"""The metadata lake: the change feed of the metadata log and the reports' snapshots, as Parquet for other tools."""
