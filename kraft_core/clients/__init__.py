"""Clients that connect to a cluster from outside: requests, raft channels, the observer of the metadata log."""
