"""Metrics of a node, and the HTTP server for them."""
