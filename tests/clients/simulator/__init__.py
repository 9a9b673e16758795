"""The simulator of the clients: real client cores against simulated brokers; `python -m tests.clients.simulator`."""
