"""The simulator: real raft nodes under a virtual clock, network and disk. Run it with `python -m tests.simulator`."""
