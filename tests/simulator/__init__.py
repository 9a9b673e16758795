"""The simulator: whole nodes with real storage under a virtual clock, network and disk; `python -m tests.simulator`."""
