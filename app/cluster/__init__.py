"""The quorum seen from outside: observer, admin calls, history."""
