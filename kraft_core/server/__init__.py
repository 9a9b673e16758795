"""The asyncio runtime: sockets, timers and the I/O thread."""
