"""Brokers and controllers: registration, heartbeats, fencing, features."""
