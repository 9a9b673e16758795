"""Conclave for other programs.

`kafka` has the Kafka clients, `client` the REST client, `contexts` its saved addresses and tokens, `testing` the test kit.
"""
