"""The settings of a node: server.properties, parsed and validated."""
