"""Ours and Apache Kafka's controllers side by side, in one run, under one load program: `python -m benchmarks`."""
