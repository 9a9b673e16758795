"""Snapshots: reading, writing, serving and downloading them (KIP-630)."""
