"""The metadata log, snapshots and election state on disk."""
