"""Metrics of a node, and the HTTP page that serves them."""
