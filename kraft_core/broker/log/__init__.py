"""Partition logs on disk, in Kafka's format: segments, indexes, recovery, retention, compaction and producer state."""
