"""Conclave for other programs: Kafka clients (`conclave.kafka`) and the test kit (`conclave.testing`)."""
