"""The rules of the quorum, pure: events in, effects out."""
