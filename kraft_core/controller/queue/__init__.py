"""The order in which the controller does its work: events, and answers that wait for a commit."""
