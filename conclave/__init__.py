"""Conclave for other programs: Kafka clients (`kafka`), the REST client (`client`) and the test kit (`testing`)."""
