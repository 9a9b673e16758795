"""Conclave for other programs.

`kafka` has the Kafka clients, `client` the REST client, `contexts` saved addresses and tokens, `testing` the test kit.
"""
