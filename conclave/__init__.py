"""Conclave for other programs: Kafka clients (`kafka`), the REST client (`client`), its contexts (`contexts`) and the test kit (`testing`)."""
