"""Proposals: which replicas to move and which leaders to elect, as pure functions of a layout and options."""
