"""The command `conclave`."""
