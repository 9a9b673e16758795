"""Listeners and connections: the place with server sockets."""
