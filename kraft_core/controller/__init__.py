"""The QuorumController and its managers, pure."""
