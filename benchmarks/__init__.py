"""Benchmarks of our controllers and Apache Kafka's with one load program in one run: `python -m benchmarks`."""
