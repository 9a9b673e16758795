"""The settings of a node: server.properties, read and checked."""
