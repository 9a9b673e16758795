"""The simulator: whole nodes, with their real storage, under a virtual clock, network and disk: `python -m tests.simulator`."""
