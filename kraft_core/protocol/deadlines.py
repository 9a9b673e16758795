"""Deadlines, in ms of a node's clock."""

from typing import Final

NEVER_MS: Final = 2**62
"""A deadline that does not come."""
