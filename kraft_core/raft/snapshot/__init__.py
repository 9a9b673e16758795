"""Snapshots: read, written, sent and fetched (KIP-630)."""
