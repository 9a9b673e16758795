"""Side-by-side measurements against Apache Kafka's controller."""
